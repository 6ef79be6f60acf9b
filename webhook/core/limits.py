"""How much of anything one object may bring, and the denial of what is more. Pure.

A mutating webhook sees objects before the API server validates them, so every string and every count in one is a
stranger's. Where an API bounds a field, its bound stands here: what it would accept is never refused. The views name
the bound of each of their fields, and decoding enforces it; annotations and amounts are checked where they are read.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from webhook.core.messages import Denied

NAME: Final = 253
"""Characters of a name: an object's, and whatever becomes a part of a host name.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-subdomain-names
"""

LABEL_VALUE: Final = 63
"""Characters of a label's value, which node selectors and tolerations have too.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
"""

KEY: Final = 253 + 1 + 63
"""Characters of a key of labels, annotations, taints and resources: prefix, slash and name (the same page)."""

QUANTITY: Final = 64
"""Characters of an amount of devices, or of a size. Nothing that exists needs twenty."""

WORD: Final = NAME
"""Characters of an annotation of ours that is one word: a type, a topology, a scheduler."""

LIST: Final = 256 * 1024
"""Characters of an annotation of ours that lists names: all annotations of an object together have no more.

Source: https://github.com/kubernetes/kubernetes/blob/v1.37.2/staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go
(TotalAnnotationSizeLimitB)
"""

NUMBER: Final = 2**31 - 1
"""The APIs' own counts are int32."""

AMOUNT: Final = 2**63 - 1
"""An amount that is written without quotes."""

OBJECT: Final = 3 * 1024 * 1024
"""Bytes of an object: an API server takes no larger one.

Source: https://github.com/kubernetes/apiserver/blob/v0.37.2/pkg/server/config.go (MaxRequestBodyBytes)
"""

CONTAINERS: Final = OBJECT // len('{"name":"a"}')
"""Containers of one list: an object holds no more that have a name, and they must have one."""

ANSWER: Final = OBJECT
"""Bytes of an answer: what is injected becomes a part of an object."""

EDITS: Final = 64 * 1024
"""Edits of one object. More do not fit into an answer, and are not even collected."""

WARNINGS: Final = 5
"""Warnings of one answer. More would be cut by the API server: it keeps 4096 characters of all warnings.

Source: https://github.com/kubernetes/apiserver/blob/v0.37.2/pkg/endpoints/filters/warning.go
"""

_LENGTH: Final = re.compile(r"Expected `(?P<what>str|array)` of length <= (?P<limit>[0-9]++)")
_AT: Final = re.compile(r" - at (?P<key>`key` in )?`(?P<path>[^`]++)`")
_STEP: Final = re.compile(r"\.(?P<field>[^.\[]++)|\[(?P<index>[0-9]++)\]|(?P<any>\[\.\.\.\])")


def check(where: str, text: str, limit: int) -> None:
    """Denies text of more than `limit` characters."""
    if len(text) > limit:
        raise too_large(where, f"{len(text):,} characters", f"{limit:,}")


def too_large(where: str, size: str, limit: str) -> Denied:
    """The one denial of everything that is more than it may be."""
    return Denied("too-large", where=where, size=size, limit=limit)


def unreadable(raw: bytes, problem: str) -> Denied:
    """The denial of an object that its view cannot be decoded from; `problem` is what msgspec says of it."""
    sentence, _, place = problem.partition(" - at `")
    at, length = _AT.search(problem), _LENGTH.match(problem)
    if at is None or length is None:
        return Denied("unreadable", where=place.rstrip("`")[:160] or "the object", value=sentence)
    where = ("a key of " if at["key"] else "") + at["path"].removeprefix("$.")
    limit, unit = int(length["limit"]), "characters" if length["what"] == "str" else "items"
    try:
        sizes = _sizes(msgspec.json.decode(raw), _steps(at["path"]), at["key"] is not None)
        size = f"{max(sizes, default=0):,} {unit}"
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        size = f"more than {limit:,} {unit}"  # something else in it cannot be read at all
    return too_large(where, size, f"{limit:,}")


def _steps(path: str) -> list[str | int | None]:
    """The steps of a path as msgspec writes it; None is any key. A label's key is one step, whatever dots it has."""
    head, labels, key = path.partition(".labels.")
    found = [
        step["field"] if step["field"] is not None else int(step["index"]) if step["index"] else None
        for step in _STEP.finditer(head)
    ]
    return [*found, "labels", key] if labels else found


def _sizes(node: Any, steps: Sequence[str | int | None], of_keys: bool) -> Iterator[int]:
    """The lengths of the texts, the keys or the lists that stand where `steps` lead."""
    nodes = [node]
    for step in steps:
        if isinstance(step, str):
            nodes = [one.get(step) for one in nodes if isinstance(one, dict)]
        elif step is not None:
            nodes = [one[step] for one in nodes if isinstance(one, list)]
        else:
            nodes = [item for one in nodes if isinstance(one, dict) for item in one.values()]
    for found in nodes:
        if isinstance(found, list):
            yield len(found)
            continue
        for text in found if of_keys and isinstance(found, dict) else (found,):
            if isinstance(text, str):
                yield len(text)
