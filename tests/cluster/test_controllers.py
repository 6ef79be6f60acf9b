"""The controllers of the test bed: each acts on an object that people could have written by hand.

Nothing of ours is installed here; these tests say that the bed is real.
"""

from typing import Any

import pytest

from .controlplane import ControlPlane, condition, expect

IMAGE = "example.invalid/main"
V4_16 = {"cloud.google.com/gke-tpu-accelerator": "tpu-v4-podslice", "cloud.google.com/gke-tpu-topology": "2x2x2"}


def tpu_pod(selector: dict[str, str], chips: int, **spec: Any) -> dict[str, Any]:
    """A pod template of one container that asks for TPU chips where the selector says."""
    container = {"name": "main", "image": IMAGE, "resources": {"limits": {"google.com/tpu": str(chips)}}}
    tolerations = [{"key": "google.com/tpu", "operator": "Exists"}]
    return {"spec": {"containers": [container], "nodeSelector": selector, "tolerations": tolerations, **spec}}


def cpu_pod(name: str = "main", **spec: Any) -> dict[str, Any]:
    """A pod template of one container that asks for one CPU."""
    container = {"name": name, "image": IMAGE, "resources": {"requests": {"cpu": "1"}}}
    return {"spec": {"containers": [container], **spec}}


def create(cluster: ControlPlane, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Create an object and return it as stored."""
    created: dict[str, Any] = expect(cluster.request("POST", path, body), f"{body['kind']} {body['metadata']['name']}")
    return created


def phases(cluster: ControlPlane, namespace: str) -> list[str]:
    """Return the phases of the namespace's pods."""
    return [pod["status"]["phase"] for pod in cluster.pods(namespace)]


@pytest.mark.usefixtures("nodes", "jobset_controller")
def test_jobset_of_two_slices_runs_to_its_end(cluster: ControlPlane, namespace: str) -> None:
    """Two slices of two hosts: four pods, one on each v4 host, each slice in its own node pool, all completed."""
    exclusive = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}
    pods = tpu_pod(V4_16, 4, restartPolicy="Never")
    job = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimit": 0, "template": pods}
    slices = {"name": "slice", "replicas": 2, "template": {"metadata": {"annotations": exclusive}, "spec": job}}
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets"
    body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"}}
    stored = create(cluster, path, {**body, "spec": {"replicatedJobs": [slices]}})
    assert stored["spec"]["network"]["enableDNSHostnames"] is True  # its mutating webhook was there

    cluster.wait_for("four pods to run", lambda: phases(cluster, namespace) == ["Running"] * 4)
    found = cluster.pods(namespace)
    assert len({pod["spec"]["nodeName"] for pod in found}) == 4
    pools = {(pod["metadata"]["labels"]["jobset.sigs.k8s.io/job-index"], pod["spec"]["nodeName"][:-2]) for pod in found}
    assert len(pools) == 2
    cluster.complete(namespace)
    cluster.wait_for("the JobSet to complete", lambda: condition(cluster.get(f"{path}/train"), "Completed"))
    assert phases(cluster, namespace) == ["Succeeded"] * 4


@pytest.mark.usefixtures("jobset_controller")
def test_jobset_is_refused_by_its_own_webhook(cluster: ControlPlane, namespace: str) -> None:
    """JobSet's validating webhook works too: a success policy that names no replicated job is refused."""
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets"
    job = {"name": "a", "template": {"spec": {"template": cpu_pod(restartPolicy="Never")}}}
    policy = {"operator": "All", "targetReplicatedJobs": ["nobody"]}
    body = {"metadata": {"name": "wrong"}, "spec": {"replicatedJobs": [job], "successPolicy": policy}}
    answer = cluster.request("POST", path, {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", **body})
    assert answer.status == 403
    assert "nobody" in answer.body["message"]


@pytest.mark.usefixtures("nodes", "lws_controller")
def test_leaderworkerset_makes_its_groups(cluster: ControlPlane, namespace: str) -> None:
    """Two groups of a leader and a worker run, and LWS gave the workers their TPU environment."""
    template = {"size": 2, "workerTemplate": tpu_pod(V4_16, 4)}
    path = f"/apis/leaderworkerset.x-k8s.io/v1/namespaces/{namespace}/leaderworkersets"
    body = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "serve"}}
    create(cluster, path, {**body, "spec": {"replicas": 2, "leaderWorkerTemplate": template}})

    cluster.wait_for("four pods to run", lambda: phases(cluster, namespace) == ["Running"] * 4)
    worker = next(pod for pod in cluster.pods(namespace) if pod["metadata"]["name"] == "serve-0-1")
    variables = {variable["name"]: variable.get("value") for variable in worker["spec"]["containers"][0]["env"]}
    assert variables["TPU_WORKER_ID"] == "1"


