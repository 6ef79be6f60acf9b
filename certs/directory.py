"""The directory that `serve` reads its certificate from, updated atomically.

As a kubelet does it (k8s.io/kubernetes pkg/volume/util/atomic_writer.go): the files are in a directory with a
unique name, `..data` is a symlink to that, and each file's name a symlink through `..data`. Renaming a new
`..data` over the old one changes certificate, key and state in one step, so a reader never sees a mixture.

    tls.crt      -> ..data/tls.crt       the serving certificate
    tls.key      -> ..data/tls.key       its key, mode 0600
    ca.crt       -> ..data/ca.crt        the CAs that every entry should trust
    state.json   -> ..data/state.json    see state.py
    ..data       -> ..<time>.<number>
"""

import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from certs import pki
from certs.pki import KeyPair

DATA = "..data"
CERTIFICATE, KEY, BUNDLE, STATE = "tls.crt", "tls.key", "ca.crt", "state.json"


def write(directory: Path, files: Mapping[str, bytes]) -> None:
    """Make `files` the content of `directory`. Raises OSError, and then the old content stays."""
    directory.mkdir(parents=True, exist_ok=True)
    before = os.readlink(directory / DATA) if (directory / DATA).is_symlink() else ""
    fresh = directory / f"..{secrets.token_hex(8)}"
    fresh.mkdir(mode=0o755)
    try:
        for name, content in files.items():
            _create(fresh / name, content, 0o600 if name == KEY else 0o644)
        _link(directory / DATA, fresh.name)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    for name in files:
        target = f"{DATA}/{name}"
        if not (directory / name).is_symlink() or os.readlink(directory / name) != target:
            _link(directory / name, target)
    _sweep(directory, {DATA, fresh.name, before})  # a reader that has just opened the previous content may finish


def leaf(directory: Path) -> KeyPair | None:
    """The current certificate and key, both from the same write; None if they do not match."""
    while True:
        data = (directory / DATA).resolve()
        try:
            pair = KeyPair((data / CERTIFICATE).read_bytes(), (data / KEY).read_bytes())
        except OSError:
            if (directory / DATA).resolve() == data:
                return None
            continue  # replaced while we read
        return pair if pki.matches(pair) else None


def _create(path: Path, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(content)


def _link(path: Path, target: str) -> None:
    """Point `path` at `target` atomically, whatever it was before."""
    beside = path.with_name(f"..new-{secrets.token_hex(4)}")
    beside.symlink_to(target)
    beside.replace(path)


def _sweep(directory: Path, kept: set[str]) -> None:
    """Remove what earlier writes left, including those of a process that was killed half-way."""
    for entry in directory.glob("..*"):
        if entry.name in kept:
            continue
        if entry.is_symlink():
            entry.unlink(missing_ok=True)
        else:
            shutil.rmtree(entry, ignore_errors=True)
