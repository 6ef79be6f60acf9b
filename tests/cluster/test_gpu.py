"""GPUs, host devices, detection and schedulers on a real API server, with the real scheduler and controllers."""

import json
from typing import Any

import pytest

from tests.support.stored import missing

from .controlplane import ControlPlane, condition, expect

pytestmark = pytest.mark.usefixtures("injector", "nodes")

VALUES = {
    "config": {
        "platform": "gke",
        "hostProfiles": {
            "devices": {
                "types": ["nvidia-*"],
                "namespaces": ["test-*", "baseline-*"],
                "devices": ["/dev/nvidiactl", "/dev/nvidia-uvm", {"path": "/dev/nvidia", "perDevice": True}],
                "optionalDevices": ["/dev/nvidia-modeset"],
                "env": {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"},
                "exclusiveNode": True,
            },
            "libraries": {
                "types": ["nvidia-gpu"],
                "modes": ["plugin"],
                "namespaces": ["test-*"],
                "libraries": [{"hostPath": "/home/kubernetes/bin/nvidia", "mountPath": "/usr/local/nvidia"}],
            },
        },
        "placements": {"pool": {"nodeSelector": {"cloud.google.com/gke-nodepool": "gke-h100"}}},
        "detect": ["nvidia.com/gpu"],
    }
}
HOST = {"accel.io/type": "nvidia-h100-80gb", "accel.io/mode": "host", "accel.io/count": "2"}
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
LWS = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/{}/leaderworkersets"
VOLCANO = {"accel.io/type": "tpu-v4-16", "accel.io/scheduler": "volcano"}
MAIN = {"containers": [{"name": "main", "image": "example/train"}]}


def pod(annotations: dict[str, str], name: str = "train", **container: Any) -> dict[str, Any]:
    """A Pod with one container."""
    main = {"name": "main", "image": "example/train", **container}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"containers": [main]}}


def create(cluster: ControlPlane, namespace: str, obj: dict[str, Any]) -> Any:
    """POST a Pod; the answer, whatever it is."""
    return cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", obj)


def bound(cluster: ControlPlane, namespace: str, name: str = "train") -> str:
    """The node that the scheduler gives a Pod."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    node: str = cluster.wait_for(f"{name} to be bound", lambda: cluster.get(path)["spec"].get("nodeName"))
    return node


def test_an_h100_pod_lands_on_the_gke_node(cluster: ControlPlane, namespace: str) -> None:
    """Eight GPUs by name, with GKE's label and past the taint."""
    stored = expect(
        create(cluster, namespace, pod({"accel.io/type": "nvidia-h100-80gb", "accel.io/count": "8"})), "the pod"
    )

    assert {"nvidia.com/gpu": "8"} == stored["spec"]["containers"][0]["resources"]["limits"]
    assert "gke-h100" == bound(cluster, namespace)


def test_a_placement_chooses_the_pool(cluster: ControlPlane, namespace: str) -> None:
    """Any GPU, in the admin's pool."""
    expect(create(cluster, namespace, pod({"accel.io/type": "nvidia-gpu", "accel.io/placement": "pool"})), "the pod")

    assert "gke-h100" == bound(cluster, namespace)


def test_mode_host_is_stored_with_character_devices(cluster: ControlPlane, namespace: str) -> None:
    """The API server takes the volumes as they are; the kubelet will check that each is a device."""
    answer = create(cluster, namespace, pod(HOST))
    stored = expect(answer, "the pod")
    volumes = {v["hostPath"]["path"]: v["hostPath"]["type"] for v in stored["spec"]["volumes"] if "hostPath" in v}

    devices = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia1")
    assert {**dict.fromkeys(devices, "CharDevice"), "/dev/nvidia-modeset": ""} == volumes
    assert "nvidia.com/gpu" not in json.dumps(stored["spec"]["containers"][0].get("resources", {}))
    assert any("cannot be opened without privileged" in warning for warning in answer.warnings)
    assert "gke-h100" == bound(cluster, namespace)


def test_mode_host_takes_the_node_for_itself(cluster: ControlPlane, namespace: str) -> None:
    """A second such Pod, of another namespace, waits until the first is gone: nothing else counts the devices."""
    other = cluster.namespace({"accel.io/injection": "enabled"})
    expect(create(cluster, namespace, pod(HOST)), "the pod")
    assert "gke-h100" == bound(cluster, namespace)
    expect(create(cluster, other, pod(HOST)), "the other pod")

    waiting = cluster.wait_for("the other pod to be looked at", lambda: unschedulable(cluster, other))
    assert "anti-affinity" in waiting
    cluster.delete_namespace(namespace)
    assert "gke-h100" == bound(cluster, other)
    cluster.delete_namespace(other)


def unschedulable(cluster: ControlPlane, namespace: str) -> str:
    """The scheduler's reason; empty while it has none."""
    (found,) = cluster.pods(namespace)
    if condition(found, "PodScheduled") != "False":
        return ""
    return str(next(c["message"] for c in found["status"]["conditions"] if c["type"] == "PodScheduled"))


def test_pod_security_refuses_and_we_said_why(cluster: ControlPlane) -> None:
    """In a namespace with PodSecurity baseline the API server has the last word; our warning stands beside it."""
    labels = {"accel.io/injection": "enabled", "pod-security.kubernetes.io/enforce": "baseline"}
    namespace = cluster.namespace(labels, prefix="baseline")
    answer = create(cluster, namespace, pod(HOST))

    assert 403 == answer.status
    assert "hostPath volumes" in answer.body["message"]
    assert any("PodSecurity baseline and restricted refuse" in warning for warning in answer.warnings)
    cluster.delete_namespace(namespace)


