"""What JAX and Ray make of the Pods that the real controllers make of workloads, with environment: full.

Every container with chips is asked, in a process with its environment: who coordinates, how many processes there are,
which it is. Hosts are known by name where a Service has them, whether they are ready or not.
"""

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import yaml

from tests.readers import venv

from . import binaries
from .controlplane import ControlPlane
from .environment import environment

pytestmark = pytest.mark.usefixtures("injector")

VALUES = {"config": {"tpu": {"environment": "full"}, "exclusivePlacement": False}}
CHIPS = "google.com/tpu"
COORDINATOR_PORT = 8482
POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}
TWO = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}
DIVIDED = {"accel.io/container": "a,b"}

Object = dict[str, Any]


class Asked(NamedTuple):
    """A container with chips."""

    pod: Object
    environment: dict[str, str]
    chips: int

    @property
    def name(self) -> str:
        """The name of its host in the cluster's DNS."""
        return host(self.pod)


class Workload(NamedTuple):
    """Objects, and how many processes each JAX job of theirs should have."""

    objects: tuple[Object, ...]
    jobs: tuple[int, ...]
    asks_metadata: bool = False


def host(pod: Object) -> str:
    """Its name in the cluster's DNS; empty where it has none."""
    spec = pod["spec"]
    return f"{spec['hostname']}.{spec['subdomain']}" if spec.get("subdomain") and spec.get("hostname") else ""


