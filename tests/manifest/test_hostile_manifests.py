"""Manifests that mean it no good: read as kubectl reads them or refused in one line; costs are by their size."""

import json
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import budget
from tests.support.checkout import ROOT
from tests.support.manifest import HEAD, POD, POD_AFTER, SITE, after, only_added
from webhook.core.schema import site
from webhook.core.yaml import file_limits, nodes
from webhook.errors import BadManifest
from webhook.manifest.edit import rewrite
from webhook.manifest.inject import LAYOUT_LOST, injected, joined, results
from webhook.manifest.style import JSON, Layout

BREAKS = {"a lone return": "\r", "U+0085": "\x85", "U+2028": "\u2028", "U+2029": "\u2029"}
LEVELS = file_limits.LEVELS


def problem(text: str) -> str:
    """The message about a manifest that is refused."""
    with budget.within(len(text)), pytest.raises(BadManifest) as raised:
        injected(text, SITE, filename="f.yaml")
    assert str(raised.value).isprintable()
    return str(raised.value)


def value(text: str) -> Any:
    """What the first document holds."""
    return nodes.plain(next(nodes.documents(text)).root)


def test_a_list_behind_many_signs_is_read_at_once() -> None:
    """Whether a dash follows is found out by reading once, whatever stands before it."""
    for signs in ("!" + "&" * 40, "! " * 5000, "&" * 5000, "!" + "&!" * 2500):
        text = HEAD + f"spec:\n  containers: {signs}\r  - name: m\n"
        with budget.within(len(text)), suppress(BadManifest):
            injected(text, SITE)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("9" * 19, float("9" * 19)),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), float(2**63)),
        (str(2**64 - 1), float(2**64 - 1)),
        (str(2**64), float(2**64)),
        ("-" + str(2**63), -(2**63)),
        ("-" + str(2**63 + 1), -float(2**63 + 1)),
        ("0x" + "f" * 16, float(2**64 - 1)),
        ("0x1" + "f" * 16, "0x1" + "f" * 16),
        ("0b" + "1" * 64, float(2**64 - 1)),
        ("0b" + "1" * 65, "0b" + "1" * 65),
        ("0" * 5000 + "17", 15),
        ("0o" + "7" * 30, "0o" + "7" * 30),
        ("0" + "7" * 30, float("7" * 30)),
        ("1\uff11", "1\uff11"),
        ("1\u3000", "1\u3000"),
    ],
)
def test_numbers_are_those_of_kubectl(text: str, number: object) -> None:
    """What needs more than 63 is a float, or text, as with kubectl; and only ASCII digits make a number."""
    assert (number, type(number)) == (nodes.resolve(text), type(nodes.resolve(text)))


@pytest.mark.parametrize("start", ["", "-", "0", "0x", "0b", "0o", "1_000_", "0.", "1e", "1e-", ".", "+."])
def test_numbers_without_end_are_text_or_floats(start: str) -> None:
    """Ten thousand digits are neither an error of ours nor slow, whatever the base."""
    digits = "1" * 10_000
    text = POD + f"    x: {start}{digits}\n"

    with budget.within(len(text)):
        now = after(text)

    assert f"x: {start}{digits}\n" in now


@pytest.mark.parametrize(
    "text",
    [
        "x: " + "[" * 10_000,
        "x: " + "[" * (LEVELS + 1) + "]" * (LEVELS + 1),
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        "- " * 10_000 + "x",
        "".join(" " * level + "a:\n" for level in range(3000)),
        "? " * 5000 + "x",
        "a0: &a0 " + "[" * 90 + "]" * 90 + "\na1: &a1 " + "[" * 90 + "*a0" + "]" * 90 + "\na2: [[" + "[" * 30 + "*a1",
    ],
)
def test_deep_nesting_is_refused_with_the_limit(text: str) -> None:
    """Nothing that walks a value runs out of stack, aliases written out or not."""
    assert problem(text).endswith(f": nested too deeply: more than {LEVELS} levels")
    exact = "x: " + "[" * (LEVELS - 1) + "]" * (LEVELS - 1)
    assert exact == after(exact)


