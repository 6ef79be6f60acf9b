"""The server stands on what its libraries promise: no private name of asyncio, uvloop, httptools or ssl is used."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.checkout import ROOT

FILES = sorted((ROOT / "webhook" / "server").glob("*.py"))
ABSENT = {"uvicorn", "fastapi", "starlette"}


def private(name: str) -> bool:
    return any(part.startswith("_") and not part.endswith("__") for part in name.split("."))


def borrowed(tree: ast.AST) -> Iterator[str]:
    """Private names that are not the file's own, and libraries that are not to be there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and private(node.attr):
            owner = node.value
            if not (isinstance(owner, ast.Name) and owner.id in ("self", "cls")) and ast.unparse(node) not in ALLOWED:
                yield f"line {node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom):
            yield from (
                f"line {node.lineno}: {name}"
                for name in (f"{node.module}.{alias.name}" for alias in node.names)
                if (private(name) and name not in ALLOWED) or name.split(".")[0] in ABSENT
            )
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if private(a.name) or a.name.split(".")[0] in ABSENT)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr"):
            yield f"line {node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.Constant) and str(node.value).startswith("uvloop."):
            yield f"line {node.lineno}: {node.value}"  # get_extra_info("uvloop.sslproto") hands out its insides


ALLOWED = {"os._exit", "webhook.__version__"}
"""Documented under these names: https://docs.python.org/3/library/os.html#os._exit"""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_only_public_names(file: Path) -> None:
    """Of others' objects and modules."""
    assert list(borrowed(ast.parse(file.read_text()))) == []


@pytest.mark.parametrize(
    "code",
    [
        "from uvicorn.config import Config",
        "import fastapi",
        "from asyncio import _x",
        "import uvloop._noop",
        "connection.transport._ssl_protocol",
        "self.loop._selector",
        "getattr(loop, '_ready')",
        "transport.get_extra_info('uvloop.sslproto')",
    ],
)
def test_each_way_would_be_seen(code: str) -> None:
    """So that the test above can fail."""
    assert list(borrowed(ast.parse(code)))
