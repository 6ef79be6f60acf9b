"""One slice, one node pool, on the real scheduler and controllers: for each kind alone, and for all at once."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from webhook.core.slice_keys import MULTI_HOST

from .controlplane import ControlPlane, expect
from .pods import running

pytestmark = pytest.mark.usefixtures("injector", "nodes", "jobset_controller", "lws_controller")

POOL = "cloud.google.com/gke-nodepool"
TPU = {"accel.io/type": "tpu7x-16"}
"""Two hosts; nodes.yaml has none of them, so that the pools below are all there are."""

Object = dict[str, Any]


def node(pool: str, host: int) -> Object:
    """A host of a slice of two."""
    topology = {"cloud.google.com/gke-tpu-accelerator": "tpu7x", "cloud.google.com/gke-tpu-topology": "2x2x2"}
    return {
        "name": f"{pool}-{host}",
        "labels": {POOL: pool, **topology},
        "taints": ["google.com/tpu"],
        "allocatable": {"google.com/tpu": "4"},
    }


@pytest.fixture
def pools(cluster: ControlPlane) -> Iterator[Callable[[int], list[str]]]:
    """Makes so many pools of two hosts; they go after the test."""
    names: list[str] = []

    def make(number: int) -> list[str]:
        found = [f"one-pool-{index}" for index in range(number)]
        rows = [node(pool, host) for pool in found for host in range(2)]
        names.extend(row["name"] for row in rows)
        cluster.fake_nodes(rows)
        return found

    yield make
    for name in names:
        cluster.request("DELETE", f"/api/v1/nodes/{name}")


def template(annotations: Object | None = None, **spec: Any) -> Object:
    """A pod template with one container."""
    metadata = {"metadata": {"annotations": annotations}} if annotations else {}
    return {**metadata, "spec": {"containers": [{"name": "main", "image": "i"}], **spec}}


def job(name: str) -> Object:
    """One slice."""
    spec = {"template": template(restartPolicy="Never", subdomain=name)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "annotations": TPU}, "spec": spec}


def jobset(name: str, slices: int = 1) -> Object:
    """A slice a replica."""
    made = {"spec": {"template": template(restartPolicy="Never")}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": TPU},
        "spec": {"replicatedJobs": [{"name": "slice", "replicas": slices, "template": made}]},
    }


def lws(name: str, slices: int = 1, annotations: Object = TPU, **group: Any) -> Object:
    """A slice a group."""
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"replicas": slices, "leaderWorkerTemplate": {"workerTemplate": template(), **group}},
    }


def stateful_set(name: str, slices: int = 1) -> Object:
    """A slice for each two Pods."""
    made = template(TPU)
    made["metadata"]["labels"] = {"app": name}
    spec = {"replicas": 2 * slices, "serviceName": name, "podManagementPolicy": "Parallel", "template": made}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {**spec, "selector": {"matchLabels": {"app": name}}},
    }


def slice_of(pod: Object) -> tuple[str, ...]:
    """What says which slice a Pod is in, as its controller means it."""
    labels, metadata = pod["metadata"]["labels"], pod["metadata"]
    if job := labels.get("batch.kubernetes.io/job-name"):
        return metadata["namespace"], "job", job
    if group := labels.get("leaderworkerset.sigs.k8s.io/group-index"):
        return metadata["namespace"], labels["leaderworkerset.sigs.k8s.io/name"], group
    name, _, index = metadata["name"].rpartition("-")
    return metadata["namespace"], name, str(int(index) // 2)


def pool_of(pod: Object) -> str:
    """The pool of the Pod's node."""
    name: str = pod["spec"]["nodeName"].rpartition("-")[0]
    return name


def pools_by_slice(pods: list[Object]) -> dict[tuple[str, ...], set[str]]:
    """The pools of each slice."""
    found: dict[tuple[str, ...], set[str]] = {}
    for pod in pods:
        found.setdefault(slice_of(pod), set()).add(pool_of(pod))
    return found


def apply(cluster: ControlPlane, *objects: Object) -> None:
    """One kubectl apply of them all."""
    items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    cluster.kubectl("apply", "-f", "-", input=json.dumps(items))


def within(namespace: str, obj: Object) -> Object:
    """The object in this namespace."""
    placed = copy.deepcopy(obj)
    placed["metadata"]["namespace"] = namespace
    return placed


def occupy(cluster: ControlPlane, namespace: str, node: str) -> None:
    """A Pod that is not ours holds a host's chips."""
    limits = {"resources": {"limits": {"google.com/tpu": "4"}}}
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "i", **limits}]}
    body = {"metadata": {"name": f"holds-{node}"}, "spec": spec}
    expect(cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body), f"a pod on {node}")


