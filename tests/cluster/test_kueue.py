"""Jobs and JobSets under the real Kueue: it counts chips that were injected, and its edits do not break injection."""

from typing import Any

import pytest

from .controlplane import ControlPlane, condition
from .environment import environment
from .pods import running

pytestmark = pytest.mark.usefixtures("injector", "nodes", "jobset_controller", "kueue_controller")

API = "kueue.x-k8s.io/v1beta2"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
SELECTOR = {"cloud.google.com/gke-tpu-accelerator": "tpu-v4-podslice", "cloud.google.com/gke-tpu-topology": "2x2x2"}
POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}

Object = dict[str, Any]


@pytest.fixture
def queue(cluster: ControlPlane, namespace: str) -> str:
    """A queue of eight chips, whose flavour has a node label of its own; its ClusterQueue has the same name."""
    name = f"eight-{namespace}"
    flavor = {"name": name, "resources": [{"name": "google.com/tpu", "nominalQuota": "8"}]}
    groups = [{"coveredResources": ["google.com/tpu"], "flavors": [flavor]}]
    labels = {"node.kubernetes.io/instance-type": "ct4p-hightpu-4t"}
    cluster.apply(
        {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {"nodeLabels": labels}},
        {
            "apiVersion": API,
            "kind": "ClusterQueue",
            "metadata": {"name": name},
            "spec": {"namespaceSelector": {}, "resourceGroups": groups},
        },
        {
            "apiVersion": API,
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"clusterQueue": name},
        },
    )
    return name


def metadata(name: str, queue: str, kind: str) -> Object:
    """The only words about accelerators and queues that the user writes."""
    return {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue}, "annotations": {"accel.io/type": kind}}


def jobset(name: str, queue: str, slices: int) -> Object:
    """A JobSet of slices of eight chips."""
    spec = {"backoffLimit": 0, "template": {"spec": POD}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata(name, queue, "tpu-v4-16"),
        "spec": {"replicatedJobs": [{"name": "slice", "replicas": slices, "template": {"spec": spec}}]},
    }


def job(name: str, queue: str, kind: str) -> Object:
    """A Job of one slice."""
    meta = metadata(name, queue, kind)
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": {"spec": POD}}}


def create(cluster: ControlPlane, path: str, obj: Object) -> Object:
    """The stored object."""
    answer = cluster.request("POST", path, obj)
    assert answer.status == 201, answer.body
    found: Object = answer.body
    return found


def reserved(cluster: ControlPlane, namespace: str, name: str) -> str:
    """Kueue's verdict on the object of this name: True, False, or empty before there is one."""
    items = cluster.get(f"/apis/{API}/namespaces/{namespace}/workloads")["items"]
    found = [item for item in items if item["metadata"]["ownerReferences"][0]["name"] == name]
    return condition(found[0], "QuotaReserved") if found else ""


def verdict(cluster: ControlPlane, namespace: str, name: str) -> str:
    """Kueue's verdict, once there is one."""
    return cluster.wait_for(f"Kueue's verdict on {name}", lambda: reserved(cluster, namespace, name), 60)


def check_pods(pods: list[Object]) -> None:
    """Each has its chips, our selectors beside the flavour's, and a host of its own."""
    for pod in pods:
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {"google.com/tpu": "4"}
        selector = pod["spec"]["nodeSelector"]
        assert {key: selector.get(key) for key in SELECTOR} == SELECTOR
        assert selector["node.kubernetes.io/instance-type"] == "ct4p-hightpu-4t"
    assert len({pod["spec"]["nodeName"] for pod in pods}) == len(pods)


def test_a_jobset_of_sixteen_chips_waits_and_one_of_eight_runs(
    cluster: ControlPlane, namespace: str, queue: str
) -> None:
    """Both say no more than their type, and how many slices they want."""
    path = JOBSETS.format(namespace)
    assert create(cluster, path, jobset("sixteen", queue, 2))["spec"]["suspend"] is True
    create(cluster, path, jobset("eight", queue, 1))

    assert verdict(cluster, namespace, "eight") == "True"
    assert verdict(cluster, namespace, "sixteen") == "False"
    check_pods(running(cluster, namespace, 2))
    assert {p["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] for p in cluster.pods(namespace)} == {"eight"}


def test_a_job_of_sixteen_chips_waits_and_one_of_eight_runs(cluster: ControlPlane, namespace: str, queue: str) -> None:
    """The hosts of a Job's slice are counted together."""
    path = JOBS.format(namespace)
    create(cluster, path, job("sixteen", queue, "tpu-v4-32"))
    create(cluster, path, job("eight", queue, "tpu-v4-16"))

    assert verdict(cluster, namespace, "eight") == "True"
    assert verdict(cluster, namespace, "sixteen") == "False"
    check_pods(running(cluster, namespace, 2))
    assert {p["metadata"]["labels"]["batch.kubernetes.io/job-name"] for p in cluster.pods(namespace)} == {"eight"}


def hold(cluster: ControlPlane, queue: str, policy: str) -> None:
    """Stop the queue and evict what runs in it, or let it go on (None)."""
    path = f"/apis/{API}/clusterqueues/{queue}"
    answer = cluster.request("PATCH", path, {"spec": {"stopPolicy": policy}})
    assert answer.ok, answer.body


def suspended(cluster: ControlPlane, path: str) -> Object | None:
    """The Job's spec, or that of the JobSet's Job, once it is suspended and its selectors are ours alone."""
    spec = cluster.get(path)["spec"]
    job = spec["replicatedJobs"][0]["template"]["spec"] if "replicatedJobs" in spec else spec
    return job if spec["suspend"] and job["template"]["spec"]["nodeSelector"] == SELECTOR else None


@pytest.mark.parametrize("kind", ["Job", "JobSet"])
def test_suspended_and_resumed(cluster: ControlPlane, namespace: str, queue: str, kind: str) -> None:
    """Kueue's own updates of the templates come through our webhook; what was injected is there all the time."""
    path = (JOBS if kind == "Job" else JOBSETS).format(namespace)
    obj = job("train", queue, "tpu-v4-16") if kind == "Job" else jobset("train", queue, 1)
    create(cluster, path, obj)
    first = running(cluster, namespace, 2)
    check_pods(first)

    hold(cluster, queue, "HoldAndDrain")
    cluster.wait_for("the pods to go", lambda: not cluster.pods(namespace), 90)
    spec = cluster.wait_for("Kueue to take its flavour back", lambda: suspended(cluster, f"{path}/train"), 60)
    assert (spec["parallelism"], spec["completions"], spec["completionMode"]) == (2, 2, "Indexed")
    assert spec["template"]["spec"]["containers"][0]["resources"]["limits"] == {"google.com/tpu": "4"}
    assert spec["template"]["metadata"]["annotations"]["accel.io/injected"] == "tpu-v4-16"

    hold(cluster, queue, "None")
    second = running(cluster, namespace, 2)
    check_pods(second)
    assert [environment(pod) for pod in second] == [environment(pod) for pod in first]
