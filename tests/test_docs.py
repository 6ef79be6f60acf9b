"""The pages keep their word (tests/support/page.py): blocks run, links lead somewhere, what is generated is current."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer.main
import yaml

from docs import document
from tests.support import page
from tests.support.chart import CHART, NAME, NAMESPACE, helm
from tests.support.checkout import EXAMPLES, ROOT
from tests.support.page import Block
from webhook import __version__, cli, load
from webhook.core import annotations
from webhook.core.kinds.registry import WORKLOADS
from webhook.core.messages import WARNINGS
from webhook.core.schema.site import Config
from webhook.core.site import Site
from webhook.core.slice_keys import SLICE
from webhook.manifest import inject

ELSEWHERE = {"ca.crt", "detect.accel.io", "expected.yaml", "patch.render", "spec.jobTemplate"}
"""Words with dots that are no values of the chart."""


class Silent(msgspec.Struct):
    """Text of the mapping."""

    spoken: int
    """Text of the field."""
    silent: int


def names(value: Any) -> str:
    return str(value) if isinstance(value, Block) else value.name


def manifests() -> list[Block]:
    return [block for block in page.blocks("yaml") if "\nkind: " in f"\n{block.text}"]


def results(text: str, name: str) -> list[inject.Result]:
    return inject.results(text, load.load(), "team-a", name)


def test_pages_have_blocks_that_we_know() -> None:
    """A block without a known word after its fence would not be tested."""
    assert [] == [(str(block), block.info) for block in page.blocks() if block.info not in page.KNOWN]
    for path in page.PAGES:
        fences = sum(line.startswith("```") for line in path.read_text().splitlines())
        assert fences == 2 * len(list(page.of_page(path))), f"{path.name} has a fence without a word, or not closed"
        assert not re.search(r"^    \S", page.prose(path), re.MULTILINE), f"{path.name} has a block without a fence"


@pytest.mark.parametrize("block", manifests(), ids=names)
def test_a_manifest_of_a_page_is_injected(block: Block) -> None:
    """No example is denied, and none produces a warning."""
    for result in results(block.text, str(block)):
        assert ((), ()) == (result.denied, result.warnings)
        assert "accel.io/injected" in result.after or "accel.io/" not in block.text


@pytest.mark.parametrize("path", EXAMPLES, ids=names)
def test_an_example_is_injected(path: Path) -> None:
    """Neither refused nor warned of, and it does ask for something."""
    found = results(path.read_text(), path.name)

    assert [((), ())] * len(found) == [(result.denied, result.warnings) for result in found]
    assert any("accel.io/injected" in result.after for result in found)


@pytest.mark.parametrize("block", [b for b in page.blocks("yaml") if b not in manifests()], ids=names)
def test_a_site_config_of_a_page_is_one(block: Block) -> None:
    """It is read as the webhook reads it."""
    Site.parse(block.text.encode(), str(block), load.builtin())


@pytest.mark.parametrize("block", page.blocks("yaml (values)"), ids=names)
def test_values_of_a_page_are_the_charts(block: Block) -> None:
    """The chart's schema takes them, and Helm renders the chart with them."""
    done = helm("template", NAME, str(CHART), "--namespace", NAMESPACE, values=yaml.safe_load(block.text))

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", page.blocks("yaml (argo)"), ids=names)
def test_parts_of_other_files_are_yaml(block: Block) -> None:
    """They are not ours to check further."""
    assert yaml.safe_load(block.text)


@pytest.mark.parametrize("block", page.blocks("yaml (stored)"), ids=names)
def test_what_a_page_says_is_stored_is_stored(block: Block) -> None:
    """Each line of a summary is somewhere in the injected manifest before it."""
    before = [other for other in page.of_page(block.page) if other.line < block.line and other.info == "yaml"][-1]
    (result,) = results(before.text, str(before))
    everything = list(mappings(result.value))
    for key, value in yaml.safe_load(block.text).items():
        assert any(key in found and within(value, found[key]) for found in everything), f"{key}: {value}"


def mappings(value: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in a value, from the outside in."""
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield value
    for inner in below:
        yield from mappings(inner)


def within(part: Any, whole: Any) -> bool:
    """Whether a summary agrees: it may leave out keys of mappings, and nothing of a list."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and within(value, whole[key]) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(map(within, part, whole))
    return bool(part == whole)


@pytest.mark.parametrize("block", page.blocks("console"), ids=names)
def test_a_command_of_a_page_runs(block: Block) -> None:
    """As it stands, in the root of the checkout; and prints what the page shows, where it shows something."""
    for command in page.commands(block):
        text = command.text
        if text.startswith("make "):  # targets install, write, or are these tests: make only says that it knows how
            text = text.replace("make", "make --dry-run", 1)
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", text],
            cwd=ROOT,
            env=page.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )
        refused = command.printed.startswith("denied: ")
        assert done.returncode == int(refused), done.stdout
        assert command.printed in ("", done.stdout)


@pytest.mark.parametrize("path", page.PAGES, ids=names)
def test_links_lead_somewhere(path: Path) -> None:
    """To a file of the checkout and, after a #, to one of its headings."""
    dead = []
    for link in page.links(path):
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        if not link.startswith("https://") and not (file.exists() and (not anchor or anchor in page.anchors(file))):
            dead.append(link)

    assert [] == dead


