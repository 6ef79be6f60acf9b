"""A law: what comes out of us can be scheduled on the hardware that was asked for, and on no other.

Each type of the catalogue has nodes of its own here, with the labels that the catalogue knows, the taints that people
give them and no more devices than one machine has. The real scheduler decides. The core is called directly: how a
webhook's answer reaches a Pod is tested elsewhere.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, get_args

import pytest

from tests.support.case import decided, review
from webhook import load
from webhook.core.admission import admit
from webhook.core.catalogue.accelerator import Accelerator, toleration
from webhook.core.catalogue.catalogue import PART
from webhook.core.rules.node_pool import POOL_LABELS
from webhook.core.schema.catalogue import Platform
from webhook.core.site import Site
from webhook.core.slice_keys import JOB

from . import nodes
from .controlplane import ControlPlane, condition, expect

MARK = "example.com/platform"  # a label that keeps the nodes of other tests out
MACHINE = 8  # devices of a node where the catalogue has no maximum
LARGEST = 512  # chips of a slice
SECONDS = 300
NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""The taints of a node that has no kubelet. To wait for kwok to be one for hundreds of nodes takes a minute."""

HOSTNAME = "kubernetes.io/hostname"


class Type(NamedTuple):
    """A type of the catalogue on one platform, and the names of its nodes."""

    hardware: Accelerator
    nodes: tuple[str, ...]
    any_model: bool
    """Whether a resource's name alone means this type: `nvidia-gpu`, `nvidia-mig-1g.5gb`."""


def whole(one: Type) -> str:
    """The model of a partition; else the model itself."""
    return one.hardware.name.partition(PART)[0]


SAME: dict[str, Callable[[Type, Type], bool]] = {
    "any model of that resource will do": lambda one, _: one.any_model,
    "no node label is known for the model on this platform, and a warning says so": lambda one, _: (
        not one.hardware.pinned
    ),
    "platform none has no labels": lambda one, _: not one.hardware.selector,
    "on GKE parts are counted as whole GPUs, so that only what is asked for less can tell": lambda one, other: (
        whole(one) == whole(other) and PART in other.hardware.name and PART not in one.hardware.name
    ),
    "the same GPU beside another network, which feature discovery does not see": lambda one, other: (
        {whole(one), whole(other)} == {"nvidia-h100-80gb", "nvidia-h100-mega-80gb"}
    ),
}
"""When nodes of one type run the Pods of another: the reason, and for which pairs it holds."""


@pytest.fixture(scope="module", params=get_args(Platform))
def site(request: pytest.FixtureRequest) -> Site:
    return Site.parse(f"platform: {request.param}\n".encode(), "config.yaml", load.builtin())


def rows(site: Site) -> Iterator[tuple[Type, list[dict[str, Any]]]]:
    """Every type with its nodes: one for each of the label values that mean it.

    TPU nodes are GKE's. The old TPU Node architecture has no nodes at all.
    Slices above `LARGEST` differ from those below in the text of one label alone.
    """
    for number, name in enumerate(site.catalogue.names()):
        hardware = site.catalogue.resolve(name)
        if hardware.family == "tpu" and not has_nodes(hardware, site):
            continue
        values = itertools.zip_longest(*(values for _, values in hardware.selector))
        labels = [
            {label: value or all_[0] for (label, all_), value in zip(hardware.selector, found, strict=True)}
            for found in values
        ]
        made = [node(site, hardware, f"type-{number}-{i}", one) for i, one in enumerate(labels or [{}])]
        any_model = site.catalogue.any_model(hardware.resource) == hardware.name
        any_model = any_model or hardware.name.startswith("nvidia-mig-")
        yield Type(hardware, tuple(one["metadata"]["name"] for one in made), any_model), made


def has_nodes(tpu: Accelerator, site: Site) -> bool:
    """Whether there are nodes for a TPU type here."""
    is_small = tpu.slice is not None and tpu.slice.chips <= LARGEST
    return site.config.platform == "gke" and "cloud-tpus" not in tpu.resource and is_small


