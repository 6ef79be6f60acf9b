"""Any JSON may come, since some kinds' CRDs check little, and gets a decision: tried with every kind."""

import itertools
from typing import Any, get_args, get_type_hints

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.case import review, site
from webhook.core.admission import admit
from webhook.core.kinds.kind import Kind
from webhook.core.kinds.registry import WORKLOADS

WORDS = st.sampled_from(
    ["name", "replicas", "minAvailable", "template", "metadata", "annotations", "spec", "size", "x"]
)
MORE_WORDS = st.sampled_from(
    ["containers", "resources", "limits", "google.com/tpu", "accel.io/type", "accel.io/tpu-v4-16"]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
    | st.just("tpu-v4-16")
)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | MORE_WORDS, inner, max_size=4)
)
KINDS = {workload.full_name: workload for workload in WORKLOADS.values()}


def fields(workload: Kind[Any]) -> list[str]:
    """The fields of a spec that are read."""
    (spec,) = (part for part in get_args(get_type_hints(workload.view)["spec"]) if part is not type(None))
    return [field.encode_name for field in msgspec.structs.fields(spec)]


def obj(workload: Kind[Any], spec: Any, field: str, inner: Any) -> dict[str, Any]:
    """An object that asks, with anything in its spec."""
    version = "/".join(filter(None, (workload.group, workload.versions[-1])))
    keys = {"accel.io/type": "tpu-v4-16"}
    body = {**spec, field: inner} if isinstance(spec, dict) else spec
    return {"apiVersion": version, "kind": workload.kind, "metadata": {"name": "a", "annotations": keys}, "spec": body}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.data(),
    st.dictionaries(WORDS, JSON, max_size=3) | JSON,
    JSON | st.lists(st.dictionaries(WORDS, JSON, max_size=4)),
    JSON,
)
def test_anything_gets_a_decision(kind: str, data: st.DataObject, spec: Any, inner: Any, old: Any) -> None:
    """Created or updated: injected, left alone or denied, never an internal error; an immutable kind never denied."""
    workload = KINDS[kind]
    field = data.draw(st.sampled_from(fields(workload)))
    new = obj(workload, spec, field, inner)
    answer = admit(review(new), site(None))
    assert answer.status == 200, answer.detail
    for stored in (new, obj(workload, old, field, inner)):
        updated = admit(review(new, stored), site(None))
        assert updated.status == 200, updated.detail
        assert workload.reapply != "immutable" or updated.outcome != "denied"


@pytest.mark.parametrize(
    "annotations", [{"accel.io/type": {}}, {"accel.io/type": 1}, {"x": []}, [], "x", True], ids=str
)
@pytest.mark.parametrize("kind", KINDS)
def test_annotations_of_any_shape(kind: str, annotations: Any) -> None:
    """Of the new object, of the stored one, and of both."""
    good = obj(KINDS[kind], {}, "x", None)
    odd = {**good, "metadata": {"name": "a", "annotations": annotations}}
    for new, stored in itertools.product((good, odd), repeat=2):
        updated = admit(review(new, stored), site(None))
        assert updated.status == 200, updated.detail
