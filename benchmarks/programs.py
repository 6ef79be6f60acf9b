"""The Go programs, peer and load generator: built once and cached, like those of the control plane.

path = ensure("peer")
"""

import hashlib
import os
import re
from pathlib import Path

from tests.cluster import binaries
from tests.cluster.binaries import BuildError, Program

FOLDER = Path(__file__).parent / "go"
MODULE = "sigs.k8s.io/controller-runtime"


class Ours(Program):
    """A main package of the module in go/. Its version is that of controller-runtime."""

    @property
    def package(self) -> str:
        return f"./{self.main}"


# `tool` is an absolute path: this folder, instead of one of the control plane's.
PROGRAMS = {
    program.name: program
    for program in (
        Ours("peer", str(FOLDER), MODULE, "peer", 90),
        Ours("load", str(FOLDER), MODULE, "load", 5),
    )
}

__all__ = ["BuildError", "ensure", "version"]


def ensure(name: str) -> Path:
    """The program's executable, built if it is not cached; raises BuildError with the end of Go's output."""
    binary = _folder(name) / name
    if binary.exists():
        return binary
    with binaries.lock(binary.with_name(f"{name}.lock")):
        if not binary.exists():
            binaries.build(PROGRAMS[name], binary)
    return binary


def _folder(name: str) -> Path:
    """The cache folder of a program: its name contains a hash of the sources and of the module's files."""
    key = hashlib.sha256("\0".join(binaries.FLAGS).encode())
    for path in sorted((*FOLDER.glob("go.*"), *(FOLDER / name).glob("*.go"))):
        key.update(path.read_bytes() + b"\0")
    return binaries.cache() / f"benchmarks-{os.uname().machine}-{key.hexdigest()[:16]}"


def version() -> str:
    """The version of controller-runtime that the peer is built with."""
    found = re.search(rf"^\s*{re.escape(MODULE)} (v\S+)", (FOLDER / "go.mod").read_text(), re.MULTILINE)
    return found[1] if found else "unknown"
