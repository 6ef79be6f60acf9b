"""The manifests that `-f` names: files, directories and stdin, as text. Reads, and decides nothing."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ENDINGS = (".yaml", ".yml", ".json")
"""What a directory's files must end in, as with kubectl."""


class Unreadable(Exception):
    """A file cannot be read; one line, with its name."""


def read(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(name, text) of each; "-" is stdin, a directory is its manifests in the order of their names."""
    for name in names:
        if name == "-":
            yield "stdin", _decoded("stdin", sys.stdin.buffer.read())
            continue
        for path in _files(Path(name)):
            yield str(path), _decoded(str(path), _bytes(path))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix in ENDINGS and not file.is_dir())
    if not found:
        raise Unreadable(f"{path}: no manifest in it ({', '.join(ENDINGS)})")
    return found


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _decoded(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"{name}:{line}: not UTF-8 text") from None