@pytest.mark.usefixtures("nodes", "kueue_controller")
def test_kueue_admits_a_job_within_its_quota(cluster: ControlPlane, namespace: str) -> None:
    """Of two queued Jobs of four chips each, a quota of four chips lets one run at a time: Kueue counts the pods."""
    queue = cluster_queue(cluster, namespace, "google.com/tpu", "4")
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    for name in ("first", "second"):
        labels = {"kueue.x-k8s.io/queue-name": queue}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels}}
        spec = {"suspend": True, "template": tpu_pod(V4_16, 4, restartPolicy="Never")}
        create(cluster, jobs, {**body, "spec": spec})

    cluster.wait_for("one pod to run", lambda: phases(cluster, namespace) == ["Running"])
    cluster.complete(namespace)
    cluster.wait_for("the other to run", lambda: sorted(phases(cluster, namespace)) == ["Running", "Succeeded"])
    workloads = cluster.get(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads")["items"]
    usage = [w["status"]["admission"]["podSetAssignments"][0]["resourceUsage"] for w in workloads]
    assert [u["google.com/tpu"] for u in usage] == ["4", "4"]


@pytest.mark.usefixtures("nodes", "kueue_controller", "jobset_controller")
def test_kueue_holds_back_a_jobset_over_its_quota(cluster: ControlPlane, namespace: str) -> None:
    """A queued JobSet of eight chips stays suspended under a quota of four."""
    queue = cluster_queue(cluster, namespace, "google.com/tpu", "4")
    job = {"parallelism": 2, "completions": 2, "template": tpu_pod(V4_16, 4, restartPolicy="Never")}
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets"
    metadata = {"name": "big", "labels": {"kueue.x-k8s.io/queue-name": queue}}
    spec = {"replicatedJobs": [{"name": "slice", "template": {"spec": job}}]}
    body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}
    assert create(cluster, path, body)["spec"]["suspend"] is True  # Kueue's webhook

    def verdict() -> str:
        found = cluster.get(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads")["items"]
        return condition(found[0], "QuotaReserved") if found else ""

    assert cluster.wait_for("Kueue's verdict", verdict) == "False"
    assert cluster.pods(namespace) == []


def cluster_queue(cluster: ControlPlane, namespace: str, resource: str, quota: str) -> str:
    """Create a queue in the namespace with a quota of one resource (and plenty of CPU); return its name."""
    api = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    name = f"quota-{namespace}"
    quotas = [{"name": "cpu", "nominalQuota": "1000"}, {"name": resource, "nominalQuota": quota}]
    flavor = {"name": name, "resources": quotas}
    groups = [{"coveredResources": ["cpu", resource], "flavors": [flavor]}]
    cluster.apply(
        {**api, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {}},
        {
            **api,
            "kind": "ClusterQueue",
            "metadata": {"name": name},
            "spec": {"namespaceSelector": {}, "resourceGroups": groups},
        },
        {
            **api,
            "kind": "LocalQueue",
            "metadata": {"name": "queue", "namespace": namespace},
            "spec": {"clusterQueue": name},
        },
    )
    return "queue"


@pytest.mark.usefixtures("nodes", "kuberay_operator")
def test_kuberay_makes_a_cluster(cluster: ControlPlane, namespace: str) -> None:
    """A RayCluster of a head and one multi-host worker group gets its head and the hosts of its slice."""
    worker = tpu_pod(V4_16, 4)
    group = {"groupName": "tpu", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, "numOfHosts": 2, "template": worker}
    head = {"rayStartParams": {}, "template": cpu_pod("ray-head")}
    path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters"
    body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray"}}
    create(cluster, path, {**body, "spec": {"headGroupSpec": head, "workerGroupSpecs": [group]}})

    cluster.wait_for("a head and two workers to run", lambda: phases(cluster, namespace) == ["Running"] * 3)
    workers = cluster.pods(namespace, "ray.io/node-type=worker")
    assert len({pod["spec"]["nodeName"] for pod in workers}) == 2


@pytest.mark.usefixtures("nodes", "training_operator")
def test_training_operator_makes_a_pytorchjob(cluster: ControlPlane, namespace: str) -> None:
    """A PyTorchJob gets its master and its workers, which find each other by environment variables."""
    replicas = {
        "Master": {"replicas": 1, "template": cpu_pod("pytorch")},
        "Worker": {"replicas": 2, "template": cpu_pod("pytorch")},
    }
    path = f"/apis/kubeflow.org/v1/namespaces/{namespace}/pytorchjobs"
    body = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "train"}}
    create(cluster, path, {**body, "spec": {"pytorchReplicaSpecs": replicas}})
    cluster.wait_for("master and workers to run", lambda: phases(cluster, namespace) == ["Running"] * 3)
    worker = cluster.pods(namespace, "training.kubeflow.org/replica-type=worker")[0]
    variables = {variable["name"]: variable.get("value") for variable in worker["spec"]["containers"][0]["env"]}
    assert variables["MASTER_ADDR"] == "train-master-0"


@pytest.mark.usefixtures("training_operator")
def test_pytorchjob_is_refused_by_its_own_webhook(cluster: ControlPlane, namespace: str) -> None:
    """The training operator's validating webhook is called through its Service."""
    replicas = {"Master": {"replicas": 2, "template": cpu_pod("pytorch")}}
    body = {"metadata": {"name": "wrong"}, "spec": {"pytorchReplicaSpecs": replicas}}
    path = f"/apis/kubeflow.org/v1/namespaces/{namespace}/pytorchjobs"
    answer = cluster.request("POST", path, {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", **body})
    assert answer.status == 403
    assert "validator.pytorchjob" in answer.body["message"]
