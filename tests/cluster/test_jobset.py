"""JobSets and Jobs with the real JobSet controller, scheduler and Job controller, on fake TPU nodes."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.support.stored import meaning

from .controlplane import ControlPlane, condition
from .environment import environment

pytestmark = pytest.mark.usefixtures("injector", "nodes", "jobset_controller")

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
POOL = "cloud.google.com/gke-nodepool"


def replicated(name: str, replicas: int = 1, **fields: Any) -> dict[str, Any]:
    """A replicated job with one container; `annotations` go on its pod template."""
    template: dict[str, Any] = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
    if annotations := fields.pop("annotations", None):
        template["metadata"] = {"annotations": annotations}
    spec = {"backoffLimit": 0, "template": template, **fields.pop("spec", {})}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **fields}


def jobset(*jobs: dict[str, Any], metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A JobSet whose only word about accelerators is the type."""
    annotations = {"accel.io/type": "tpu-v4-16"}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "annotations": annotations, **(metadata or {})},
        "spec": {"replicatedJobs": list(jobs), **spec},
    }


CPU = {"accel.io/type": "none"}


def create(cluster: ControlPlane, namespace: str, obj: dict[str, Any]) -> dict[str, Any]:
    """The stored JobSet."""
    if "generateName" in obj["metadata"]:
        del obj["metadata"]["name"]
    answer = cluster.request("POST", JOBSETS.format(namespace), obj)
    assert answer.status == 201, answer.body
    found: dict[str, Any] = answer.body
    return found


def running(cluster: ControlPlane, namespace: str, count: int) -> list[dict[str, Any]]:
    """The pods, once there are `count` and all run."""

    def all_run() -> list[dict[str, Any]]:
        pods = [p for p in cluster.pods(namespace) if p["status"].get("phase") == "Running"]
        return pods if len(pods) == count else []

    found: list[dict[str, Any]] = cluster.wait_for(f"{count} pods to run", all_run, 60)
    return found


