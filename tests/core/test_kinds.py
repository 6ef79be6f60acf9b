"""What holds for every kind in the registry, new ones included."""

from typing import Any

import pytest

from tests.support.case import all_cases, decided, review, site
from webhook.core.admission import admit
from webhook.core.kinds.kind import Kind
from webhook.core.kinds.registry import WORKLOADS

KINDS = [pytest.param(workload, id=workload.full_name) for workload in WORKLOADS.values()]


def pod(type_name: str) -> dict[str, Any]:
    """A pod template that asks."""
    return {
        "metadata": {"name": "a", "annotations": {"accel.io/type": type_name}},
        "spec": {"containers": [{"name": "c"}]},
    }


def owned(kind: str, version: str, owner: Kind[Any], body: dict[str, Any]) -> dict[str, Any]:
    """An object of this kind that the owner controls."""
    name = "/".join(filter(None, (owner.group, owner.versions[-1])))
    reference = {"apiVersion": name, "kind": owner.kind, "name": "o", "uid": "u", "controller": True}
    metadata = {"name": "a", **body.get("metadata", {}), "ownerReferences": [reference]}
    return {"apiVersion": version, "kind": kind, **body, "metadata": metadata}


@pytest.mark.parametrize("owner", KINDS)
def test_children_are_left_alone_if_they_were_decided_with_their_owner(owner: Kind[Any]) -> None:
    """Its Jobs and StatefulSets stay as it made them; those of any other kind are injected, or checked."""
    for kind, version in (("Job", "batch/v1"), ("StatefulSet", "apps/v1")):
        child = owned(kind, version, owner, {"spec": {"template": pod("nvidia-l4")}})
        assert (admit(review(child), site(None)).code == "owned") == owner.decides_children, kind


@pytest.mark.parametrize("owner", KINDS)
def test_a_pod_is_one_of_several_if_nothing_creates_the_others(owner: Kind[Any]) -> None:
    """A host of a slice gets the warning unless its controller creates hosts, and is refused if they are all alike."""
    obj = owned("Pod", "v1", owner, pod("tpu-v4-16"))
    found = decided(admit(review(obj), site(None)), obj)
    alone = any("this Pod is one of them" in warning for warning in found.warnings)
    assert alone == (not owner.pods and not owner.decides_children)
    assert ("stable index" in found.denied) == (owner.pods == "alike")


def test_every_kind_has_a_case() -> None:
    """One at least of which it is; what becomes of unknown kinds needs none."""
    seen = {(str(case.object["apiVersion"]).rpartition("/")[0], case.object["kind"]) for case in all_cases()}
    assert set(WORKLOADS) <= seen
