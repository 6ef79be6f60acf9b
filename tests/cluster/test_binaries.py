"""Where the control plane's programs come from: given, cached, or built, with a clear word when a build fails."""

import os
from pathlib import Path

import pytest

from . import binaries


def test_given_programs_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$KUBEBUILDER_ASSETS gives etcd, as it does for envtest; other files there are not looked at."""
    for name in ("etcd", "kube-scheduler"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert binaries.ensure("etcd") == tmp_path / "etcd"
    assert binaries.ensure("kube-scheduler").parent == binaries.folder(binaries.PROGRAMS["kube-scheduler"])


def test_promtool_is_taken_from_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has it builds nothing; of the control plane's programs nothing on PATH is looked at."""
    for name in ("promtool", "kube-scheduler"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert binaries.ensure("promtool") == tmp_path / "promtool"
    assert binaries.ensure("kube-scheduler").parent == binaries.folder(binaries.PROGRAMS["kube-scheduler"])


def test_cache_folder_follows_the_pinned_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version in go.mod means another folder, so that nobody tests with yesterday's program."""
    program = binaries.PROGRAMS["kwok"]
    before = binaries.folder(program)
    (tmp_path / "kwok").mkdir()
    for file in ("go.mod", "go.sum"):
        text = (binaries.TOOLS / "kwok" / file).read_text()
        (tmp_path / "kwok" / file).write_text(text.replace(binaries.version(program), "v9.9.9"))
    monkeypatch.setattr(binaries, "TOOLS", tmp_path)
    assert binaries.version(program) == "v9.9.9"
    assert binaries.folder(program) != before


def test_failed_build_says_why_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that the module does not have: the error names the program and ends with what Go printed."""
    etcd = binaries.PROGRAMS["etcd"]
    broken = binaries.Program("broken", "etcd", etcd.module, "nothing-here", 1)
    monkeypatch.setitem(binaries.PROGRAMS, "broken", broken)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(binaries.BuildError, match=r"^broken: go build failed(.|\n)*nothing-here"):
        binaries.ensure("broken")
    left = [path.name for path in binaries.cache().rglob("*") if path.is_file()]
    assert left == ["broken.lock"]


def test_unknown_program_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt program ends the command with code 2 and the list of those known."""
    assert binaries.main(["kube-apisever"]) == 2
    stderr = capsys.readouterr().err
    assert stderr.startswith("unknown program kube-apisever; known: etcd, kube-apiserver")
