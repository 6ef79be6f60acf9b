"""Environments with the libraries, each of a lock of its own, cached like the Go programs.

found = ask("jax_cluster", [{"environment": {...}, "names": {...}}])     # one conclusion for each
"""

import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import binaries

ROOT = Path(__file__).parents[2]
READERS, LIBTPU = "readers", "libtpu"
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check", "install")
MISSING = "No matching distribution found"


@functools.cache
def python(name: str = READERS) -> Path:
    """The Python of requirements-NAME.lock, installed once; skips where there are no wheels for this machine."""
    lock = ROOT / f"requirements-{name}.lock"
    folder = binaries.cache() / f"{name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    with binaries.lock(folder.with_suffix(".lock")):
        if not (folder / "installed").exists():
            binaries.say(f"installing what {lock.name} names into {folder}, about a minute")
            shutil.rmtree(folder, ignore_errors=True)
            run(sys.executable, "-m", "venv", str(folder))
            run(str(folder / "bin" / "python"), *PIP, "--only-binary", ":all:", "--require-hashes", "-r", str(lock))
            (folder / "installed").touch()
    return folder / "bin" / "python"


def run(*command: str) -> None:
    """Run one step; BuildError with its output where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and MISSING in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    if done.returncode:
        raise binaries.BuildError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def ask(program: str, question: Any, seconds: float = 120, name: str = READERS) -> Any:
    """What the program answers in the environment of that name."""
    done = subprocess.run(
        [str(python(name)), str(Path(__file__).with_name(f"{program}.py"))],
        input=json.dumps(question),
        env={"PATH": os.environ["PATH"], "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)