def slices_of(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pods that hold chips."""
    return [p for p in pods if "google.com/tpu" in p["spec"]["containers"][0].get("resources", {}).get("limits", {})]


def check(pods: list[dict[str, Any]], slices: int) -> str:
    """Every TPU pod knows the number of slices, its own, and a coordinator that is one of these pods: its name."""
    found = [(pod, environment(pod)) for pod in slices_of(pods)]
    hosts = {f"{p['spec']['hostname']}.{p['spec']['subdomain']}" for p in pods}
    coordinators = {env["MEGASCALE_COORDINATOR_ADDRESS"] for _, env in found}

    assert {str(slices)} == {env["MEGASCALE_NUM_SLICES"] for _, env in found}
    assert sorted(str(i) for i in range(slices) for _ in range(2)) == sorted(e["MEGASCALE_SLICE_ID"] for _, e in found)
    by_job: dict[str, set[str]] = {}
    for pod, env in found:
        by_job.setdefault(pod["metadata"]["labels"]["batch.kubernetes.io/job-name"], set()).add(
            env["MEGASCALE_SLICE_ID"]
        )
    assert all(len(ids) == 1 for ids in by_job.values()), by_job
    assert len(coordinators) == 1
    assert coordinators <= hosts
    (coordinator,) = coordinators
    (first,) = [env for pod, env in found if f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}" == coordinator]
    assert first["MEGASCALE_SLICE_ID"] == "0"
    return coordinator


def test_one_annotation_makes_two_slices_that_run_to_the_end(cluster: ControlPlane, namespace: str) -> None:
    """Four pods, one per node, each slice in a node pool of its own."""
    create(cluster, namespace, jobset(replicated("slice", 2)))
    pods = running(cluster, namespace, 4)

    assert 4 == len({p["spec"]["nodeName"] for p in pods})
    pools: dict[str, set[str]] = {}
    for pod in pods:
        job = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
        pools.setdefault(job, set()).add(
            cluster.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")["metadata"]["labels"][POOL]
        )
    assert all(len(found) == 1 for found in pools.values()), pools
    assert "train-slice-0-0.train" == check(pods, 2)
    for pod in pods:
        assert pod["metadata"]["annotations"]["jobset.sigs.k8s.io/job-index"] == environment(pod)["MEGASCALE_SLICE_ID"]
    cluster.complete(namespace)
    cluster.wait_for(
        "the JobSet to complete",
        lambda: condition(cluster.get(JOBSETS.format(namespace) + "/train"), "Completed") == "True",
        60,
    )


VARIANTS = {
    "a CPU job beside it": (
        jobset(replicated("driver", annotations=CPU), replicated("slice", 2)),
        5,
        "train-slice-0-0.train",
    ),
    "two TPU jobs and a CPU job": (
        jobset(replicated("driver", annotations=CPU), replicated("a"), replicated("b")),
        5,
        "train-a-0-0.train",
    ),
    "own groups": (
        jobset(
            replicated("driver", annotations=CPU, groupName="cpu"),
            replicated("a", groupName="tpu"),
            replicated("b", groupName="tpu"),
        ),
        5,
        "train-a-0-0.train",
    ),
    "own subdomain": (jobset(replicated("slice", 2), network={"subdomain": "net"}), 4, "train-slice-0-0.net"),
    "own coordinator": (
        jobset(replicated("slice", 2), coordinator={"replicatedJob": "slice", "jobIndex": 0, "podIndex": 0}),
        4,
        "train-slice-0-0.train",
    ),
    "the driver coordinates JobSet, not the slices": (
        jobset(
            replicated("driver", annotations=CPU, spec={"completions": 1, "parallelism": 1}),
            replicated("slice", 2),
            coordinator={"replicatedJob": "driver"},
        ),
        5,
        "train-slice-0-0.train",
    ),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_slices_know_each_other(cluster: ControlPlane, namespace: str, variant: str) -> None:
    """Whatever else the JobSet has."""
    obj, count, coordinator = VARIANTS[variant]
    create(cluster, namespace, copy.deepcopy(obj))

    assert coordinator == check(running(cluster, namespace, count), 2)


def test_a_generated_name(cluster: ControlPlane, namespace: str) -> None:
    """Admission comes before the name, so the pods look it up."""
    stored = create(cluster, namespace, jobset(replicated("slice", 2), metadata={"generateName": "train-"}))
    name = stored["metadata"]["name"]

    assert f"{name}-slice-0-0.{name}" == check(running(cluster, namespace, 4), 2)


def test_after_a_failed_job_was_restarted(cluster: ControlPlane, namespace: str) -> None:
    """New Jobs and pods, the same indexes: nothing was counted at admission."""
    create(cluster, namespace, jobset(replicated("slice", 2), failurePolicy={"maxRestarts": 1}))
    before = {p["metadata"]["uid"] for p in running(cluster, namespace, 4)}
    failed = cluster.pods(namespace)[0]["metadata"]["name"]
    status = {"status": {"phase": "Failed", "containerStatuses": None, "conditions": None}}
    cluster.kubectl(
        "patch", "pod", failed, "-n", namespace, "--subresource=status", "--type=merge", "-p", json.dumps(status)
    )

    def restarted() -> list[dict[str, Any]]:
        pods = [p for p in cluster.pods(namespace) if p["status"].get("phase") == "Running"]
        return pods if len(pods) == 4 and not before & {p["metadata"]["uid"] for p in pods} else []

    check(cluster.wait_for("four new pods to run", restarted, 90), 2)


def test_suspended_changed_and_resumed(cluster: ControlPlane, namespace: str) -> None:
    """What Kueue does: create suspended, add node selectors to the templates, resume; ours stay right."""
    create(cluster, namespace, jobset(replicated("slice", 2), suspend=True))
    path = JOBSETS.format(namespace) + "/train"

    def resume(stored: dict[str, Any]) -> None:
        template = stored["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        template["nodeSelector"]["node.kubernetes.io/instance-type"] = "ct4p-hightpu-4t"
        stored["spec"]["suspend"] = False

    assert [] == [w for w in update(cluster, path, resume) if w.startswith("accel.io")]
    pods = running(cluster, namespace, 4)
    check(pods, 2)
    for pod in pods:
        assert "ct4p-hightpu-4t" == pod["spec"]["nodeSelector"]["node.kubernetes.io/instance-type"]
        assert "2x2x2" == pod["spec"]["nodeSelector"]["cloud.google.com/gke-tpu-topology"]
    update(cluster, path, lambda stored: stored["spec"].update(suspend=True))
    cluster.wait_for("the pods to be gone", lambda: not cluster.pods(namespace), 60)


def update(cluster: ControlPlane, path: str, change: Callable[[dict[str, Any]], None]) -> tuple[str, ...]:
    """Change the stored object; again where its controller was faster. The warnings."""

    def put() -> Any:
        stored = cluster.get(path)
        change(stored)
        answer = cluster.request("PUT", path, stored)
        assert answer.status in (200, 409), answer.body
        return answer if answer.status == 200 else None

    warnings: tuple[str, ...] = cluster.wait_for("the update", put).warnings
    return warnings


JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train", "annotations": {"accel.io/type": "tpu-v4-16"}},
    "spec": {
        "parallelism": 1,
        "suspend": True,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "subdomain": "train",
                "tolerations": [{"key": "team", "operator": "Exists"}],
                "containers": [{"name": "main", "image": "i"}],
            }
        },
    },
}
PLAIN_JOB = {
    **JOB,
    "spec": {
        "suspend": True,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}},
    },
}
SPELLED_OUT = jobset(
    {**replicated("slice", 2), "groupName": "default"},
    suspend=True,
    network={"enableDNSHostnames": True, "publishNotReadyAddresses": True},
    successPolicy={"operator": "All", "targetReplicatedJobs": []},
)
APPLIED = {
    "Job": PLAIN_JOB,
    "Job with its own list and parallelism 1": JOB,
    "JobSet": jobset(replicated("slice", 2), suspend=True),
    "JobSet with defaults written out": SPELLED_OUT,
    "JobSet of two members and a CPU job": jobset(
        replicated("driver", annotations=CPU), replicated("a"), replicated("b"), suspend=True
    ),
}


@pytest.mark.parametrize("server_side", [False, True], ids=["client-side", "server-side"])
@pytest.mark.parametrize("name", APPLIED)
def test_applying_the_same_file_twice(cluster: ControlPlane, namespace: str, name: str, server_side: bool) -> None:
    """No error, no difference, and nothing for kubectl diff to show."""
    text = yaml.safe_dump(APPLIED[name])
    side = ["--server-side"] if server_side else []
    apply = ["apply", *side, "-n", namespace, "-f", "-"]
    cluster.kubectl(*apply, input=text)
    first = spec_of(cluster, namespace, name)
    again = cluster.kubectl(*apply, input=text)
    diff = cluster.kubectl("diff", *side, "-n", namespace, "-f", "-", input=text, check=False)

    assert "accel.io" not in again.stderr
    assert first == spec_of(cluster, namespace, name)
    assert (0, "") == (diff.returncode, diff.stdout), diff.stdout


def spec_of(cluster: ControlPlane, namespace: str, name: str) -> Any:
    """The stored spec of the one object."""
    kind = "jobs.batch" if name.startswith("Job with") or name == "Job" else "jobsets.jobset.x-k8s.io"
    return meaning(json.loads(cluster.kubectl("get", kind, "train", "-n", namespace, "-o", "json").stdout)["spec"])


def test_objects_from_before_the_namespace_was_labelled(cluster: ControlPlane) -> None:
    """A Deployment makes no ReplicaSets without end, a JobSet goes on, and their new pods are injected."""
    namespace = cluster.namespace()
    template = {
        "metadata": {"labels": {"app": "serve"}, "annotations": {"accel.io/type": "tpu-v4-8"}},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "serve", "namespace": namespace},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "serve"}}, "template": template},
    }
    cluster.apply(deployment)
    cluster.wait_for("the first pod", lambda: cluster.pods(namespace, "app=serve"))
    create(cluster, namespace, jobset(replicated("slice", 1, spec={"parallelism": 2, "completions": 2})))
    cluster.kubectl("label", "namespace", namespace, "accel.io/injection=enabled")
    cluster.kubectl("rollout", "restart", "deployment/serve", "-n", namespace)
    cluster.kubectl("delete", "pods", "-n", namespace, "--all", "--force", "--grace-period=0")

    def injected() -> list[dict[str, Any]]:
        pods = slices_of(cluster.pods(namespace, "app=serve"))
        return pods if pods and len(pods) == len(cluster.pods(namespace, "app=serve")) else []

    cluster.wait_for("injected pods", injected, 60)
    sets = cluster.get(f"/apis/apps/v1/namespaces/{namespace}/replicasets")["items"]
    cluster.delete_namespace(namespace)
    assert 2 == len(sets)
