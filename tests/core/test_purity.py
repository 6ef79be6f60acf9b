"""What the pure packages may use: an allow list, since the list of all that does I/O has no end."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.checkout import ROOT

PURE = ("webhook/core", "webhook/manifest", "webhook/errors.py")
IMPORTS = {
    *("bisect", "collections", "copy", "dataclasses", "decimal", "difflib", "fnmatch", "functools", "hashlib"),
    *("itertools", "json", "math", "re", "traceback", "types", "typing"),
    *("jsonpatch", "msgspec", "yaml"),
}
"""Modules of the standard library, and those of others, that compute and nothing else."""
BUILT_IN = {"__import__", "breakpoint", "eval", "exec", "input", "open", "print"}
"""Functions that need no import, and do more than that."""

FILES = [file for place in PURE for file in sorted((ROOT / place).rglob("*.py") or [ROOT / place])]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_only_what_computes_is_used(file: Path) -> None:
    """A module that is missing above belongs there only if it reads neither files nor clock nor network."""
    used = set(_used(ast.parse(file.read_text())))
    assert [] == sorted(name for name in used if name not in IMPORTS)


def _used(tree: ast.AST) -> Iterator[str]:
    """The modules that are imported, by their first names, but for our own; and those functions that are called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("webhook."):
            yield (node.module or ".").partition(".")[0]
        elif isinstance(node, ast.Name) and node.id in BUILT_IN:
            yield node.id
