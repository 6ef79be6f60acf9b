"""A law: what comes out of us does not contradict itself. tests/cluster/test_every_type.py asks the real scheduler.

Never hardware of two vendors in a Pod, never a node selector that the required affinity excludes, never more devices
than one machine has, never a topology of another number of chips.
"""

from collections.abc import Iterator
from math import prod
from typing import Any

import pytest
from hypothesis import given

from tests.core.test_laws import CONFIGURED, GOOD_JOBSETS, GOOD_PODS, PODS
from tests.support.case import Case, all_cases, decided, review, site
from webhook.core import topology
from webhook.core.admission import admit
from webhook.core.messages import Denied
from webhook.core.quantity import devices
from webhook.core.resolution import SLICE_TOPOLOGY
from webhook.core.site import Site

CASES = [case for case in all_cases() if not case.denied and not case.old]


def injected(value: Any) -> Iterator[Any]:
    """Every Pod or pod template with injected values, anywhere in an object."""
    if isinstance(value, dict):
        annotations = (
            (value.get("metadata") or {}).get("annotations") if isinstance(value.get("metadata"), dict) else None
        )
        if isinstance(annotations, dict) and "accel.io/injected" in annotations and isinstance(value.get("spec"), dict):
            yield value
        for inner in value.values():
            yield from injected(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from injected(inner)


def contradictions(template: Any, site: Site) -> Iterator[str]:
    """Why no node can have this Pod."""
    spec, annotations = template["spec"], template["metadata"]["annotations"]
    amounts = list(asked(spec))
    families = {site.catalogue.families.of_resource(name) for _, _, name, amount in amounts if devices(amount) != 0}
    if len(families - {""}) > 1:
        yield f"hardware of {sorted(families - {''})}"
    yield from excluded(spec)
    try:
        hardware = site.catalogue.resolve(annotations["accel.io/injected"])
    except Denied:  # a type that the user's own annotation names
        return
    ours = [(where, part, amount) for where, part, name, amount in amounts if name == hardware.resource]
    total = sum(devices(amount) or 0 for where, part, amount in ours if part == "limits" and where == "containers")
    if hardware.max_per_node is not None and total > hardware.max_per_node:
        yield f"{total} x {hardware.resource}: a node has {hardware.max_per_node}"
    shape = topology.parse(str(annotations.get(SLICE_TOPOLOGY, "")))
    if shape is not None and hardware.slice is not None and prod(shape) != hardware.slice.chips:
        yield f"a topology of {prod(shape)} chips for {hardware.slice.chips}"


def asked(spec: Any) -> Iterator[tuple[str, str, str, Any]]:
    """List, limits or requests, resource and amount of every container."""
    for where in ("containers", "initContainers"):
        for container in spec.get(where) or ():
            for part, amounts in ((container or {}).get("resources") or {}).items():
                if part in ("limits", "requests"):
                    for name, amount in (amounts or {}).items():
                        yield where, part, name, amount


def excluded(spec: Any) -> Iterator[str]:
    """Labels of the node selector that no term of the required node affinity allows."""
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    terms = [term for term in ((affinity or {}).get("nodeSelectorTerms") or ()) if term]
    for label, value in (spec.get("nodeSelector") or {}).items():
        if terms and all(any(excludes(e, label, value) for e in term.get("matchExpressions") or ()) for term in terms):
            yield f"{label}: {value} is excluded by the node affinity"


def excludes(expression: Any, label: str, value: Any) -> bool:
    """Whether an expression about this label excludes the value."""
    if not expression or expression.get("key") != label:
        return False
    values = expression.get("values") or ()
    operator = expression.get("operator")
    return (
        operator == "DoesNotExist"
        or (operator == "In" and value not in values)
        or (operator == "NotIn" and value in values)
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden_cases(case: Case) -> None:
    """What each golden case expects."""
    assert [line for one in injected(case.expected) for line in contradictions(one, case.site)] == []


@CONFIGURED
@given(PODS | GOOD_PODS | GOOD_JOBSETS)
def test_generated_objects(obj: Any) -> None:
    """Objects with amounts, tolerations and annotations of every kind."""
    answer = decided(admit(review(obj), site(None)), obj)
    if not answer.denied:
        assert [line for one in injected(answer.patched) for line in contradictions(one, site(None))] == []


GPU = {"resources": {"limits": {"nvidia.com/gpu": "9"}}}
TERM = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["c"]}]}


@pytest.mark.parametrize(
    ("spec", "annotations", "why"),
    [
        ({"containers": [GPU, {"resources": {"limits": {"google.com/tpu": 4}}}]}, {}, "hardware of ['nvidia', 'tpu']"),
        ({"containers": [GPU]}, {}, "9 x nvidia.com/gpu: a node has 8"),
        (
            {
                "nodeSelector": {"a": "b"},
                "affinity": {
                    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}
                },
            },
            {},
            "a: b is excluded by the node affinity",
        ),
        ({}, {"accel.io/injected": "tpu-v6e-16", SLICE_TOPOLOGY: "2x4"}, "a topology of 8 chips for 16"),
    ],
)
def test_the_law_can_be_broken(spec: Any, annotations: dict[str, str], why: str) -> None:
    """Each of its parts."""
    template = {"metadata": {"annotations": {"accel.io/injected": "nvidia-l4", **annotations}}, "spec": spec}
    assert why in list(contradictions(template, site(None)))
