"""Every key of ours has an effect or produces a warning, wherever it is and however it is spelled."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.case import Case, all_cases, decided, review
from webhook.core.admission import admit
from webhook.core.annotations import INJECTED, TYPE
from webhook.core.kinds.registry import WORKLOADS
from webhook.core.unread import is_ours
from webhook.load import load
from webhook.manifest.inject import results

SITE = load(None)
SPELLINGS = (TYPE, "accel.io.type", "accel/type", "accel.io/typ")
UNKNOWN = ("trainer.kubeflow.org/v1alpha1/TrainJob", "argoproj.io/v1alpha1/Rollout", "serving.knative.dev/v1/Service")


def maps(node: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The place of every map in an object."""
    if isinstance(node, dict):
        yield path
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for step, item in pairs:
        yield from maps(item, (*path, step))


def without_our_words(node: Any) -> Any:
    """The object without keys of ours; every metadata has labels and annotations."""
    if isinstance(node, list):
        return [without_our_words(item) for item in node]
    if not isinstance(node, dict):
        return node
    left = {key: without_our_words(item) for key, item in node.items() if not is_ours(str(key))}
    for part in ("labels", "annotations") if "metadata" in left and isinstance(left["metadata"], dict) else ():
        left["metadata"].setdefault(part, {})
    return left


def with_word(obj: Any, path: tuple[str | int, ...], key: str, word: str | None) -> Any:
    """A copy of the object in which the map at `path` has the word."""
    changed = copy.deepcopy(obj)
    node = changed
    for step in path:
        node = node[step]
    node[key] = word
    return changed


def owned(obj: Any) -> bool:
    """Whether a controller, whose object got the warnings, created it; or it is left alone for another reason."""
    return any(owner.get("controller") for owner in obj["metadata"].get("ownerReferences") or ())


WRITTEN = [case for case in all_cases() if case.old is None and not owned(case.object)]


@pytest.mark.parametrize("case", WRITTEN, ids=lambda case: case.name)
def test_a_word_in_every_place_is_heard(case: Case) -> None:
    """Injected, warned or denied: in each map of every golden input, in four spellings, and null."""
    obj = without_our_words(case.object)
    words = [*((key, "nvidia-l4") for key in SPELLINGS), (TYPE, None)]
    for path in maps(obj):
        for key, word in words:
            answer = admit(review(with_word(obj, path, key, word), None), case.site)
            decision = decided(answer, obj)
            reported = decision.denied or decision.warnings or answer.type
            assert reported or answer.code, f"{key}: {word} in {path} is silent"


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_word_in_an_unknown_kind_is_heard_offline(name: str) -> None:
    """In each map of a manifest of an unknown kind; without a key of ours there is no warning."""
    version, _, kind = name.rpartition("/")
    obj = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "a", "labels": {}, "annotations": {"example.com/a": "b"}},
        "spec": {"runtimePatches": [{"template": {"metadata": {"annotations": {}}}}], "template": {"spec": {}}},
    }
    assert (version.rpartition("/")[0], kind) not in WORKLOADS
    assert results(yaml.safe_dump(obj), SITE)[0].warnings == ()
    for path in maps(obj):
        for key in SPELLINGS:
            text = json.dumps(with_word(obj, path, key, "nvidia-l4"))
            assert results(text, SITE)[0].warnings, f"{key} in {path} is silent"


def test_what_names_us_to_a_cluster_asks_for_nothing() -> None:
    """A namespace that is opted in, and a webhook configuration with our selector."""
    label = {"accel.io/injection": "enabled"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": label}}
    webhooks = [{"name": "pods.accel.io", "namespaceSelector": {"matchLabels": label}}]
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "a"},
        "webhooks": webhooks,
    }
    for obj in (namespace, configuration):
        assert results(json.dumps(obj), SITE)[0].warnings == ()


def test_our_own_notes_are_not_words() -> None:
    """A note of a manager names our keys, and so does the file that kubectl keeps: neither is a user's word."""
    fields = {"f:metadata": {"f:annotations": {f"f:{TYPE}": {}}}}
    applied = json.dumps({"metadata": {"annotations": {TYPE: "nvidia-l4"}}})
    annotations = {
        TYPE: "nvidia-l4",
        INJECTED: "nvidia-l4",
        "kubectl.kubernetes.io/last-applied-configuration": applied,
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "annotations": annotations, "managedFields": [{"fieldsV1": fields}]},
        "spec": {"containers": [{"name": "a", "image": "example/a"}]},
    }
    assert decided(admit(review(pod, None), SITE), pod).warnings == ()