def service(name: str, selector: dict[str, str]) -> Object:
    """The headless Service that the user makes for the hosts of a Job or StatefulSet."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def named(kind: str, version: str, type_name: str, annotations: dict[str, str] | None = None) -> Object:
    """The head of an object that is called after its kind."""
    annotated = {"accel.io/type": type_name, **(annotations or {})}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": kind.lower(), "annotations": annotated}}


def replicated(name: str, replicas: int = 1, pod: Object = POD, type_name: str = "", **fields: Any) -> Object:
    """A replicated job."""
    metadata = {"metadata": {"annotations": {"accel.io/type": type_name}}} if type_name else {}
    template = {"spec": {"template": {**metadata, "spec": pod}}}
    return {"name": name, "replicas": replicas, "template": template, **fields}


def jobset(name: str, *jobs: Object, type_name: str = "tpu-v4-16", annotations: dict[str, str] | None = None) -> Object:
    """A JobSet; a name that ends with a dash is to be generated."""
    found = named("JobSet", "jobset.x-k8s.io/v1alpha2", type_name, annotations)
    found["metadata"].pop("name")
    found["metadata"]["generateName" if name.endswith("-") else "name"] = name
    return {**found, "spec": {"replicatedJobs": list(jobs)}}


def job(name: str, type_name: str, pod: Object, annotations: dict[str, str] | None = None) -> tuple[Object, ...]:
    """A Job of one slice, with its Service."""
    found = named("Job", "batch/v1", type_name, annotations)
    found["metadata"]["name"] = name
    spec = {"template": {"spec": {**pod, "subdomain": name}}}
    return service(name, {"job-name": name}), {**found, "spec": spec}


def stateful_set() -> tuple[Object, ...]:
    """A StatefulSet whose Pods are the hosts of one slice, with its Service."""
    labels = {"app": "stateful"}
    template = {
        "metadata": {"labels": labels, "annotations": {"accel.io/type": "tpu-v4-16"}},
        "spec": {"containers": POD["containers"]},
    }
    spec = {
        "replicas": 2,
        "podManagementPolicy": "Parallel",
        "serviceName": "hosts",
        "selector": {"matchLabels": labels},
        "template": template,
    }
    found = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "stateful"}, "spec": spec}
    return service("hosts", labels), found


def leader_worker_set() -> Object:
    """A group of four hosts."""
    template = {"spec": {"containers": POD["containers"]}}
    group = {"leaderWorkerTemplate": {"workerTemplate": template}}
    return {**named("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", "tpu-v5e-16"), "spec": {"replicas": 1, **group}}


ONE_HOST = {**named("Pod", "v1", "tpu7x-8", DIVIDED), "spec": TWO}
SLICES = "slices"
WORKLOADS = {
    "job": Workload(job("job", "tpu-v4-16", POD), (2,)),
    "job-divided": Workload(job("divided", "tpu7x-16", TWO, DIVIDED), (4,)),
    "jobset": Workload((jobset("one", replicated("slice"), type_name="tpu-v6e-16"),), (4,)),
    "jobset-slices": Workload((jobset(SLICES, replicated("slice", 2)),), (4,)),
    "jobset-driver": Workload((jobset("driven", replicated("driver", type_name="none"), replicated("s", 2)),), (4,)),
    "jobset-generated-name": Workload((jobset("made-", replicated("slice", 2)),), (4,)),
    "jobset-member-without-jobs": Workload((jobset("spared", replicated("spare", 0), replicated("s", 2)),), (4,)),
    "jobset-groups": Workload(
        (jobset("two", replicated("a", 2, groupName="left"), replicated("b", 2, groupName="right")),), (4, 4)
    ),
    "jobset-apart": Workload(
        (jobset("apart", replicated("s", 2), annotations={"accel.io/multislice": "false"}),), (2, 2)
    ),
    "jobset-divided": Workload(
        (jobset("halves", replicated("s", 2, TWO), type_name="tpu7x-16", annotations=DIVIDED),), (8,)
    ),
    "statefulset": Workload(stateful_set(), (2,)),
    "leaderworkerset": Workload((leader_worker_set(),), (4,), asks_metadata=True),
    "pod-divided": Workload((ONE_HOST,), (2,)),
}


@pytest.fixture(scope="module")
def reader(jobset_controller: None, lws_controller: None) -> None:
    """The libraries, installed before anything waits for them; skips where there are no wheels."""
    venv.python()


@pytest.fixture(scope="module")
def namespaces(cluster: ControlPlane, reader: None, injector: object) -> Iterator[dict[str, str]]:
    """A namespace for each workload, made at once: their controllers work at the same time."""
    found = {name: cluster.namespace({"accel.io/injection": "enabled"}) for name in WORKLOADS}
    for name, workload in WORKLOADS.items():
        text = yaml.safe_dump_all(workload.objects)
        cluster.kubectl("create", "-n", found[name], "-f", "-", input=text)
    yield found
    for namespace in found.values():
        cluster.delete_namespace(namespace)


def containers(cluster: ControlPlane, namespace: str, count: int) -> list[Asked]:
    """The containers with chips, once there are so many."""

    def all_made() -> list[Asked]:
        found = [asked for pod in cluster.pods(namespace) for asked in with_chips(pod)]
        return found if len(found) == count else []

    found: list[Asked] = cluster.wait_for(f"{count} containers with chips", all_made, 120)
    return found


def with_chips(pod: Object) -> list[Asked]:
    """Those of one Pod."""
    amounts = [int(c.get("resources", {}).get("limits", {}).get(CHIPS, 0)) for c in pod["spec"]["containers"]]
    return [Asked(pod, environment(pod, index), chips) for index, chips in enumerate(amounts) if chips]


def known_names(cluster: ControlPlane, namespace: str, pods: list[Object]) -> list[str]:
    """What DNS answers before any Pod is ready: the hosts of headless Services that publish them so early."""
    found = ["localhost"]
    for one in cluster.get(f"/api/v1/namespaces/{namespace}/services")["items"]:
        spec = one["spec"]
        if spec.get("clusterIP") != "None" or not spec.get("publishNotReadyAddresses"):
            continue
        selected = [p for p in pods if spec["selector"].items() <= p["metadata"]["labels"].items()]
        found += [host(p) for p in selected if p["spec"].get("subdomain") == one["metadata"]["name"]]
    return found


@pytest.mark.parametrize("name", WORKLOADS)
def test_jax_counts_every_process_once(cluster: ControlPlane, namespaces: dict[str, str], name: str) -> None:
    """0 to N - 1 in each job, and the coordinator is number 0, by a name that is known.

    libtpu wants as many addresses as the bounds have hosts, so those agree too.
    """
    workload, namespace = WORKLOADS[name], namespaces[name]
    asked = containers(cluster, namespace, sum(workload.jobs))
    names = known_names(cluster, namespace, [a.pod for a in asked])
    answers = venv.ask("jax_cluster", [{"environment": a.environment, "names": names} for a in asked])

    assert [] == [a["error"] for a in answers if "error" in a]
    jobs: dict[str, list[tuple[Asked, Object]]] = {}
    for one, answer in zip(asked, answers, strict=True):
        jobs.setdefault(answer["address"], []).append((one, answer))
        if not workload.asks_metadata:
            assert answer["asked"] == []
        assert bounds(one) == addresses(one)
    assert sorted(workload.jobs) == sorted(len(members) for members in jobs.values())
    for address, members in jobs.items():
        assert list(range(len(members))) == sorted(answer["id"] for _, answer in members)
        assert {len(members)} == {answer["count"] for _, answer in members}
        (first,) = [one for one, answer in members if answer["id"] == 0]
        assert address in (f"{first.name}:{COORDINATOR_PORT}", f"localhost:{COORDINATOR_PORT}")


def bounds(asked: Asked) -> int:
    """The hosts, or processes, of one slice by its shape."""
    return math.prod(int(size) for size in asked.environment["TPU_HOST_BOUNDS"].split(","))


def addresses(asked: Asked) -> int:
    """Those that are listed."""
    return len(asked.environment["TPU_WORKER_HOSTNAMES"].split(","))


def test_two_slices_add_up(cluster: ControlPlane, namespaces: dict[str, str]) -> None:
    """jax.distributed.initialize() in four processes, and a sum that needs all of them."""
    asked = containers(cluster, namespaces["jobset-slices"], 4)
    with binaries.lock(binaries.cache() / "readers-sum.lock"):  # the coordinator's port is a fixed one
        answers = venv.ask("jax_sum", [a.environment for a in asked])

    assert [0, 1, 2, 3] == sorted(answer["id"] for answer in answers)
    assert [(4, 10.0)] * 4 == [(answer["count"], answer["sum"]) for answer in answers]


@pytest.mark.usefixtures("kuberay_operator")
def test_ray_knows_its_slice(cluster: ControlPlane, namespace: str, reader: None) -> None:
    """Type, topology and hosts are ours; the name and the id, which KubeRay's TPU webhook sets, are put in here."""
    template = {"spec": {"containers": [{"name": "worker", "image": "i"}]}}
    group = {"groupName": "tpu", "rayStartParams": {}, "template": template}
    head = {"rayStartParams": {}, "template": {"spec": {"containers": [{"name": "head", "image": "i"}]}}}
    spec = {"headGroupSpec": head, "workerGroupSpecs": [{**group, "replicas": 1, "minReplicas": 1, "maxReplicas": 1}]}
    cluster.kubectl(
        "create",
        "-n",
        namespace,
        "-f",
        "-",
        input=json.dumps({**named("RayCluster", "ray.io/v1", "tpu-v6e-16"), "spec": spec}),
    )
    pods = cluster.wait_for("four Ray workers", lambda: tpu_pods(cluster, namespace, 4), 120)
    given = [{"TPU_NAME": "tpu-0", "TPU_WORKER_ID": str(index)} for index in range(4)]
    questions = [{"environment": {**values(p), **t}, "chips": 4} for p, t in zip(pods, given, strict=True)]
    answers = venv.ask("ray_node", questions)

    assert [("v6e-16", "4x4", 4)] * 4 == [(a["type"], a["topology"], a["workers"]) for a in answers]
    assert [0, 1, 2, 3] == [a["id"] for a in answers]
    assert answers[0]["resources"] == {"tpu-0": 1, "TPU-v6e-16-head": 1}
    assert [[]] * 4 == [a["asked"] for a in answers]


def tpu_pods(cluster: ControlPlane, namespace: str, count: int) -> list[Object]:
    """The Pods with chips, once there are so many."""
    pods = [p for p in cluster.pods(namespace) if CHIPS in str(p["spec"]["containers"][0].get("resources"))]
    return pods if len(pods) == count else []


def values(pod: Object) -> dict[str, str]:
    """The variables of the first container that have a value: KubeRay's own refer to fields that only a node knows."""
    return {v["name"]: v["value"] for v in pod["spec"]["containers"][0]["env"] if "value" in v}
