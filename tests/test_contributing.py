"""CONTRIBUTING.md's recipes, done: they cannot rot."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.checkout import ROOT
from webhook import __version__


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this checkout, without its cases, to try recipes on."""
    place = tmp_path_factory.mktemp("recipes")
    leave = shutil.ignore_patterns("__pycache__", "cases", "round_trip", "go", "reviews")
    for name in ("certs", "charts", "docs", "tests", "webhook"):
        shutil.copytree(ROOT / name, place / name, ignore=leave)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, place)
    return place


def make(target: str, where: Path, *variables: str) -> None:
    """`make`, with the programs of this environment."""
    command = ["make", "--old-file=install", target, f"BIN={Path(sys.executable).parent}", *variables]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def check(where: Path, *names: str) -> None:
    """The tests that `make check` would run of what the recipe touched."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *names]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def new_case(where: Path, name: str, type_name: str) -> Path:
    """The second step of the recipes: a Pod of the new type."""
    folder = where / "tests" / "cases" / name
    folder.mkdir(parents=True)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {"accel.io/type": type_name}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    (folder / "input.yaml").write_text(f"# Why: {type_name} is one entry of the catalogue.\n{yaml.safe_dump(pod)}")
    return folder


def node_selector(case: Path) -> Any:
    return yaml.safe_load((case / "expected.yaml").read_text())["spec"]["nodeSelector"]


def test_the_recipes_for_hardware(copied: Path) -> None:
    """A TPU generation and a GPU, added as the recipes say to a copy of the checkout; then its tests pass.

    The generation is v5p under another name. Without `make docs` the tests would say what is missing.
    """
    data, rows = copied / "webhook" / "data", copied / "tests" / "data" / "tpu_rows.json"
    tpu = (data / "tpu.yaml").read_text()
    entry = re.search(r"- kind: tpu\n  name: v5p\n(?:  .*\n)+", tpu)
    assert entry is not None
    (data / "tpu.yaml").write_text(f"{tpu}\n{entry[0].replace('v5p', 'v8x')}")
    documented = re.findall(r"^ *\[\"v5p-[0-9]+\", [0-9].*\],?\n", rows.read_text(), re.MULTILINE)
    (first, *_) = documented
    added = "".join(line.rstrip(",\n") + ",\n" for line in documented).replace("v5p", "v8x")
    rows.write_text(rows.read_text().replace(first, added + first, 1))
    gpu = {
        "kind": "model",
        "name": "nvidia-x9",
        "of": "nvidia-gpu",
        "select": {"gke": {"cloud.google.com/gke-accelerator": "nvidia-x9"}},
        "most": {"gke": 8},
    }
    with (data / "nvidia.yaml").open("a") as file:
        file.write(f"\n{yaml.safe_dump([gpu])}")
    make("docs", copied)
    cases = new_case(copied, "pod/tpu-v8x-16", "tpu-v8x-16"), new_case(copied, "gpu/nvidia-x9", "nvidia-x9")
    make("goldens", copied)

    assert {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v8x-slice",
        "cloud.google.com/gke-tpu-topology": "2x2x2",
    } == node_selector(cases[0])
    assert {"cloud.google.com/gke-accelerator": "nvidia-x9"} == node_selector(cases[1])
    check(copied, "tests/core/test_cases.py", "tests/core/test_catalogue.py", "tests/test_torchx.py")


def test_one_version_everywhere() -> None:
    """The package, the newest entry of the changelog, and the chart's appVersion agree."""
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    chart = yaml.safe_load((ROOT / "charts" / "accel-injector" / "Chart.yaml").read_text())

    assert newest is not None
    assert __version__ == newest[1] == chart["appVersion"]


def test_every_dependency_has_its_sentence() -> None:
    """CONTRIBUTING.md says why each is there."""
    project = (ROOT / "pyproject.toml").read_text()
    block = project.split("dependencies = [", 1)[1].split("]\n", 1)[0]
    names = re.findall(r'"([A-Za-z0-9.-]+)', block)
    text = (ROOT / "CONTRIBUTING.md").read_text().split("## Dependencies", 1)[1]

    assert [] == [name for name in names if name not in text]
