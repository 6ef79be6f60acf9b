"""Kinds whose CRD checks little: any JSON may come, and gets a decision."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.case import review, site
from webhook.core.admission import admit

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
KINDS = {
    "Job": ("batch.volcano.sh/v1alpha1", "tasks"),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io/v1", "leaderWorkerTemplate"),
    "RayCluster": ("ray.io/v1", "workerGroupSpecs"),
    "PyTorchJob": ("kubeflow.org/v1", "pytorchReplicaSpecs"),
}


def obj(kind: str, spec: Any, inner: Any) -> dict[str, Any]:
    """An object that asks, with anything in its spec."""
    version, field = KINDS[kind]
    keys = {"accel.io/type": "tpu-v4-16"}
    body = {**spec, field: inner} if isinstance(spec, dict) else spec
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "a", "annotations": keys}, "spec": body}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(WORDS, JSON, max_size=3) | JSON, JSON | st.lists(st.dictionaries(WORDS, JSON, max_size=4)), JSON)
def test_anything_gets_a_decision(kind: str, spec: Any, inner: Any, old: Any) -> None:
    """Created or updated: injected, left alone or denied, never an internal error; an immutable kind never denied."""
    new = obj(kind, spec, inner)
    answer = admit(review(new), site(None))
    assert answer.status == 200, answer.detail
    for stored in (new, obj(kind, old, inner)):
        updated = admit(review(new, stored), site(None))
        assert updated.status == 200, updated.detail
        assert kind != "Job" or updated.outcome != "denied"
