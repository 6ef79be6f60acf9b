"""Reviews that no golden case shows: other operations, odd bodies, our own mistakes."""

import json
import tracemalloc
from typing import Any

import pytest

from tests.support.case import decided, review, site
from webhook.core import admission
from webhook.core.admission import Answer, admit
from webhook.core.schema.pod import Template
from webhook.core.site import Site
from webhook.core.update import LAST_APPLIED

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "annotations": {"accel.io/type": "tpu-v4-8"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def answered(obj: Any = POD, old: Any = None, **request: Any) -> Answer:
    """The answer to a request that differs from a plain CREATE in these fields."""
    return admit(review(obj, old, **request), site(None))


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "DELETE", "object": None, "oldObject": POD},
        {"operation": "CONNECT"},
        {"operation": "UPDATE", "subResource": "ephemeralcontainers", "oldObject": POD},
        {"operation": "UPDATE", "subResource": "resize", "oldObject": POD},
        {"operation": "CREATE", "subResource": "binding"},
        {"operation": ""},
    ],
)
def test_what_is_not_ours_is_allowed_without_a_patch(request_: dict[str, Any]) -> None:
    """A deletion, and subresources: how a Pod is bound, resized or debugged."""
    answer = answered(**request_)

    assert "skipped" == answer.outcome
    assert {"uid": "6f1c8a52-0000-4000-8000-000000000001", "allowed": True} == json.loads(answer.body)["response"]


def test_an_unknown_kind_is_allowed_with_a_warning() -> None:
    """A configuration that sends us too much must not stop anyone."""
    answer = answered({**POD, "kind": "Unicorn"})

    assert ("accel.io: kind Unicorn is not known to accel-injector: left alone",) == decided(answer, POD).warnings
    assert "other" == answer.kind


def test_dry_run_is_no_different() -> None:
    """There is nothing that a dry run would have to spare."""
    assert answered(dryRun=True).body == answered().body


def test_the_request_names_the_namespace() -> None:
    """The object's own can be empty or another."""
    obj = {**POD, "metadata": {**POD["metadata"], "namespace": "other"}}

    assert "team-b" == answered(obj, namespace="team-b").namespace


def test_audit_annotations_only_with_a_patch() -> None:
    """A second pass must not write another value under the same key; keys have no slash."""
    first = json.loads(answered().body)["response"]

    assert {"type": "tpu-v4-8", "outcome": "injected"} == first["auditAnnotations"]
    again = answered(decided(answered(), POD).patched)
    assert "auditAnnotations" not in json.loads(again.body)["response"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"{}",
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {}}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": ""}}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": 1}}',
        b'{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "u"}}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "ConversionReview", "request": {"uid": "u"}}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "\xff"}}',
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": NaN}}',
        b'{"request":' * 100_000,
        b'{"a":' + b"[" * 100_000,
    ],
)
def test_what_is_no_review_is_a_bad_request(body: bytes) -> None:
    """One line that says so, never a decision."""
    answer = admit(body, site(None))

    assert (400, "bad-review") == (answer.status, answer.outcome)
    assert answer.body
    assert b"\n" not in answer.body


@pytest.mark.parametrize(
    "spec",
    [[1], 5, "x", {"containers": {}}, {"containers": [5]}, {"containers": [{"env": "x"}]}, {"nodeSelector": []}],
)
def test_a_field_of_the_wrong_type_is_denied(spec: Any) -> None:
    """Kinds without a schema let anything through to us; the message names the place."""
    answer = answered({**POD, "spec": spec})

    assert ("denied", "unreadable") == (answer.outcome, answer.code)
    assert "$.spec" in answer.detail


def test_deep_objects_are_no_crash() -> None:
    """A hundred thousand brackets inside the object."""
    deep = json.dumps(POD).replace('"i"', "[" * 100_000 + "]" * 100_000)
    body = review({}).replace(b'"object":{}', b'"object":' + deep.encode())

    assert len(deep) < len(body)
    assert admit(body, site(None)).status in (200, 400)


def test_a_new_object_is_read_with_its_review() -> None:
    """Else what the other tests look at would be the long way, which an API server's reviews do not go."""
    request = admission._created(review(POD))

    assert request is not None
    assert isinstance(request.object, Template)