def node(site: Site, hardware: Accelerator, name: str, labels: dict[str, str]) -> dict[str, Any]:
    """A machine with this hardware, and nothing else on it."""
    devices = hardware.count or hardware.max_per_node or MACHINE
    allocatable = {hardware.resource: str(devices), **{key: str(count) for key, count in hardware.extras}}
    pool = {POOL_LABELS["gke"]: name} if site.config.platform == "gke" else {}
    every = {MARK: site.config.platform, **pool, **labels}
    made = nodes.node({"name": name, "labels": every, "allocatable": allocatable})
    del made["metadata"]["annotations"]  # kwok's: nothing has to run there
    for taint in map(toleration, hardware.tolerations):
        value, effect = taint.get("value", "present"), taint.get("effect", "NoSchedule")
        made["spec"]["taints"].append({"key": taint["key"], "value": value, "effect": effect})
    return made


def pod(site: Site, one: Type, number: int, operator: str, count: int) -> dict[str, Any]:
    """The Pod that a Job of this type makes: on its own nodes only (`In`), or on others only (`NotIn`)."""
    words = {"accel.io/type": one.hardware.name}
    if one.hardware.count is None:
        words["accel.io/count"] = str(count)
    own = {"key": HOSTNAME, "operator": operator, "values": list(one.nodes)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [own]}]}
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {MARK: site.config.platform},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        "tolerations": [{"key": key, "operator": "Exists"} for key in NOT_READY],
        "containers": [{"name": "main", "image": "example/train"}],
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": words},
        "spec": {"template": {"spec": spec}},
    }
    answer = decided(admit(review(job), site), job)
    assert not answer.denied, answer.denied
    template = answer.patched["spec"]["template"]
    name = f"type-{number}"
    labels = {**template["metadata"].get("labels", {}), **dict.fromkeys((*JOB.same, *JOB.other), name)}
    return {"metadata": {**template["metadata"], "labels": labels, "name": name}, "spec": template["spec"]}


def scheduled(cluster: ControlPlane, namespace: str, pods: list[dict[str, Any]]) -> dict[str, str]:
    """The node of each Pod by the Pod's name; "" where the scheduler found none."""
    for one in pods:
        expect(cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", one), one["metadata"]["name"])

    def looked_at() -> list[dict[str, Any]]:
        found = cluster.pods(namespace)
        return found if all(condition(one, "PodScheduled") for one in found) else []

    found = cluster.wait_for("the scheduler to look at every Pod", looked_at, SECONDS)
    cluster.delete_namespace(namespace)
    cluster.wait_for("the nodes to be free", lambda: not cluster.pods(namespace), SECONDS)
    return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in found}


def test_each_type_runs_on_its_own_nodes_and_on_no_others(cluster: ControlPlane, site: Site) -> None:
    """A whole machine on its own nodes; then, with those excluded, one device anywhere else."""
    types = []
    for one, made in rows(site):
        types.append(one)
        for each in made:
            expect(cluster.request("POST", "/api/v1/nodes", each), each["metadata"]["name"])
    of = {name: one for one in types for name in one.nodes}
    try:
        machines = [
            pod(site, one, n, "In", one.hardware.count or one.hardware.max_per_node or MACHINE)
            for n, one in enumerate(types)
        ]
        own = scheduled(cluster, cluster.namespace(), machines)
        assert [types[n].hardware.name for n in range(len(types)) if not own[f"type-{n}"]] == []
        others = scheduled(cluster, cluster.namespace(), [pod(site, one, n, "NotIn", 1) for n, one in enumerate(types)])
    finally:
        cluster.request("DELETE", "/api/v1/nodes", {"gracePeriodSeconds": 0}, {"labelSelector": MARK})
    shared = [(types[n], of[others[f"type-{n}"]]) for n in range(len(types)) if others[f"type-{n}"]]
    mistaken = [(a, b) for a, b in shared if not any(same(a, b) for same in SAME.values())]
    assert "\n".join(f"{a.hardware.name} {b.hardware.name}" for a, b in mistaken) == ""
