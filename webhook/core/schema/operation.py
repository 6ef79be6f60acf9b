"""One operation of a JSON Patch (RFC 6902), as on the wire."""

from typing import Any

import msgspec


class Operation(msgspec.Struct, frozen=True, gc=False):
    """`path` is a JSON Pointer. A "remove" has no `value`, and an "add" may have null."""

    op: str  # "add", "replace", "remove"
    path: str
    value: Any = msgspec.UNSET
