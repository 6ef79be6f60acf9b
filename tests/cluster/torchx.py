"""The real TorchX client, in an environment of its own (see requirements-torchx.in), and the CRD that it needs.

python = client()                   # a Python with TorchX and this checkout's wheel, cached like the Go programs
cluster.install_crds(VOLCANO_JOB)
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.checkout import ROOT

from . import binaries

LOCK = ROOT / "requirements-torchx.lock"
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check", "install")

VOLCANO_JOB = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "jobs.batch.volcano.sh"},
    "spec": {
        "group": "batch.volcano.sh",
        "scope": "Namespaced",
        "names": {"kind": "Job", "listKind": "JobList", "plural": "jobs", "singular": "job", "shortNames": ["vcjob"]},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
"""As much of Volcano's CRD as the API server needs to store its Jobs."""


def client() -> Path:
    """Return the `torchx` command of an environment with the locked TorchX and a wheel of this checkout."""
    folder = binaries.cache() / f"torchx-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]}"
    python = folder / "bin" / "python"
    with binaries.lock(folder.with_suffix(".lock")):
        if not (folder / "bin" / "torchx").exists():
            binaries.say(f"installing TorchX into {folder}, about a minute")
            shutil.rmtree(folder, ignore_errors=True)
            run(sys.executable, "-m", "venv", str(folder))
            run(str(python), *PIP, "--require-hashes", "-r", str(LOCK))
        with tempfile.TemporaryDirectory() as copy:
            install(python, Path(copy))
    return folder / "bin" / "torchx"


def install(python: Path, copy: Path) -> None:
    """Build and install the wheel from a copy, so that nothing is left in the checkout."""
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy)
    for package in ("webhook", "certs"):
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    run(str(python), *PIP, "--no-deps", "--no-build-isolation", "--force-reinstall", str(copy))


def run(*command: str) -> None:
    """Run one step; BuildError with its output where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise binaries.BuildError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
