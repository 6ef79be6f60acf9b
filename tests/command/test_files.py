"""The files that `-f` names: what has no end, is no file, or is too much is refused in one line."""

import os
from pathlib import Path

import pytest

from tests.support.command import POD, accel
from webhook.command import files
from webhook.core.yaml.file_limits import CONFIG, MANIFESTS
from webhook.errors import BadConfig, Unreadable
from webhook.load import load


def problem(*names: object) -> str:
    """The messages about files that cannot be read."""
    with pytest.raises(Unreadable) as raised:
        list(files.read(map(str, names)))
    assert str(raised.value).isprintable()
    return str(raised.value)


def sparse(path: Path, size: int) -> Path:
    """A file of so many zeros, which take no room."""
    path.touch()
    os.truncate(path, size)
    return path


def test_what_has_no_end_is_too_much() -> None:
    """Memory is for as much as may be read, not for all that there is."""
    assert problem("/dev/zero") == "/dev/zero: more than 128 MiB at once; give the files one by one, or split them"


def test_files_are_too_much_together(tmp_path: Path) -> None:
    """Each by itself is read."""
    one, two = (sparse(tmp_path / name, MANIFESTS // 2 + 1) for name in ("a.yaml", "b.yaml"))

    assert [len(text) for _, text in files.read([str(one)])] == [MANIFESTS // 2 + 1]
    assert problem(one, two).startswith(f"{two}: more than 128 MiB")
    assert problem(tmp_path).startswith(f"{two}: more than 128 MiB")


def test_a_directory_is_its_files(tmp_path: Path) -> None:
    """A pipe there would be waited for, perhaps for ever; folders and other endings are passed over."""
    (tmp_path / "a.yaml").write_text("a: 1\n")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "notes.txt").write_text("b: 2\n")
    (tmp_path / "linked.yml").symlink_to(tmp_path / "notes.txt")
    assert [Path(name).name for name, _ in files.read([str(tmp_path)])] == ["a.yaml", "linked.yml"]

    os.mkfifo(tmp_path / "pipe.yaml")
    assert problem(tmp_path) == f"{tmp_path}/pipe.yaml: not a file"


def test_links_to_nothing_and_to_themselves(tmp_path: Path) -> None:
    """They are mistakes, and not passed over."""
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    assert problem(tmp_path) == f"{tmp_path}/loop.yaml: too many levels of symbolic links"
    (tmp_path / "loop.yaml").unlink()
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere")
    assert problem(tmp_path) == f"{tmp_path}/gone.yaml: no such file or directory"


def test_a_pipe_by_its_name_is_read() -> None:
    """As the shell's `<(...)` gives it."""
    ours, theirs = os.pipe()
    os.write(theirs, POD.encode())
    os.close(theirs)
    assert [text for _, text in files.read([f"/dev/fd/{ours}"])] == [POD]
    os.close(ours)


def test_a_site_config_is_read_as_far_as_it_may_be(tmp_path: Path) -> None:
    """The rest of a large file, or of one without end, is not even read."""
    for path in (sparse(tmp_path / "site.yaml", CONFIG + 1), Path("/dev/zero")):
        with pytest.raises(BadConfig, match="more than 1 MiB, which a ConfigMap cannot hold"):
            load(path)
        assert accel("config", "check", str(path)).code == 1
