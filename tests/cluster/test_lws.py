"""LeaderWorkerSets with the real controller and scheduler, on fake TPU nodes."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from webhook import load
from webhook.manifest.inject import injected

from .controlplane import ControlPlane
from .environment import environment
from .pods import running

pytestmark = pytest.mark.usefixtures("injector", "nodes", "lws_controller")

PATH = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/{}/leaderworkersets"
POOL = "cloud.google.com/gke-nodepool"
WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
SUBGROUP = "leaderworkerset.sigs.k8s.io/subgroup-index"
V4_16, V5P_16 = {"accel.io/type": "tpu-v4-16"}, {"accel.io/type": "tpu-v5p-16"}

Object = dict[str, Any]


def template(name: str, annotations: dict[str, str] | None = None) -> Object:
    """A pod template with one container."""
    metadata = {"metadata": {"annotations": annotations}} if annotations else {}
    return {**metadata, "spec": {"containers": [{"name": name, "image": "i"}]}}


def lws(annotations: dict[str, str] | None = None, replicas: int = 1, **group: Any) -> Object:
    """A LeaderWorkerSet named serve."""
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve", **({"annotations": annotations} if annotations else {})},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": {"workerTemplate": template("main"), **group}},
    }


def create(cluster: ControlPlane, namespace: str, obj: Object) -> tuple[str, ...]:
    """Create it; return the warnings."""
    answer = cluster.request("POST", PATH.format(namespace), obj)
    assert answer.status == 201, answer.body
    return answer.warnings


def pool(cluster: ControlPlane, pod: Object) -> str:
    """The node pool that the pod is in."""
    name: str = cluster.get(f"/api/v1/nodes/{pod['spec']['nodeName']}")["metadata"]["labels"][POOL]
    return name


def pools_by(cluster: ControlPlane, pods: list[Object], key: Callable[[Object], str]) -> dict[str, set[str]]:
    """The node pools of each group of pods."""
    found: dict[str, set[str]] = {}
    for pod in pods:
        found.setdefault(key(pod), set()).add(pool(cluster, pod))
    return found


def group(pod: Object) -> str:
    """The index of the pod's group."""
    return str(pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"])


def subgroup(pod: Object) -> str:
    """Group and subgroup."""
    return f"{group(pod)}/{pod['metadata']['labels'][SUBGROUP]}"


def check_slice(pods: list[Object]) -> None:
    """These pods are all hosts of one slice: ids from 0, one list with each pod's name, and no variable twice."""
    found = [environment(pod) for pod in pods]
    names = {f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}" for pod in pods}

    assert sorted(env["TPU_WORKER_ID"] for env in found) == [str(index) for index in range(len(pods))]
    (listed,) = {env["TPU_WORKER_HOSTNAMES"] for env in found}
    assert sorted(listed.split(",")) == sorted(names)
    first = listed.split(",")[0]
    (zero,) = [pod for pod, env in zip(pods, found, strict=True) if env["TPU_WORKER_ID"] == "0"]
    assert first == f"{zero['spec']['hostname']}.{zero['spec']['subdomain']}"
    for pod in pods:
        variables = [variable["name"] for variable in pod["spec"]["containers"][0]["env"]]
        assert len(variables) == len(set(variables))
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {"google.com/tpu": "4"}


def test_groups_are_slices_in_node_pools_of_their_own(cluster: ControlPlane, namespace: str) -> None:
    """No size, no resources, no selectors written: two groups of two hosts, and LeaderWorkerSet's variables intact."""
    assert create(cluster, namespace, lws(V4_16, replicas=2)) == ()
    pods = running(cluster, namespace, 4)

    found = pools_by(cluster, pods, group)
    assert sorted(map(sorted, found.values())) == [["v4-2x2x2-a"], ["v4-2x2x2-b"]]
    for index in found:
        check_slice([pod for pod in pods if group(pod) == index])


def test_a_leader_without_tpus_is_no_host(cluster: ControlPlane, namespace: str) -> None:
    """The leader is one more pod, on a CPU node; the workers' ids start at 0."""
    obj = lws(leaderTemplate=template("router"), workerTemplate=template("main", V4_16))
    assert create(cluster, namespace, obj) == ()
    leader, *workers = running(cluster, namespace, 3)

    assert leader["spec"]["nodeName"] == "cpu"
    assert "TPU_WORKER_ID" not in environment(leader)
    assert {pod["spec"]["nodeName"][:8] for pod in workers} == {"v4-2x2x2"}
    check_slice(workers)


def test_subgroups_are_slices_in_node_pools_of_their_own(cluster: ControlPlane, namespace: str) -> None:
    """One group of two slices, the leader a host of the first."""
    create(cluster, namespace, lws(V4_16, size=4, subGroupPolicy={"subGroupSize": 2}))
    pods = running(cluster, namespace, 4)

    found = pools_by(cluster, pods, subgroup)
    assert sorted(map(sorted, found.values())) == [["v4-2x2x2-a"], ["v4-2x2x2-b"]]
    for index in found:
        check_slice([pod for pod in pods if subgroup(pod) == index])


def test_a_leader_outside_the_subgroups(cluster: ControlPlane, namespace: str) -> None:
    """LeaderExcluded: the leader is on a CPU node, and each subgroup has a node pool all the same."""
    policy = {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}
    leader = template("router")
    obj = lws(leaderTemplate=leader, workerTemplate=template("main", V4_16), size=5, subGroupPolicy=policy)
    assert create(cluster, namespace, obj) == ()
    first, *workers = running(cluster, namespace, 5)

    assert first["spec"]["nodeName"] == "cpu"
    found = pools_by(cluster, workers, subgroup)
    assert sorted(map(sorted, found.values())) == [["v4-2x2x2-a"], ["v4-2x2x2-b"]]
    for index in found:
        check_slice([pod for pod in workers if subgroup(pod) == index])


def apply(cluster: ControlPlane, namespace: str, obj: Object, *flags: str) -> None:
    """kubectl apply, as a user does it."""
    cluster.kubectl("apply", "-n", namespace, *flags, "-f", "-", input=json.dumps(obj))


WAYS = pytest.mark.parametrize("flags", [(), ("--server-side",)], ids=["client-side", "server-side"])


@WAYS
def test_applying_twice_changes_nothing(cluster: ControlPlane, namespace: str, flags: tuple[str, ...]) -> None:
    """The second apply of the same file ends in the stored object: same generation, same revision, same pods."""
    obj = lws(V4_16)
    apply(cluster, namespace, obj, *flags)
    pods = running(cluster, namespace, 2)
    path = f"{PATH.format(namespace)}/serve"
    before, revisions = cluster.get(path), revision_names(cluster, namespace)

    apply(cluster, namespace, obj, *flags)
    after = cluster.get(path)

    assert after["spec"] == before["spec"]
    assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert revision_names(cluster, namespace) == revisions
    assert {p["metadata"]["uid"] for p in cluster.pods(namespace)} == {p["metadata"]["uid"] for p in pods}


def revision_names(cluster: ControlPlane, namespace: str) -> set[str]:
    """The ControllerRevisions of the namespace."""
    items = cluster.get(f"/apis/apps/v1/namespaces/{namespace}/controllerrevisions")["items"]
    return {item["metadata"]["name"] for item in items}


@WAYS
def test_another_type_rolls_out(cluster: ControlPlane, namespace: str, flags: tuple[str, ...]) -> None:
    """The file with another type, applied: nothing of the old type stays, and the pods move to the new one's nodes."""
    obj = lws(V4_16)
    apply(cluster, namespace, obj, *flags)
    running(cluster, namespace, 2)

    changed = copy.deepcopy(obj)
    changed["metadata"]["annotations"] = dict(V5P_16)
    apply(cluster, namespace, changed, *flags)
    pods = running(cluster, namespace, 2, nodes="v5p-2x2x2")

    check_slice(pods)
    stored = cluster.get(f"{PATH.format(namespace)}/serve")
    assert "v4" not in json.dumps(stored["spec"])
    apply(cluster, namespace, changed, *flags)
    assert cluster.get(f"{PATH.format(namespace)}/serve")["metadata"]["generation"] == stored["metadata"]["generation"]


PLACEHOLDER = {"resources": {"limits": {"accel.io/tpu-v4-16": "1"}}}
TYPED = {
    "on the object": lws(V4_16),
    "on the template": lws(workerTemplate=template("main", V4_16)),
    "as a limit": lws(workerTemplate={"spec": {"containers": [{"name": "main", "image": "i", **PLACEHOLDER}]}}),
}


@WAYS
@pytest.mark.parametrize("where", TYPED)
def test_a_type_that_goes_takes_everything_with_it(
    cluster: ControlPlane, namespace: str, flags: tuple[str, ...], where: str
) -> None:
    """The file without the type, applied: one pod a group on a CPU node, as if there had never been a type."""
    apply(cluster, namespace, TYPED[where], *flags)
    running(cluster, namespace, 2)

    apply(cluster, namespace, lws(), *flags)
    (pod,) = running(cluster, namespace, 1, nodes="cpu")

    assert "TPU_WORKER_ID" not in environment(pod)


def test_a_size_that_the_user_wrote_is_kept_or_refused(cluster: ControlPlane, namespace: str) -> None:
    """The API server notes who wrote a field: a size of the user's that does not fit the new type is refused."""
    obj = lws(V4_16, size=2)
    apply(cluster, namespace, obj)
    running(cluster, namespace, 2)
    obj["metadata"]["annotations"] = {"accel.io/type": "tpu-v4-32"}
    done = cluster.kubectl("apply", "-n", namespace, "-f", "-", input=json.dumps(obj), check=False)

    assert done.returncode != 0
    assert 'size: "2", but tpu-v4-32 has 4 hosts' in done.stderr


def test_injected_offline_it_needs_no_webhook(cluster: ControlPlane) -> None:
    """What `accel inject` prints, applied in a namespace without the label, makes the same slice."""
    namespace = cluster.namespace()
    text, _ = injected(json.dumps(lws(V4_16)), load.load(), namespace)
    cluster.kubectl("apply", "-n", namespace, "-f", "-", input=text)

    check_slice(running(cluster, namespace, 2, nodes="v4-2x2x2"))
    cluster.delete_namespace(namespace)


def test_a_size_that_is_no_slice_is_refused(cluster: ControlPlane, namespace: str) -> None:
    """At creation, before any pod, with the sizes that are valid."""
    answer = cluster.request("POST", PATH.format(namespace), lws(V4_16, size=3))
    assert answer.status == 422
    assert 'size: "3", but tpu-v4-16 has 2 hosts' in answer.body["message"]