def test_a_namespace_without_a_profile_is_forbidden(cluster: ControlPlane) -> None:
    """403, with what this namespace may do instead."""
    namespace = cluster.namespace({"accel.io/injection": "enabled"}, prefix="other")
    answer = create(cluster, namespace, pod(HOST))

    assert (403, "Forbidden") == (answer.status, answer.body["reason"])
    assert "valid here: plugin" in answer.body["message"]
    cluster.delete_namespace(namespace)


def test_a_bare_limit_is_detected(cluster: ControlPlane, namespace: str) -> None:
    """No annotation: the entry detect.accel.io sends the Pod, and it gets the profile and nothing else."""
    stored = expect(create(cluster, namespace, pod({}, resources={"limits": {"nvidia.com/gpu": "1"}})), "the pod")
    none = expect(create(cluster, namespace, pod({}, "none", resources={"limits": {"nvidia.com/gpu": "0"}})), "the pod")

    mounts = {m["mountPath"] for m in stored["spec"]["containers"][0]["volumeMounts"]}
    assert "/usr/local/nvidia" in mounts
    assert "nodeSelector" not in stored["spec"]
    assert "annotations" not in stored["metadata"]
    assert "/usr/local/nvidia" not in json.dumps(none)


@pytest.mark.usefixtures("jobset_controller")
def test_a_jobset_in_mode_host_can_be_applied_again(cluster: ControlPlane, namespace: str) -> None:
    """kubectl apply of the same file sets its lists back, and the templates are immutable: the stored ones stay."""
    job = {"name": "workers", "replicas": 1, "template": {"spec": {"template": {"spec": {**MAIN}}}}}
    manifest: dict[str, Any] = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": namespace, "annotations": HOST},
        "spec": {"replicatedJobs": [job]},
    }
    first = cluster.kubectl("apply", "-f", "-", input=json.dumps(manifest))
    before = template_of(cluster, namespace)
    manifest["metadata"]["labels"] = {"touched": "yes"}
    again = cluster.kubectl("apply", "-f", "-", input=json.dumps(manifest))

    assert "created" in first.stdout
    assert "refuse this Pod" in first.stderr
    assert "configured" in again.stdout
    assert [] == missing(before, template_of(cluster, namespace))
    (made,) = cluster.wait_for("the pod", lambda: cluster.pods(namespace))
    assert "/dev/nvidia1" in json.dumps(made["spec"]["volumes"])


def template_of(cluster: ControlPlane, namespace: str) -> Any:
    """The Job spec of the stored JobSet's only replicated job."""
    return cluster.get(f"{JOBSETS.format(namespace)}/train")["spec"]["replicatedJobs"][0]["template"]["spec"]


def scheduler_names(cluster: ControlPlane, namespace: str, count: int) -> set[str]:
    """schedulerName of the workload's pods, once there are so many."""

    def made() -> list[dict[str, Any]]:
        pods = cluster.pods(namespace)
        return pods if len(pods) == count else []

    return {p["spec"]["schedulerName"] for p in cluster.wait_for(f"{count} pods", made, 60)}


def test_volcano_is_on_the_pods_of_a_job(cluster: ControlPlane, namespace: str) -> None:
    """By the Job's template; the Job carries the size of the gang for Volcano to read."""
    template = {"spec": {**MAIN, "restartPolicy": "Never", "subdomain": "train"}}
    job = {"metadata": {"name": "train", "annotations": VOLCANO}, "spec": {"template": template}}
    stored = expect(cluster.request("POST", JOBS.format(namespace), job), "the job")

    assert "2" == stored["metadata"]["annotations"]["scheduling.volcano.sh/group-min-member"]
    assert {"volcano"} == scheduler_names(cluster, namespace, 2)


@pytest.mark.usefixtures("jobset_controller")
def test_volcano_is_on_the_pods_of_a_jobset(cluster: ControlPlane, namespace: str) -> None:
    """By the template of each replicated job; each child Job is a gang of its own."""
    job = {"name": "slice", "replicas": 2, "template": {"spec": {"template": {"spec": {**MAIN}}}}}
    jobset = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "annotations": {**VOLCANO, "accel.io/queue": "research"}},
        "spec": {"replicatedJobs": [job]},
    }
    expect(cluster.request("POST", JOBSETS.format(namespace), jobset), "the jobset")

    assert {"volcano"} == scheduler_names(cluster, namespace, 4)
    children = cluster.get(JOBS.format(namespace))["items"]
    key = "scheduling.volcano.sh/group-min-member"
    assert ["2", "2"] == [child["metadata"]["annotations"][key] for child in children]
    queues = {p["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] for p in cluster.pods(namespace)}
    assert {"research"} == queues


@pytest.mark.usefixtures("lws_controller")
def test_volcano_is_on_the_pods_of_a_leaderworkerset(cluster: ControlPlane, namespace: str) -> None:
    """On the leader and on the workers."""
    lws = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve", "annotations": VOLCANO},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"workerTemplate": {"spec": {**MAIN}}}},
    }
    expect(cluster.request("POST", LWS.format(namespace), lws), "the set")

    assert {"volcano"} == scheduler_names(cluster, namespace, 2)