@pytest.mark.parametrize("style", ["flow", "block", "json", "alias", "unknown"])
def test_nesting_up_to_the_limit_is_read_and_written(style: str) -> None:
    """An object as deep as may be gets its edits, through every way of writing it."""
    free = LEVELS - 6  # below a container, and `<<` takes one
    deep = "[" * free + "]" * free
    text = {
        "flow": POD + f"    x: {deep}\n",
        "block": POD + "".join(f"{' ' * (4 + level)}a:\n" for level in range(free)) + " " * 400 + "b\n",
        "json": json.dumps({**yaml.safe_load(POD), "x": {"y": {"z": json.loads(deep)}}}),
        # An alias that gets other edits than its anchor: both, and all below, are written out.
        "alias": POD.replace("nvidia-l4\n", "nvidia-l4\n    accel.io/container: b\n", 1)
        + f"  - &b\n    name: b\n    x: {deep}\n  - <<: *b\n    name: c\n",
        "unknown": f"apiVersion: example.com/v1\nkind: Thing\nspec:\n  x: {deep}\n",
    }[style]

    now = after(text)

    assert (now == text) == (style == "unknown")
    document = next(nodes.documents(text))
    lost = rewrite(document, [{"op": "add", "path": "/new", "value": nodes.plain(document.root)}])
    assert lost.value["new"] == nodes.plain(document.root)


def test_aliases_are_counted_with_what_they_bring() -> None:
    """A few lines can stand for billions of values, or for gigabytes of text."""
    values = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    values += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    merges = ["a0: &a0 {x: 1}"]
    merges += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 30)]
    text = "a: &a " + "x" * 100_000 + "\nb:\n" + "- *a\n" * 2000

    for rows in (values, merges):
        assert re.fullmatch(
            r"f.yaml:[45]:\d+: aliases stand for more than \d,\d00 keys and values", problem("\n".join(rows))
        )
    assert problem(text) == "f.yaml:134:3: aliases stand for more than 12 MiB of text"


def test_much_text_needs_no_more_memory_than_a_multiple_of_it() -> None:
    """What 10 MB of documents, and what an alias bomb that is just allowed, take in a process of their own."""
    if not Path("/proc/self/status").exists():
        pytest.skip("this system has no /proc to read the most memory from")
    documents = f"'---\\n'.join([{POD + '# ' + 'c' * 2000 + chr(10)!r}] * 4500)"
    bomb = f"{POD + '    a: &a '!r} + 'x' * 100_000 + '\\n    args:\\n' + '    - *a\\n' * 125"
    used = [memory(documents), memory(bomb)]
    print(f"MiB of memory: {used[0]} for 10 MB of documents, {used[1]} for 12 MB of aliases")
    assert used[0] < 80
    assert used[1] < 100


def memory(text: str) -> int:
    """MiB that injecting a manifest takes beside its text, at any moment; it is a Python expression."""
    program = """
import re, sys
from pathlib import Path
from webhook import load
from webhook.manifest.inject import results as injected
def peak(): return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024
text, site = eval(sys.argv[1]), load.load()
before = peak()
found = injected(text, site)
print(peak() - before)
"""
    return int(subprocess.run([sys.executable, "-c", program, text], cwd=ROOT, capture_output=True, check=True).stdout)


