"""Everything that is wrong with a document, not only the first thing. Pure.

Decoding ends at the first mistake. So what is to blame is taken out, and the rest is decoded again, until it can be.
"""

import copy
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from webhook.core.schema.decode import Path, explain
from webhook.core.schema.nodes import Node

T = TypeVar("T")

LACKS: Final = " lacks the key "


class Problem(NamedTuple):
    """One mistake: where it is, and what follows its path in a sentence."""

    path: Path
    text: str


class Trimmed(Generic[T]):
    """A document as far as it can be decoded, and what had to be taken out of it."""

    def __init__(self, raw: Any, form: type[T], max_problems: int) -> None:
        self._raw = copy.deepcopy(raw)
        self._form = form
        self._max_problems = max_problems
        self._gone: dict[Path, list[int]] = {}  # of each list, by its path: indexes of the items that were taken out
        self._taken: set[Path] = set()
        self.problems: list[Problem] = []

    def decoded(self) -> T | None:
        """What is left; None where that is nothing, or where there are too many mistakes to go on."""
        while len(self.problems) < self._max_problems:
            try:
                return msgspec.convert(self._raw, self._form)
            except msgspec.ValidationError as error:
                path, text = explain(self._raw, self._form, str(error))
            if not self.blame(path, text):
                break
        return None

    def blame(self, place: Path, text: str, out: Path = ()) -> bool:
        """Note a mistake and take out what is to blame: `out`, else its place, or the nearest above that is there."""
        missing = text.startswith(LACKS) and (*self.written(place), text.removeprefix(LACKS)) in self._taken
        if not missing:  # else it was there, and wrong
            self.problems.append(Problem(self.written(place), text))
        path = out or place
        while path and not self._take_out(path):
            path = path[:-1]
        return bool(path)

    def _take_out(self, path: Path) -> bool:
        above, step = self._raw, path[-1]
        for part in path[:-1]:
            above = _below(above, part)
        if isinstance(above, dict) and step in above:
            self._taken.add(self.written(path))
            del above[step]
            return True
        if isinstance(above, list) and isinstance(step, int) and step < len(above):
            del above[step]
            place = self.written(path)
            self._gone.setdefault(place[:-1], []).append(int(place[-1]))
            return True
        return False

    def written(self, path: Path) -> Path:
        """The path in the document as it was written, before items were taken out."""
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
    """The index in the text where the key, or the item, at a path begins; of the nearest above it that is there."""
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
