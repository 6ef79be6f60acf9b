"""Mutated AdmissionReviews, made from the golden cases and reproducible by seed; and a check of the responses.

`mutants(seed, count)` yields bodies; `problems(body, status, answer)` checks a response against the contract. The
contract's rules, and the API server's, are written here independently of the product's code.
"""

import base64
import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonpatch

from tests.support.case import all_cases, review

POD = review(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "annotations": {"accel.io/type": "tpu-v4-8"}},
        "spec": {"containers": [{"name": "main", "image": "example.invalid/main"}]},
    }
)
WORDS = (
    "", "a", "none", "auto", "true", "false", "0", "-1", "4", "1e9", "1Gi", "tpu-v4-8", "tpu-v4-16", "nvidia-l4",
    "accel.io/type", "accel.io/topology", "2x2x1", "2x2x4", "google.com/tpu", "nvidia.com/gpu", "~", "/", "~1", "$(A)",
    "\u0000", "\x1b[31m", "\r\n", "\u2028", "\ufeff", "é" * 40, "x" * 300, "\U0001f600", "spec", "metadata", "null",
)  # fmt: skip
VALUES = (None, True, False, 0, -1, 1, 4, 2**31, 2**63, 2**64, -(2**63) - 1, 1.5, 1e300, [], {}, [None], {"": None})
KEYS = (
    "accel.io/type", "accel.io/topology", "accel.io/count", "accel.io/mode", "accel.io/container", "accel.io/inject",
    "accel.io/placement", "accel.io/scheduler", "accel.io/queue", "accel.io/multislice", "accel.io/shm",
    "accel.io/typo",
)  # fmt: skip
BYTES = (
    b"\xff",
    b"\x00",
    b"\\u0000",
    b"\\ud800",
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"1e999",
    b"NaN",
    b"\xed\xa0\x80",
)
MAX_WARNINGS, MAX_WARNING_LENGTH, MAX_LINES = 5, 120, 3


@cache
def seeds() -> tuple[bytes, ...]:
    """The golden cases as reviews, including updates."""
    return tuple(review(case.object, case.old) for case in all_cases() if case.object)


def mutants(seed: int, count: int) -> Iterator[bytes]:
    """`count` bodies: most have one to four changes of their JSON tree, some also have changed bytes."""
    chance = random.Random(seed)
    for _ in range(count):
        body = chance.choice(seeds())
        if chance.random() < 0.9:
            tree = json.loads(body)
            for _ in range(chance.randint(1, 4)):
                _change(tree, chance)
            body = json.dumps(tree, ensure_ascii=chance.random() < 0.5).encode(errors="surrogatepass")
        if chance.random() < 0.2:
            body = _scramble(body, chance)
        yield body


def _change(tree: Any, chance: random.Random) -> None:
    """One change at a random place, mostly inside the object."""
    places = list(
        _places(
            tree["request"]["object"]
            if isinstance(_at(tree, "request", "object"), dict | list) and chance.random() < 0.9
            else tree
        )
    )
    if not places:
        return
    parent, key = chance.choice(places)
    match chance.randrange(8):
        case 0:
            del parent[key]
        case 1:
            parent[key] = _copy(chance.choice(VALUES))
        case 2:
            parent[key] = chance.choice(WORDS)
        case 3:
            parent[key] = [_copy(parent[key]) for _ in range(chance.randint(1, 3))]
        case 4:
            parent[key] = {chance.choice(WORDS): parent[key]}
        case 5:
            other, at = chance.choice(places)
            parent[key] = _copy(other[at])
        case 6 if isinstance(parent, dict):
            parent[chance.choice(WORDS + KEYS)] = _copy(parent[key])
        case _:
            _annotate(tree, chance)


