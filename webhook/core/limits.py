"""Limits of everything in one object, and the denial of what exceeds them. Pure.

A mutating webhook sees objects before the API server validates them, so every string and every count in them is
untrusted. If an API limits a field, its limit is used here: what it would accept is never refused. The views declare
the limit of each of their fields, and decoding enforces it; annotations and amounts are checked where they are read.

The limits of a file are in `core/yaml/file_limits.py`, those of a connection in `server/limits.py`.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from webhook.core.messages import Denied

NAME: Final = 253
"""Characters of a name: of an object, and of whatever becomes part of a host name.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/#dns-subdomain-names
"""

LABEL_VALUE: Final = 63
"""Characters of a label value, also in node selectors and tolerations.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
"""

KEY: Final = 253 + 1 + 63
"""Characters of a key of labels, annotations, taints and resources: prefix, slash and name (the same page)."""

QUANTITY: Final = 64
"""Characters of an amount of devices, or of a size. Real ones need fewer than twenty."""

WORD: Final = NAME
"""Characters of one of our annotations with a single value: a type, a topology, a scheduler."""

LIST: Final = 256 * 1024
"""Characters of one of our annotations with a list: the limit of all annotations of an object together.

Source: https://github.com/kubernetes/kubernetes/blob/v1.37.2/staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go
(TotalAnnotationSizeLimitB)
"""

NUMBER: Final = 2**31 - 1
"""Counts in the APIs are int32."""

AMOUNT: Final = 2**63 - 1
"""An amount written without quotes."""

OBJECT: Final = 3 * 1024 * 1024
"""Bytes of an object: an API server accepts no larger one.

Source: https://github.com/kubernetes/apiserver/blob/v0.37.2/pkg/server/config.go (MaxRequestBodyBytes)
"""

CONTAINERS: Final = OBJECT // len('{"name":"a"}')
"""Containers of one list: no more fit into an object, since each must have a name."""

ANSWER: Final = OBJECT
"""Bytes of a response: what is injected becomes part of an object."""

EDITS: Final = 64 * 1024
"""Edits of one object. More do not fit into a response, and are not even collected."""

WARNINGS: Final = 5
"""Warnings of one response. The API server would truncate more: it keeps 4096 characters of all warnings.

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
    """The denial of anything that exceeds its limit."""
    return Denied("too-large", where=where, size=size, limit=limit)


def unreadable(raw: bytes, problem: str) -> Denied:
    """The denial of an object that cannot be decoded as its view; `problem` is msgspec's message."""
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
        size = f"more than {limit:,} {unit}"  # something else in it is not decodable
    return too_large(where, size, f"{limit:,}")


def _steps(path: str) -> list[str | int | None]:
    """The steps of a path in msgspec's notation; None is any key. A label key is one step, even with dots."""
    head, labels, key = path.partition(".labels.")
    found = [
        step["field"] if step["field"] is not None else int(step["index"]) if step["index"] else None
        for step in _STEP.finditer(head)
    ]
    return [*found, "labels", key] if labels else found


def _sizes(node: Any, steps: Sequence[str | int | None], of_keys: bool) -> Iterator[int]:
    """The lengths of the strings, keys or lists at the end of `steps`."""
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
