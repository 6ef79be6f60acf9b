"""Generates parts of these pages from the code; run by `make docs`.

site-config.md   every key: its type, its default, and the docstring of its field in webhook/core/schema/
workloads.md     what injection does to each manifest: lines with a + are added, unmarked ones are the user's

With `--check` nothing is written, and the exit code is 1 if a page is stale.
"""

import ast
import inspect
import json
import re
import sys
import types
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from webhook import load
from webhook.command import diff
from webhook.core import site
from webhook.core.schema import catalogue
from webhook.manifest import inject

DOCS = Path(__file__).parent
ENTRIES = (catalogue.Devices, catalogue.Model, catalogue.Instance, catalogue.Ambiguous, catalogue.Tpu)
NAMES = {"placements": "NAME", "hostProfiles": "NAME", "accelerators": "RESOURCE"}
"""Placeholders for the keys of a mapping in a path."""
DIFF = re.compile(r"(?<=^```diff\n).*?(?=^```$)", re.DOTALL | re.MULTILINE)
Struct = type[msgspec.Struct]


class Undocumented(Exception):
    """A field without a docstring, or a manifest on a page that is denied."""


# site-config.md


def keys() -> str:
    """The tables of the site config: its own, then one for each mapping in it, in the order of their keys."""
    named = dict(sections(site.Config, ""))
    paths = {struct: path for path, struct in reversed(named.items())}
    return "".join(
        section(path or "The file", struct, paths) for path, struct in named.items() if paths[struct] == path
    )


def entries() -> str:
    """The tables of the catalogue's entries; `kind` says which."""
    paths: dict[Struct, str] = {catalogue.Cubes: "cubes", catalogue.Mig: "mig"}
    kinds = [section(f"kind: {struct.__struct_config__.tag}", struct, paths) for struct in ENTRIES]
    return "".join(kinds) + section("mig", catalogue.Mig, paths) + section("cubes", catalogue.Cubes, paths)


def sections(struct: Struct, path: str) -> Iterator[tuple[str, Struct]]:
    """(path, the mapping there), itself first; a union of entries is documented separately."""
    yield path, struct
    for field in msgspec.structs.fields(struct):
        if field.type != tuple[catalogue.AnyEntry, ...]:
            for below, inner in structs(field.type, field.encode_name):
                yield from sections(inner, f"{path}.{below}" if path else below)


def structs(hint: Any, path: str) -> Iterator[tuple[str, Struct]]:
    """The mappings nested in a value of this type."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield path, hint
    elif get_origin(hint) is dict:
        yield from structs(get_args(hint)[1], f"{path}.{NAMES.get(path, 'KEY')}")
    elif get_origin(hint) is tuple:
        yield from structs(get_args(hint)[0], f"{path}[]")
    else:
        for part in get_args(hint):
            yield from structs(part, path)


def section(title: str, struct: Struct, paths: dict[Struct, str]) -> str:
    """A heading, what the mapping is, and a row for each key."""
    texts = documented(struct)
    rows = "".join(row(field, texts[field.name], paths) for field in msgspec.structs.fields(struct))
    about = re.split(r"\n\n", inspect.getdoc(struct) or "")[0].replace("\n", " ")
    return f"\n### {title}\n\n{about}\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n{rows}"


def row(field: msgspec.structs.FieldInfo, text: str, paths: dict[Struct, str]) -> str:
    cells = [f"`{field.encode_name}`", words(field.type, paths), default(field), text]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def documented(struct: Struct) -> dict[str, str]:
    """Field -> its docstring. Raises Undocumented for a field without one."""
    texts: dict[str, str] = {}
    for base in reversed(struct.__mro__[: struct.__mro__.index(msgspec.Struct)]):
        body = ast.parse(inspect.getsource(base)).body[0].body  # type: ignore[attr-defined]
        for here, below in pairwise(body):
            if isinstance(here, ast.AnnAssign) and isinstance(below, ast.Expr):
                texts[here.target.id] = " ".join(ast.literal_eval(below.value).split())  # type: ignore[union-attr]
    missing = sorted(set(get_type_hints(struct)) & set(struct.__struct_fields__) - texts.keys())
    if missing:
        raise Undocumented(f"{struct.__name__}: no docstring for {', '.join(missing)}")
    return texts


def words(hint: Any, paths: dict[Struct, str]) -> str:
    """A type in words."""
    simple = {str: "text", int: "integer", bool: "`true`, `false`"}
    if hint in simple:
        return simple[hint]
    if hint in paths:
        return f"[mapping](#{anchor(paths[hint])})"
    if hint == catalogue.AnyEntry:
        return "[entry](#catalogue-entries)"
    args = [arg for arg in get_args(hint) if arg is not type(None)]
    if get_origin(hint) is Literal:
        return ", ".join(f"`{arg}`" if arg and isinstance(arg, str) else json.dumps(arg) for arg in args)
    if get_origin(hint) is tuple:
        return f"list of {words(args[0], paths)}"
    if get_origin(hint) is dict:
        return f"mapping to {words(args[1], paths)}"
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(words(arg, paths) for arg in args)
    raise Undocumented(f"no words for the type {hint}")


def default(field: msgspec.structs.FieldInfo) -> str:
    """A key's default as YAML (JSON is YAML); empty for a mapping that has its own section, or if there is none."""
    if field.required:
        return "required"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return "" if value is None or isinstance(value, msgspec.Struct) else f"`{json.dumps(value)}`"


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


# workloads.md


def injected(block: str) -> str:
    """A current ```diff block: the user's lines in it, injected."""
    written = "".join(line[1:] for line in block.splitlines(keepends=True) if line[:1] != "+")
    (result,) = inject.results(written, load.load(), "team-a", "workloads.md")
    for name, denied in result.denied:
        raise Undocumented(f"{name}: {denied.message}")
    lines = list(diff.unified("", written, result.splices, context=len(written)))[3:]
    return "".join(lines)


# Both


def part(text: str, name: str, made: str) -> str:
    """A page with the text between two comments replaced."""
    between = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)
    return between.sub(lambda _: made + "\n", text)


def pages() -> dict[Path, str]:
    """The generated pages, up to date."""
    made = {path: path.read_text() for path in (DOCS / "site-config.md", DOCS / "workloads.md")}
    configured = made[DOCS / "site-config.md"]
    made[DOCS / "site-config.md"] = part(part(configured, "keys", keys()), "entries", entries())
    made[DOCS / "workloads.md"] = DIFF.sub(lambda found: injected(found[0]), made[DOCS / "workloads.md"])
    return made


def main(check: bool) -> int:
    stale = {path: text for path, text in pages().items() if path.read_text() != text}
    for path, text in stale.items():
        sys.stdout.write(f"{'stale' if check else 'written'}: docs/{path.name}\n")
        if not check:
            path.write_text(text)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