@pytest.mark.parametrize(
    "body",
    [
        review(POD, POD),
        review(POD, subResource="status"),
        review(POD, kind={"group": "", "version": "v1", "kind": "Secret"}),
        review(POD, object=None),
        review({**POD, "spec": "text"}),
        review(POD, uid=""),
        review(POD)[:-2],
        review(POD).replace(b'"AdmissionReview"', b'"Other"'),
        review(POD).replace(b'"kind":{', b'"kind": {'),
    ],
)
def test_what_is_not_read_in_one_go_goes_the_long_way(body: bytes) -> None:
    """The short way takes only what it is sure of."""
    assert admission._created(body) is None


def test_the_words_of_users_are_not_kept() -> None:
    """Paths are remembered, but not those with a user's own name in them: a megabyte of one is refused, and gone."""

    def ask(number: int) -> None:
        resource = f"accel.io/{' ' * 1_000_000}{' ' * number}nvidia-l4"
        spec = {"containers": [{"name": "c", "resources": {"limits": {resource: "1"}}}]}
        assert answered({**POD, "metadata": {}, "spec": spec}).code == "too-large"

    tracemalloc.start()
    ask(0)
    before, _ = tracemalloc.get_traced_memory()
    for number in range(1, 11):
        ask(number)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 1_000_000


def test_our_own_mistake_is_an_error_without_a_patch() -> None:
    """failurePolicy decides; the traceback is for the log, not for the client."""
    unfinished = Site.__new__(Site)  # of its class, as the compiled core demands, and without a single attribute
    answer = admit(review(POD, None), unfinished)

    assert (500, "error") == (answer.status, answer.outcome)
    assert b"accel-injector: internal error" == answer.body
    assert "AttributeError" in answer.detail


def test_warnings_are_few_and_short() -> None:
    """The API server drops a warning with a control character and cuts long ones."""
    keys = {f"accel.io/strange-{i}-\u0007-" + "x" * 200: "v" for i in range(9)}
    obj = {**POD, "metadata": {"name": "p", "annotations": keys}}
    warnings = decided(answered(obj), obj).warnings

    assert 5 == len(warnings)
    assert all(len(w) <= 120 and w.isprintable() and w.startswith("accel.io: ") for w in warnings)


def test_an_escaped_key_is_seen() -> None:
    """JSON may spell the letters of a key as escapes."""
    escaped = "".join(f"\\u{ord(c):04x}" for c in "accel.io/type")

    assert "injected" == admit(review(POD).replace(b"accel.io/type", escaped.encode()), site(None)).outcome


LWS = {
    "apiVersion": "leaderworkerset.x-k8s.io/v1",
    "kind": "LeaderWorkerSet",
    "metadata": {"name": "l", "annotations": {"accel.io/type": "tpu-v6e-8"}},
    "spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": POD["spec"]}}},
}


@pytest.mark.parametrize("old", [None, {**LWS, "spec": "what"}, {**LWS, "spec": {"leaderWorkerTemplate": [1]}}])
def test_a_stored_object_that_cannot_be_read(old: Any) -> None:
    """The update is left as it is, with a warning: neither an internal error nor a denial."""
    answer = answered(LWS, operation="UPDATE", oldObject=old)

    assert ("unchanged", 200) == (answer.outcome, answer.status)
    (warning,) = decided(answer, LWS).warnings
    assert "the stored object has the wrong type" in warning


@pytest.mark.parametrize("which", [0, 1], ids=["new", "old"])
def test_text_that_is_not_utf_8(which: int) -> None:
    """Not JSON, so not a review, in whichever object it stands."""
    objects = [LWS, LWS]
    objects[which] = {**LWS, "strange": "here"}
    answer = admit(review(*objects).replace(b"here", b"\xed\xa0\x80"), site(None))

    assert (400, True) == (answer.status, b"UTF-8" in answer.body)


@pytest.mark.parametrize(
    "metadata",
    [
        {"managedFields": 1},
        {"managedFields": [1]},
        {"managedFields": [{"operation": "Apply", "fieldsV1": {"f:limits": 1}}]},
        {"managedFields": [{}], "annotations": {LAST_APPLIED: '{"limits": 1, "requests": "accel.io/x"}'}},
        {"managedFields": [{}], "annotations": {LAST_APPLIED: "[["}},
    ],
)
def test_notes_of_who_wrote_what_may_be_anything(metadata: dict[str, Any]) -> None:
    """kubectl's copy of the file is an annotation, which users may write as they like."""
    annotations = {**LWS["metadata"]["annotations"], **metadata.get("annotations", {})}
    new = {**LWS, "metadata": {**metadata, "name": "l", "annotations": annotations}}
    old = {**LWS, "metadata": {"name": "l", "annotations": {"accel.io/type": "tpu-v6e-4"}}}

    assert "injected" == answered(new, old).outcome
