"""The manifests named by `-f`: files, directories and stdin, as text. Reads, but decides nothing."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import BinaryIO

from webhook.core.yaml.file_limits import CONFIG, MANIFESTS
from webhook.errors import BadConfig, Unreadable, printable

ENDINGS = (".yaml", ".yml", ".json")
"""File name extensions that are read in a directory, as by kubectl."""


def read(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(printable name, text) of each; "-" is stdin, a directory means its manifests, sorted by name."""
    left = MANIFESTS
    for name, data in _data(names):
        left -= len(data)
        if left < 0:
            raise Unreadable(
                f"{name}: more than {MANIFESTS >> 20} MiB at once; give the files one by one, or split them"
            )
        yield name, _decoded(name, data)


def config(name: str) -> bytes:
    """A site config, or a chart's values; "-" is stdin. One byte more of it than may be read."""
    if name == "-":
        return sys.stdin.buffer.read(CONFIG + 1)
    try:
        with Path(name).open("rb") as file:
            return file.read(CONFIG + 1)
    except OSError as error:
        raise BadConfig(f"{name}: {error.strerror or error}") from None


def _data(names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """At most one byte more of each than may be read in total."""
    for name in names:
        if name == "-":
            yield "stdin", _some(sys.stdin.buffer)
            continue
        for path in _files(Path(name)):
            try:
                with path.open("rb") as file:
                    yield printable(path), _some(file)
            except OSError as error:
                raise _unreadable(path, error) from None


def _some(file: BinaryIO) -> bytes:
    return file.read(MANIFESTS + 1)


def _files(path: Path) -> list[Path]:
    """The files that a name means. In a directory only regular files are read: a pipe or a device might never end."""
    if not path.is_dir():
        return [path]
    found: list[Path] = []
    try:
        for file in sorted(path.iterdir()):
            if file.suffix not in ENDINGS or S_ISDIR(mode := file.stat().st_mode):
                continue
            if not S_ISREG(mode):
                raise Unreadable(f"{file}: not a file")
            found.append(file)
    except OSError as error:
        raise _unreadable(path, error) from None
    if not found:
        raise Unreadable(f"{path}: no manifest in it ({', '.join(ENDINGS)})")
    return found


def _unreadable(path: Path, error: OSError) -> Unreadable:
    return Unreadable(f"{error.filename or path}: {(error.strerror or str(error)).lower()}")


def _decoded(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"{name}:{line}: not UTF-8 text") from None