def waiting(cluster: ControlPlane, namespace: str) -> list[str]:
    """What the scheduler says of Pods that have no node."""
    pods = [pod for pod in cluster.pods(namespace) if "nodeName" not in pod["spec"]]
    conditions = [c for pod in pods for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"]
    return [condition.get("message", "") for condition in conditions]


@pytest.mark.parametrize("make", [job, jobset, lws, stateful_set])
def test_no_slice_is_split(
    cluster: ControlPlane, namespace: str, pools: Callable[[int], list[str]], make: Callable[[str], Object]
) -> None:
    """With one host of each of two pools busy one Pod may take a host, and the other says why it waits; both are in one
    pool when a host is free."""
    other = cluster.namespace()
    for pool in pools(2):
        occupy(cluster, other, f"{pool}-0")
    running(cluster, other, 2)
    apply(cluster, within(namespace, make("one")))

    cluster.wait_for("a pod to wait", lambda: any("affinity" in text for text in waiting(cluster, namespace)))
    placed = [pod for pod in cluster.pods(namespace) if "nodeName" in pod["spec"]]
    assert len(placed) == 1
    cluster.request("DELETE", f"/api/v1/namespaces/{other}/pods/holds-{pool_of(placed[0])}-0?gracePeriodSeconds=0")
    (found,) = pools_by_slice(running(cluster, namespace, 2)).values()
    assert found == {pool_of(placed[0])}
    cluster.delete_namespace(other)


@pytest.mark.parametrize("run", range(3))
def test_all_kinds_at_once(cluster: ControlPlane, namespace: str, pools: Callable[[int], list[str]], run: int) -> None:
    """One command makes ten slices of four kinds in two namespaces, and there are exactly ten pools: each slice has
    one, and the same command again changes nothing."""
    other = cluster.namespace({"accel.io/injection": "enabled"})
    made = pools(10)
    here = [lws("serve"), jobset("train", 2), job("single"), stateful_set("set", 2)]
    there = [job("single"), lws("serve", 2), jobset("train")]
    objects = [*(within(namespace, obj) for obj in here), *(within(other, obj) for obj in there)]
    apply(cluster, *(reversed(objects) if run % 2 else objects))

    pods = [*running(cluster, namespace, 12), *running(cluster, other, 8)]
    found = pools_by_slice(pods)
    assert [len(where) for where in found.values()] == [1] * 10
    assert {pool for where in found.values() for pool in where} == set(made)

    apply(cluster, *objects)
    again = [*running(cluster, namespace, 12), *running(cluster, other, 8)]
    assert {pod["metadata"]["uid"] for pod in again} == {pod["metadata"]["uid"] for pod in pods}
    cluster.delete_namespace(other)


def test_a_replaced_pod_joins_its_slice(
    cluster: ControlPlane, namespace: str, pools: Callable[[int], list[str]]
) -> None:
    """Though another pool is free, and another slice waits for one."""
    pools(2)
    apply(cluster, *(within(namespace, made) for made in (stateful_set("set"), jobset("train"))))
    pods = running(cluster, namespace, 4)
    before, first = pools_by_slice(pods), {pod["metadata"]["uid"] for pod in pods}
    for name in ("set-1", pod_of(cluster, namespace, "train")):
        cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0")
    apply(cluster, within(namespace, lws("late")))

    def settled() -> list[Object]:
        found = [pod for pod in cluster.pods(namespace) if "nodeName" in pod["spec"]]
        new = [pod for pod in found if pod["metadata"]["uid"] not in first]
        return found if len(found) == 4 and len(new) == 2 else []

    assert pools_by_slice(cluster.wait_for("two pods to be replaced", settled)) == before


def pod_of(cluster: ControlPlane, namespace: str, jobset: str) -> str:
    """A Pod of the JobSet."""
    name: str = cluster.pods(namespace, f"jobset.sigs.k8s.io/jobset-name={jobset}")[0]["metadata"]["name"]
    return name


def test_a_leader_without_tpus_is_in_a_pool_of_its_own(
    cluster: ControlPlane, namespace: str, pools: Callable[[int], list[str]]
) -> None:
    """Its node has the pools' label too, as all nodes on GKE have, and its workers are not drawn there."""
    pools(2)
    row = {"name": "one-pool-cpu-0", "labels": {POOL: "one-pool-cpu"}, "taints": ["example.com/leaders"]}
    cluster.fake_nodes([row])
    tolerations = [{"key": "example.com/leaders", "operator": "Exists"}]
    leader = template({"accel.io/type": "none"}, nodeSelector={POOL: "one-pool-cpu"}, tolerations=tolerations)
    apply(cluster, within(namespace, lws("serve", 2, leaderTemplate=leader)))

    pods = running(cluster, namespace, 6)
    workers = [pod for pod in pods if pool_of(pod) != "one-pool-cpu"]
    assert len(workers) == 4
    assert [len(where) for where in pools_by_slice(workers).values()] == [1, 1]
    cluster.request("DELETE", "/api/v1/nodes/one-pool-cpu-0")


def test_another_type_rolls_out(cluster: ControlPlane, namespace: str, pools: Callable[[int], list[str]]) -> None:
    """The Pods of the new revision do not wait for the old ones, which are in the other type's pool."""
    pools(1)
    apply(cluster, within(namespace, lws("serve", annotations={"accel.io/type": "tpu-v5p-16"})))
    running(cluster, namespace, 2, nodes="v5p-2x2x2")
    apply(cluster, within(namespace, lws("serve")))

    (found,) = pools_by_slice(running(cluster, namespace, 2, nodes="one-pool")).values()
    assert found == {"one-pool-0"}


def test_from_exclusive_placement_to_affinity(
    cluster: ControlPlane, namespace: str, pools: Callable[[int], list[str]]
) -> None:
    """LeaderWorkerSet's own annotation is a placement chosen; when it goes, ours comes, and the Pods are replaced."""
    pools(2)
    exclusive = "leaderworkerset.sigs.k8s.io/exclusive-topology"
    apply(cluster, within(namespace, lws("serve", 2, annotations={**TPU, exclusive: POOL})))
    assert not any(MULTI_HOST in pod["metadata"]["labels"] for pod in running(cluster, namespace, 4))
    cluster.kubectl("annotate", "-n", namespace, "leaderworkersets", "serve", f"{exclusive}-")

    def replaced() -> bool:
        return all(MULTI_HOST in pod["metadata"]["labels"] for pod in cluster.pods(namespace))

    cluster.wait_for("the pods to be replaced", replaced, 90)
    found = pools_by_slice(running(cluster, namespace, 4))
    assert [len(where) for where in found.values()] == [1, 1]