def inflated(body: bytes, chance: random.Random, largest: int) -> bytes:
    """The body with one part of the object enlarged, up to about `largest` bytes; invalid JSON is not changed."""
    try:
        tree = json.loads(body)
        places = list(_places(tree["request"]["object"]))
    except (ValueError, RecursionError, TypeError, KeyError):
        return body
    if not places:
        return body
    parent, key = chance.choice(places)
    value = parent[key]
    times = chance.randint(10, max(11, largest // (len(json.dumps(value)) + 8)))
    match value:
        case str():
            parent[key] = (value or "9") * times
        case list():
            parent[key] = (value or [{}]) * times
        case dict():
            names = chance.choice(("x{}", "accel.io/{}", "{}"))
            some = next(iter(value.values()), "1")
            parent[key] = {**value, **{names.format(number): some for number in range(times)}}
        case _:
            parent[key] = _nested(value, min(times, 100))
    return json.dumps(tree, ensure_ascii=False).encode(errors="surrogatepass")


def _nested(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = {"a": [value]}
    return value


def _annotate(tree: Any, chance: random.Random) -> None:
    """Sets one of our annotations to a random value, on random metadata."""
    metadata = [parent[key] for parent, key in _places(tree) if key == "metadata" and isinstance(parent[key], dict)]
    if metadata:
        chosen = chance.choice(metadata)
        annotations = chosen.get("annotations")
        chosen["annotations"] = annotations = annotations if isinstance(annotations, dict) else {}
        annotations[chance.choice(KEYS)] = chance.choice(WORDS)


def _copy(tree: Any) -> Any:
    return json.loads(json.dumps(tree))


def _at(tree: Any, *keys: str) -> Any:
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every (parent, key or index) below `tree`."""
    if isinstance(tree, dict | list):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def _scramble(body: bytes, chance: random.Random) -> bytes:
    """A change of bytes, after which the body may not be JSON."""
    at, to = sorted(chance.randrange(len(body) + 1) for _ in range(2))
    match chance.randrange(6):
        case 0:
            return body[:at]
        case 1:
            return body[:at] + body[to:]
        case 2:
            return body[:at] + chance.choice(BYTES) + body[at:]
        case 3:
            return body[:at] + chance.choice(BYTES) + body[at + 1 :]
        case 4:
            return body[:at] + body[at:to] * 2 + body[to:]
        case _:
            return body[:at] + chance.choice((b"[", b'{"a":')) * chance.randint(1, 3000) + body[at:]


def problems(body: bytes, status: int, answer: bytes) -> list[str]:
    """What is wrong with a response; empty if it is valid."""
    if status == 400:
        text = answer.decode()
        return [] if text and text.isprintable() else [f"a 400 that is not one line of text: {text!r}"]
    if status != 200:
        return [f"status {status}"]
    reply = json.loads(answer)
    if (reply.get("apiVersion"), reply.get("kind"), len(reply)) != ("admission.k8s.io/v1", "AdmissionReview", 3):
        return ["not an AdmissionReview"]
    request, response = _request(body), reply["response"]
    found = [f"unknown field {key}" for key in set(response) - FIELDS]
    if request is not None and response["uid"] != request["uid"]:
        found.append(f"uid {response['uid']!r}")
    return [*found, *_decision(response), *_warnings(response.get("warnings", [])), *_patch(request, response)]


def _request(body: bytes) -> Any:
    """The request; None if only a lenient decoder accepts it (invalid UTF-8 in a field that is not read)."""
    try:
        return json.loads(body)["request"]
    except (ValueError, RecursionError):
        return None


FIELDS = {"uid", "allowed", "status", "patch", "patchType", "warnings", "auditAnnotations"}


def _decision(response: dict[str, Any]) -> Iterator[str]:
    status = response.get("status")
    if response["allowed"] is True:
        if status is not None:
            yield f"allowed, with a status {status}"
        return
    if response["allowed"] is not False:
        yield f"allowed: {response['allowed']!r}"
    if (status["code"], status["reason"]) not in ((422, "Invalid"), (403, "Forbidden")):
        yield f"denied with {status['code']} {status['reason']}"
    lines = status["message"].split("\n")
    if not 1 <= len(lines) <= MAX_LINES or not all(line and line.isprintable() for line in lines):
        yield f"denied with the message {status['message']!r}"
    if {"patch", "patchType", "auditAnnotations"} & set(response):
        yield "denied, with a patch"


def _warnings(warnings: list[str]) -> Iterator[str]:
    if len(warnings) > MAX_WARNINGS:
        yield f"{len(warnings)} warnings"
    for text in warnings:
        if not text.startswith("accel.io:") or len(text) > MAX_WARNING_LENGTH or not text.isprintable():
            yield f"the warning {text!r}"


def _patch(request: dict[str, Any] | None, response: dict[str, Any]) -> Iterator[str]:
    parts = {"patch", "patchType", "auditAnnotations"} & set(response)
    if not parts:
        return
    if len(parts) != 3 or response["patchType"] != "JSONPatch":
        yield f"an incomplete patch: only {sorted(parts)}"
        return
    if set(response["auditAnnotations"]) != {"type", "outcome"}:
        yield f"audit annotations {response['auditAnnotations']}"
    patch = json.loads(base64.b64decode(response["patch"], validate=True))
    if not patch:
        yield "an empty patch"
    if request is None:
        return
    try:
        jsonpatch.apply_patch(request["object"], patch)
    except Exception as error:  # if an independent library rejects the patch, an API server may too
        yield f"a patch that does not apply: {error!r}"
