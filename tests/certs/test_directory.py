"""The directory that `serve` reads: whole at every moment, private where it must be."""

import os
import stat
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from certs import directory, pki
from certs.pki import KeyPair

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
CA = pki.new_ca(NOW)


def leaf() -> KeyPair:
    """A certificate with a key of its own."""
    return pki.issue(CA, ["localhost"], NOW)


def files(pair: KeyPair) -> dict[str, bytes]:
    """A whole content."""
    return {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": CA.certificate, "state.json": b"{}\n"}


def test_layout_is_a_kubelets(tmp_path: Path) -> None:
    """Files are symlinks through ..data, the key is private, and a second content replaces the first."""
    folder = tmp_path / "a" / "tls"
    first, second = leaf(), leaf()

    directory.write(folder, files(first))
    assert directory.leaf(folder) == first
    directory.write(folder, files(second))

    assert directory.leaf(folder) == second
    assert {os.readlink(folder / name) for name in files(second)} == {f"..data/{name}" for name in files(second)}
    assert stat.S_IMODE((folder / "tls.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "tls.crt").stat().st_mode) == 0o644


def test_leftovers_go(tmp_path: Path) -> None:
    """What a killed process left is removed; the content before this one stays for who has it open."""
    (tmp_path / "..dead").mkdir()
    (tmp_path / "..dead" / "tls.key").write_bytes(b"old")
    (tmp_path / "..new-dead").symlink_to("nowhere")
    for _ in range(5):
        directory.write(tmp_path, files(leaf()))

    hidden = [entry.name for entry in tmp_path.iterdir() if entry.name.startswith("..")]
    assert len(hidden) == 3, "..data, its target and the one before"
    assert not {"..dead", "..new-dead"} & set(hidden)


def test_a_plain_file_is_replaced(tmp_path: Path) -> None:
    """A file in the place of a symlink is replaced."""
    (tmp_path / "tls.crt").write_bytes(b"plain")
    pair = leaf()

    directory.write(tmp_path, files(pair))

    assert (tmp_path / "tls.crt").read_bytes() == pair.certificate


def test_an_unwritable_directory_keeps_its_content(tmp_path: Path) -> None:
    """Where the new content cannot be written the old one stands, and the error comes out."""
    pair = leaf()
    directory.write(tmp_path, files(pair))

    with pytest.raises(OSError, match="no/such"):
        directory.write(tmp_path, {**files(leaf()), "no/such": b""})

    assert directory.leaf(tmp_path) == pair
    assert len(list(tmp_path.glob("..*"))) == 2


def test_readers_never_see_halves(tmp_path: Path) -> None:
    """While the content is swapped 100 times, a reader that resolves ..data finds a matching pair each time."""
    pairs = [leaf() for _ in range(5)]
    directory.write(tmp_path, files(pairs[0]))
    ended = threading.Event()
    seen: list[KeyPair | None] = []

    def read() -> None:
        while not ended.is_set():
            seen.append(directory.leaf(tmp_path))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(100):
        directory.write(tmp_path, files(pairs[number % 5]))
    ended.set()
    reader.join()

    print(f"{len(seen)} reads during 100 swaps")
    assert len(set(seen)) > 1
    assert set(seen) <= set(pairs)


@pytest.mark.parametrize("broken", [{"tls.key": b"junk"}, {"tls.crt": b""}, {"tls.key": leaf().key}])
def test_what_cannot_be_used_is_no_leaf(tmp_path: Path, broken: dict[str, bytes]) -> None:
    """A pair that does not fit together, like an empty directory, is no leaf."""
    assert directory.leaf(tmp_path) is None
    directory.write(tmp_path, {**files(leaf()), **broken})

    assert directory.leaf(tmp_path) is None
