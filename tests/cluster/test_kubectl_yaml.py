"""Our reading of YAML against kubectl's, which needs no API server for `annotate --local`."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkout import EXAMPLES
from webhook import load
from webhook.core.yaml import nodes
from webhook.errors import BadYaml
from webhook.manifest import inject

from . import binaries
from .conftest import build

WORDS = """
1e3 1E3 1e-2 1e+2 1e400 .5 +.5 -.5 5. ._5 1_000 1__0 0 00 010 08 0o17 0o8 0x1F 0X1f -0x1f 0x 0b101 0b12 +0b11 0x_1f
yes Yes YES yEs no on off y n true True tRue null Null nULL ~ 2026-01-01 2026-01-01T00:00:00Z 190:20:30 12:30
100m 64Gi 2x2x2 1.5e3k -1 +1 . .. .e5 .inf1 .nan1 9223372036854775807 _1 -_1 1e22 0.1 1.0
9999999999999999999 18446744073709551615 18446744073709551616 -9223372036854775808 -9223372036854775809
0xffffffffffffffff 0x1ffffffffffffffff 0o7777777777777777777777 0777777777777777777777777 1_ +0x1f -0b1
-0o7 1e 0b 0B1
"""
SCALARS = [
    *WORDS.split(),
    "1\uff11",
    "1" * 400,
    "0x" + "f" * 400,
    "0b" + "1" * 64,
    "0b" + "1" * 65,
    "0" * 400 + "17",
    "1." + "0" * 400,
]
BREAKS = ("\n", "\r\n", "\r", "\x85", "\u2028", "\u2029")


@pytest.fixture(scope="module")
def kubectl(pytestconfig: pytest.Config) -> Path:
    """The real kubectl."""
    build(pytestconfig, "kubectl")
    return binaries.ensure("kubectl")


def read(kubectl: Path, text: str) -> Any:
    """The one object in `text` as kubectl reads it; it adds one annotation."""
    command = [str(kubectl), "annotate", "--local", "-f", "-", "read=by-kubectl", "-o", "json"]
    printed = subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout
    found = json.loads(printed, parse_int=lambda digits: int(digits) if abs(int(digits)) < 2**63 else float(digits))
    del found["metadata"]["annotations"]["read"]
    return found


def test_scalars_are_read_alike(kubectl: Path) -> None:
    """Every spelling that YAML 1.1, YAML 1.2 and Go disagree about."""
    data = "".join(f"  k{index}: {text}\n" for index, text in enumerate(SCALARS))
    text = f"apiVersion: example.com/v1\nkind: Thing\nmetadata: {{name: x, annotations: {{a: b}}}}\ndata:\n{data}"

    theirs, ours = read(kubectl, text)["data"], nodes.plain(next(nodes.documents(text)).root)["data"]

    assert {key: (SCALARS[int(key[1:])], value) for key, value in theirs.items()} == {
        key: (SCALARS[int(key[1:])], value) for key, value in ours.items()
    }


@pytest.mark.parametrize("line", BREAKS, ids=ascii)
def test_lines_end_alike(kubectl: Path, line: str) -> None:
    """A comment, a value, a block and text between quotes end, or go on, where kubectl has it."""
    text = (
        "apiVersion: example.com/v1 # a comment\nkind: Thing\nmetadata: {name: x, annotations: {a: b}}\ndata:\n"
        '  plain: one\n    two\n  quoted: "one\n    two"\n  block: |\n    one\n    two\n  folded: >-\n    one\n'
    ).replace("\n", line)

    assert read(kubectl, text) == nodes.plain(next(nodes.documents(text)).root)


@pytest.mark.parametrize(("values", "times"), [(1, 90), (1000, 80), (1000, 95), (8000, 50), (200_000, 3)])
def test_aliases_may_bring_what_kubectl_takes(kubectl: Path, values: int, times: int) -> None:
    """Nearly a hundred times what there is without them, and less of much."""
    text = aliased(values, times)
    assert read(kubectl, text) == nodes.plain(next(nodes.documents(text)).root)


@pytest.mark.parametrize(("values", "times"), [(1000, 130), (1000, 2000), (30_000, 60)])
def test_aliases_may_not_bring_what_kubectl_refuses(kubectl: Path, values: int, times: int) -> None:
    """Both refuse what is far too much."""
    text = aliased(values, times)
    with pytest.raises(subprocess.CalledProcessError) as refused:
        read(kubectl, text)
    assert b"excessive aliasing" in refused.value.stderr
    with pytest.raises(BadYaml, match="aliases stand for more than"):
        next(nodes.documents(text))


def aliased(values: int, times: int) -> str:
    """An object with a list of so many values, and so many aliases of it."""
    head = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x, annotations: {a: b}}\n"
    return f"{head}x: &x [{'1,' * values}]\ny: [{'*x,' * times}]\n"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_what_inject_prints_is_what_it_means(kubectl: Path, path: Path) -> None:
    """The text after injection is read by kubectl as the values that the rules made."""
    for result in inject.results(path.read_text(), load.load()):
        if result.value.get("metadata", {}).get("annotations"):
            assert result.value == read(kubectl, result.after)