def test_pages_are_reached_from_the_readme() -> None:
    """A page that nothing points to is not read."""
    linked = {(ROOT / link.partition("#")[0]).resolve() for link in page.links(ROOT / "README.md")}

    assert set() == set(ROOT.glob("docs/*.md")) - linked


def test_names_in_sentences_exist() -> None:
    """Annotations, values of the chart, files of ours, commands and make's targets that a page mentions in passing."""
    quoted = {word for path in page.PAGES for word in re.findall(r"`([^`\n]+)`", page.prose(path))}
    keys = {word.split(":")[0] for word in quoted if re.match(r"accel\.io/[a-z]+(:|$)", word)}
    values = {word.split(":")[0] for word in quoted if re.fullmatch(r"[a-z][A-Za-z]*(\.[a-z][A-Za-z]*)+(: .*)?", word)}
    files = {word for word in quoted if word.endswith(".py")}
    commands = {word.split()[1] for word in quoted if re.match(r"accel [a-z]", word)}
    targets = {word.split()[1] for word in quoted if word.startswith("make ")}
    makefile = (ROOT / "Makefile").read_text()

    assert set() == keys - {*annotations.KEYS, "accel.io/injection", SLICE}
    assert [] == [value for value in sorted(values - files - ELSEWHERE) if not is_value(value.split("."))]
    assert [] == [name for name in sorted(files) if not any((ROOT / top / name).exists() for top in ("", "webhook"))]
    assert set() == commands - set(typer.main.get_command(cli.app).list_commands(None))  # type: ignore[attr-defined]
    assert [] == [target for target in sorted(targets) if f"\n{target}:" not in makefile]


def is_value(path: list[str]) -> bool:
    """Whether the chart has the value; below an empty mapping anything may stand, which the schema knows."""
    value: Any = yaml.safe_load((CHART / "values.yaml").read_text())
    if path[0] in value["config"]:
        value = value["config"]
    for key in path:
        if value == {}:
            return True
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True


def test_every_warning_is_documented() -> None:
    """With its own text, so that a search for it finds the page."""
    text = (ROOT / "docs" / "troubleshooting.md").read_text()

    assert [] == [
        sentence for sentence in WARNINGS.values() if f"\n| {re.sub(r'{[^}]*}', '…', sentence)} |" not in text
    ]


def test_the_image_of_the_quick_start_is_this_version() -> None:
    """It is what the chart pulls."""
    text = (ROOT / "docs" / "quick-start.md").read_text()

    assert {__version__} == set(re.findall(r"accel-injector:(\S+)", text))


@pytest.mark.parametrize("path", document.pages(), ids=names)
def test_generated_parts_are_current(path: Path) -> None:
    """They are what docs/document.py makes of the code (else: make docs)."""
    assert document.pages()[path] == path.read_text()


def test_every_kind_is_shown() -> None:
    """workloads.md has a before and after for each kind that we know."""
    shown = {
        (api.rpartition("/")[0], kind)
        for block in page.blocks("diff")
        for api, kind in [[line.split(": ")[1] for line in block.text.splitlines()[:2]]]
    }

    assert set(WORKLOADS) == shown


def test_every_kind_is_in_the_table() -> None:
    """workloads.md says in its table where each kind that we know is injected."""
    text = (ROOT / "docs" / "workloads.md").read_text()
    (table,) = re.findall(r"^\| kind \| injected in \|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    names = [name for cell in re.findall(r"^\| \[(.*?)\]", table, re.MULTILINE) for name in cell.split(", ")]

    assert sorted(type(workload).__name__ for workload in WORKLOADS.values()) == sorted(
        name.replace(" ", "") for name in names
    )


def test_every_controller_of_children_is_named() -> None:
    """The site config says which kinds need not be added to its `controllers`."""
    known = re.findall(r"\w+", document.documented(Config)["controllers"].partition("the known ones: ")[2])

    assert {w.kind for w in WORKLOADS.values() if w.decides_children and w.kind != "Pod"} == set(known)


def test_the_chart_takes_every_key_of_the_site_config() -> None:
    """What the page documents can be set where people set it."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())["config"]

    assert {field.encode_name for field in msgspec.structs.fields(Config)} == set(values)


def test_a_field_without_a_text_is_told() -> None:
    """The generator does not leave a key out silently."""
    with pytest.raises(document.Undocumented, match="Silent: no docstring for silent"):
        document.documented(Silent)


def test_a_stale_page_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--check` writes nothing and ends with 1; without it the page is as it should be."""
    monkeypatch.setattr(document, "DOCS", tmp_path)
    for name in ("site-config.md", "workloads.md"):
        (tmp_path / name).write_text((ROOT / "docs" / name).read_text())
    page_there = tmp_path / "workloads.md"
    current = page_there.read_text()
    page_there.write_text(current.replace("+    accel.io/injected: tpu-v4-8\n", "", 1))

    assert document.main(check=True) == 1
    assert capsys.readouterr().out == "stale: docs/workloads.md\n"
    assert document.main(check=False) == 0
    assert page_there.read_text() == current
    assert document.main(check=True) == 0
