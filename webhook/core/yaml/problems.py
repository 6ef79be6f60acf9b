"""All mistakes in a document, not only the first one. Pure.

msgspec stops at the first mistake. So the item that causes it is removed and the rest is decoded again, until
decoding succeeds.
"""

import copy
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from webhook.core.yaml.decode import Path, explain
from webhook.core.yaml.nodes import Node

T = TypeVar("T")

LACKS: Final = " lacks the key "


class Problem(NamedTuple):
    """One mistake: its path, and the text that follows the path in a message."""

    path: Path
    text: str


class Trimmed(Generic[T]):
    """A document from which mistakes are removed until it can be decoded."""

    def __init__(self, raw: Any, form: type[T], max_problems: int) -> None:
        self._raw = copy.deepcopy(raw)
        self._form = form
        self._max_problems = max_problems
        self._gone: dict[Path, list[int]] = {}  # indexes of the removed items, by the path of their list
        self._removed: set[Path] = set()
        self.problems: list[Problem] = []

    def decoded(self) -> T | None:
        """The document without its mistakes; None if nothing is left, or if there are too many of them."""
        while len(self.problems) < self._max_problems:
            try:
                return msgspec.convert(self._raw, self._form)
            except msgspec.ValidationError as error:
                path, text = explain(self._raw, self._form, str(error))
            if not self.blame(path, text):
                break
        return None

    def blame(self, place: Path, text: str, out: Path = ()) -> bool:
        """Record a mistake and remove its cause: `out`, else the item at `place`, or its nearest existing parent."""
        follows = text.startswith(LACKS) and (*self.written(place), text.removeprefix(LACKS)) in self._removed
        if not follows:  # else the key is missing because its value was wrong, and was removed
            self.problems.append(Problem(self.written(place), text))
        path = out or place
        while path and not self._remove(path):
            path = path[:-1]
        return bool(path)

    def _remove(self, path: Path) -> bool:
        above, step = self._raw, path[-1]
        for part in path[:-1]:
            above = _below(above, part)
        if isinstance(above, dict) and step in above:
            self._removed.add(self.written(path))
            del above[step]
            return True
        if isinstance(above, list) and isinstance(step, int) and step < len(above):
            del above[step]
            place = self.written(path)
            self._gone.setdefault(place[:-1], []).append(int(place[-1]))
            return True
        return False

    def written(self, path: Path) -> Path:
        """The path in the original document, before items were removed."""
        found: Path = ()
        for step in path:
            if isinstance(step, int):
                for gone in sorted(self._gone.get(found, ())):
                    step += gone <= step
            found = (*found, step)
        return found


def _below(node: Any, step: str | int) -> Any:
    if isinstance(node, dict):
        return node.get(step)
    return node[step] if isinstance(node, list) and isinstance(step, int) and step < len(node) else None


def start(root: Node, path: Path) -> int:
    """The index in the text where the key or item at `path` begins, or that of its nearest existing parent."""
    node, found = root, root.start
    for step in path:
        while node.kind == "alias":
            node = node.value
        if isinstance(step, int) and step < len(node.items) and node.kind == "sequence":
            node, found = node.items[step], node.items[step].start
        elif isinstance(step, str) and step in node.names:
            index = node.names.index(step)
            node, found = node.items[index], node.keys[index].start
        else:
            break
    return found
