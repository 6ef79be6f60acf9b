"""`accel catalogue` and `accel explain TYPE`: types as a table, a page, JSON or YAML."""

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from webhook.command import describe, terminal
from webhook.core.catalogue.accelerator import Accelerator
from webhook.core.catalogue.catalogue import Catalogue, spelling
from webhook.core.site import Site
from webhook.manifest.style import JSON, Layout


def listed(site: Site, pattern: str) -> list[Accelerator]:
    """The types that match a shell pattern; without wildcards, all whose names contain it."""
    word = spelling(pattern)
    shell = word if any(c in word for c in "*?[") else f"*{word}*"
    names = (name for name in site.catalogue.names() if fnmatchcase(spelling(name), shell))
    return [site.catalogue.resolve(name) for name in names]


def nearest(site: Site, pattern: str) -> list[str]:
    """Names that the user may have meant."""
    return difflib.get_close_matches(spelling(pattern)[:64], list(site.catalogue.names()), n=3, cutoff=0.4)


def show(value: Any, output: str) -> None:
    """Print a value as JSON or YAML."""
    value = msgspec.json.decode(msgspec.json.encode(value))
    if output == "json":
        terminal.write(JSON.pretty(value) + "\n")
    else:
        terminal.write("\n".join(Layout().lines(value)) + "\n")


def table(types: Sequence[Accelerator], site: Site) -> RenderableType:
    """One line per type."""
    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    grid.add_column("TYPE", style="cyan", no_wrap=True)
    grid.add_column("RESOURCE", no_wrap=True)
    grid.add_column("PER POD", justify="right", no_wrap=True)
    grid.add_column("PODS", justify="right")
    grid.add_column("TOPOLOGY", no_wrap=True)
    grid.add_column("NODES", overflow="fold")
    for hardware in types:
        grid.add_row(
            hardware.name,
            hardware.resource,
            describe.devices(hardware),
            str(hardware.hosts),
            hardware.slice.topology if hardware.slice else "",
            "\n".join(_nodes(hardware)),
        )
    footer = (
        f"{len(types)} type{'s'[: len(types) != 1]} on platform {site.config.platform}; accel explain TYPE for details"
    )
    return Group(grid, Text(f"\n{footer}", style="dim"))


def _nodes(hardware: Accelerator) -> list[str]:
    """Labels, except for the topology, which has its own column."""
    if not hardware.selector:
        return ["any"]
    return [line for line in describe.selectors(hardware) if not (hardware.slice and "topology" in line)]


def page(hardware: Accelerator, site: Site) -> RenderableType:
    """Everything about one type, as text."""
    title = Text.assemble((hardware.name, "bold cyan"), f"  {describe.sentence(hardware)}")
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, lines in (*_hardware(hardware, site.catalogue), *_pod(hardware, site)):
        grid.add_row(label, "\n".join(lines))
    asking = Text.assemble(("Ask for it", "bold"), "\n", "\n".join(f"  {line}" for line in _asking(hardware)))
    return Group(title, "", Padding(grid, (0, 0, 0, 2)), "", asking)


def _hardware(hardware: Accelerator, catalogue: Catalogue) -> list[tuple[str, list[str]]]:
    shape = hardware.slice
    if shape is None:
        return []
    others = [text for text in catalogue.shapes(hardware) if text != shape.topology]
    more = [f"also possible: {_some(others)} (accel.io/topology)"] if others else []
    hosts = [f"{shape.hosts}, {shape.chips_per_host} chips each"]
    if shape.hosts == 1:
        hosts = [f"1, with {shape.chips_per_host} chip{'s'[: shape.chips_per_host != 1]}"]
    for other in hardware.per_host_choices:
        hosts.append(f'or {shape.chips // other} with {other} each: accel.io/count: "{other}"')
    yes = "yes: several of them can form one job" if shape.multislice and shape.hosts > 1 else "no"
    return [
        ("name counts", [catalogue.counts(hardware)]),
        ("chips", [str(shape.chips)]),
        ("topology", [shape.topology, *more]),
        ("hosts", hosts),
        ("multislice", [yes]),
    ]


def _some(names: Sequence[str], limit: int = 8) -> str:
    rest = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {rest} more" if rest > 0 else "")


def _pod(hardware: Accelerator, site: Site) -> list[tuple[str, list[str]]]:
    count = f"{hardware.resource}: {describe.devices(hardware)}"
    notes = [] if hardware.count else ["accel.io/count, else what the container requests, else 1"]
    nodes = describe.selectors(hardware) or [_any_node(hardware, site)]
    rows = [
        ("pods", [f"{hardware.hosts}, each with {count}" if hardware.hosts > 1 else f"1, with {count}", *notes]),
        ("node selector", nodes),
        ("tolerations", [taint if "=" in taint else f"{taint}: Exists" for taint in hardware.tolerations] or ["none"]),
    ]
    if hardware.annotations:
        rows.append(("annotations", [f"{key}: {value}" for key, value in hardware.annotations]))
    if hardware.extras:
        rows.append(("with it", [f"{key}: {value}" for key, value in hardware.extras]))
    return rows


def _any_node(hardware: Accelerator, site: Site) -> str:
    """Why there is no node selector."""
    if site.config.platform == "none":
        return "none: the site config says platform: none"
    if not hardware.pinned:
        return f"none: no public label of this model is known on platform {site.config.platform}"
    return "none: any node with the resource"


def _asking(hardware: Accelerator) -> list[str]:
    lines = ["metadata:", "  annotations:", f"    accel.io/type: {hardware.name}"]
    if hardware.count is None:
        lines.append('    accel.io/count: "1"        # devices per container')
    return lines