@pytest.mark.parametrize("kind", BREAKS)
def test_every_line_break_of_yaml_is_one(kind: str) -> None:
    """Lines, comments and indentation end where kubectl has them end, and what is added stands on lines of its own."""
    line = BREAKS[kind]
    text = POD.replace("\n", line) + f"  # above{line}  - name: b # beside{line}"

    now = after(text)

    assert value(now)["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert not results(text, SITE)[0].warnings
    assert only_added(text, now)


@pytest.mark.parametrize("kind", BREAKS)
def test_every_line_break_of_yaml_counts_in_a_place(kind: str) -> None:
    """An error is where YAML says, in a comment's second line too."""
    line = BREAKS[kind]

    assert problem(f"# a{line}b: 1{line}c: [{line}").startswith("f.yaml:4:1: ")
    assert problem(f"a: 1{line}a2: {{}}{line}b: *x").startswith("f.yaml:3:4: unknown alias *x")
    assert problem(POD.replace("\n", line) + f"kind: Pod{line}").startswith("f.yaml:11:1: duplicate key")


@pytest.mark.parametrize("kind", BREAKS)
def test_line_breaks_inside_of_text_stay(kind: str) -> None:
    """In quotes and in comments they are as good as any character."""
    if kind == "a lone return":
        return
    mark = BREAKS[kind]
    text = POD.replace("image: x", f'image: "x{mark}y" # z{mark}    args: [a] #')

    assert only_added(text, after(text))
    assert value(text) == value(after(text)) | {"metadata": value(text)["metadata"], "spec": value(text)["spec"]}


def test_old_line_ends_are_kept() -> None:
    """A file with one kind of them gets more of that kind, and a script above what is added ends as it did."""
    script = POD.replace("image: x\n", "args:\n    - |\n      one\n")
    for line in ("\r\n", *BREAKS.values()):
        assert POD_AFTER.replace("\n", line) == after(POD.replace("\n", line))
        assert not results(script.replace("\n", line), SITE)[0].warnings


def test_a_place_is_in_characters() -> None:
    """libyaml counts the bytes before a character that may not be, an editor does not."""
    assert problem("é: ééé\né: é\x07\n").startswith("f.yaml:2:5: a character that YAML does not allow")
    assert problem("a: \ud800\n") == "f.yaml:1:4: half a character (a surrogate)"


@pytest.mark.parametrize(
    "character", ["\x7f", "\x9b", "\u202e", "\u2028", "\ue000", "\U000e0001", "\U0001f600", "\x00"]
)
@pytest.mark.parametrize("layout", [Layout(), Layout.of(next(nodes.documents("{}")).root)])
def test_what_is_written_is_read_again(layout: Layout, character: str) -> None:
    """Escapes mean the character that they are for, beyond 16 bits too; and nothing written commands a terminal."""
    text = "\n".join(layout.lines({"a": f"x{character}y", f"k{character}": [character]}))

    assert text.replace("\n", "").isprintable()
    assert json.loads(JSON.pretty([character])) == [character]
    assert JSON.pretty([character]).replace("\n", "").isprintable()
    if not layout.json:
        assert value(text) == {"a": f"x{character}y", f"k{character}": [character]}


@pytest.mark.parametrize("length", [999, 1001, 5000])
def test_long_keys_are_written_so_that_they_can_be_read(length: int) -> None:
    """YAML looks for a key's colon no further than 1,024 characters."""
    root = {"a": {"k" * length: {"b": [1]}}, "k/" + "x" * length: "v"}

    assert value("\n".join(Layout().lines(root))) == root
    assert value(Layout().flow(root)) == root


def test_an_odd_indentation_is_not_copied() -> None:
    """A thousand blanks before the first field are no reason to put a thousand before each new one."""
    text = POD.replace("  name: p", " " * 1000 + "name: p").replace("  annotations:", " " * 1000 + "annotations:")
    text = text.replace("    accel.io", " " * 2000 + "accel.io")

    assert len(after(text)) < len(text) + 4000


def test_files_join_whatever_they_begin_with() -> None:
    """A directive needs the document before it ended, and `---x` is no marker."""
    files = [POD, "%YAML 1.1\n---\na: 1\n", "---x: 1\n", "# c\r---\rb: 1\r", "---"]

    found = [nodes.plain(document.root) for document in nodes.documents(joined(files))]

    assert found == [yaml.safe_load(POD), {"a": 1}, {"---x": 1}, {"b": 1}, None]


def test_a_document_that_is_written_anew_ends_where_it_did() -> None:
    """The next one may begin with a directive, which needs the end of the one before."""
    text = (
        POD.replace("name: a\n", "{name: a # c\n    }\n  #").replace("    image", "    # image")
        + "...\n%YAML 1.1\n---\na: 1\n"
    )

    found = results(text, SITE)

    assert [("", LAYOUT_LOST)] == list(found[0].warnings)
    after_all = "".join(result.after for result in found)
    assert "\n...\n%YAML 1.1\n" in after_all
    now = [nodes.plain(document.root) for document in nodes.documents(after_all)]
    assert [now[0]["spec"]["containers"][0]["name"], now[1]] == ["a", {"a": 1}]


def test_a_hundred_objects_are_no_attack() -> None:
    """A List and a stream of many objects, each edited, are read whole."""
    item = "- " + POD.replace("\n", "\n  ").rstrip(" ")
    items = "apiVersion: v1\nkind: List\nitems:\n" + item * 100

    assert 100 == after(items).count("nvidia.com/gpu\n")
    assert 100 == after("---\n".join([POD] * 100)).count("nvidia.com/gpu\n")


def test_the_limits_are_those_of_the_page() -> None:
    """What docs/troubleshooting.md says of files that cannot be read."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    section = page.partition("## Files that cannot be read")[2].partition("\n## ")[0]
    manifest, config = file_limits.OF_MANIFEST, file_limits.OF_CONFIG
    for row in (
        f"| {file_limits.LEVELS} levels |",
        f"{file_limits.ALIASED_TIMES} times what the document has",
        f"{manifest.aliased_values:,} |",
        f"plus {file_limits.FEW_CHARACTERS >> 20} MiB; at most {manifest.aliased_characters >> 20} MiB |",
        f"more than {manifest.values:,} keys",
        f"more than {file_limits.MANIFESTS >> 20} MiB at once",
        f"more than {file_limits.CONFIG >> 20} MiB, which a ConfigMap",
        f"{config.values:,} keys and values, {site.MAX_PATTERNS:,} patterns, {site.MAX_TYPES:,} types |",
    ):
        assert row in section
