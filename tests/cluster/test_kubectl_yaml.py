"""Our reading of YAML against kubectl's, which needs no API server for `annotate --local`."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from webhook import load
from webhook.core.schema import nodes
from webhook.manifest import inject

from . import binaries
from .conftest import build

EXAMPLES = sorted(p for p in (Path(__file__).parents[2] / "examples").glob("*.yaml") if p.stem != "site")
WORDS = """
1e3 1E3 1e-2 1e+2 1e400 .5 +.5 -.5 5. ._5 1_000 1__0 0 00 010 08 0o17 0o8 0x1F 0X1f -0x1f 0x 0b101 0b12 +0b11 0x_1f
yes Yes YES yEs no on off y n true True tRue null Null nULL ~ 2026-01-01 2026-01-01T00:00:00Z 190:20:30 12:30
100m 64Gi 2x2x2 1.5e3k -1 +1 . .. .e5 .inf1 .nan1 9223372036854775807 _1 -_1 1e22 0.1 1.0
"""
SCALARS = WORDS.split()


@pytest.fixture(scope="module")
def kubectl(pytestconfig: pytest.Config) -> Path:
    """The real kubectl."""
    build(pytestconfig, "kubectl")
    return binaries.ensure("kubectl")


def read(kubectl: Path, text: str) -> Any:
    """The one object in `text` as kubectl reads it; it adds one annotation."""
    command = [str(kubectl), "annotate", "--local", "-f", "-", "read=by-kubectl", "-o", "json"]
    found = json.loads(subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout)
    del found["metadata"]["annotations"]["read"]
    return found


def test_scalars_are_read_alike(kubectl: Path) -> None:
    """Every spelling that YAML 1.1, YAML 1.2 and Go disagree about."""
    data = "".join(f"  k{index}: {text}\n" for index, text in enumerate(SCALARS))
    text = f"apiVersion: example.com/v1\nkind: Thing\nmetadata: {{name: x, annotations: {{a: b}}}}\ndata:\n{data}"

    theirs, ours = read(kubectl, text)["data"], nodes.plain(nodes.documents(text)[0].root)["data"]

    assert {key: (SCALARS[int(key[1:])], value) for key, value in theirs.items()} == {
        key: (SCALARS[int(key[1:])], value) for key, value in ours.items()
    }


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_what_inject_prints_is_what_it_means(kubectl: Path, path: Path) -> None:
    """The text after injection is read by kubectl as the values that the rules made."""
    for result in inject.results(path.read_text(), load.load()):
        if result.value.get("metadata", {}).get("annotations"):
            assert result.value == read(kubectl, result.after)
