"""values.yaml is the single source for the chart's values: their schema and table are generated from it here.

A value is documented by the comment above it: `# -- ` and sentences, then optionally `# @schema ` and JSON
Schema that narrows the type of its default. A key without `# --` is a group of documented ones. What stands in
`config` is described by the types that the program reads it with, at every depth. Run by `make docs`; with
`--check`, nothing is written and the exit code is 1 if a file is stale.
"""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from webhook.core.schema.site import Config

CHART = Path(__file__).parent / "accel-injector"
KEY = re.compile(r"^( *)([A-Za-z][A-Za-z0-9]*):")
TYPES = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
TABLE = re.compile(r"(?<=<!-- values -->\n).*?(?=<!-- /values -->)", re.DOTALL)


class Undocumented(Exception):
    """A value that is documented nowhere: it has no `# --` above it, and no documented keys below."""


@dataclass(frozen=True)
class Value:
    """One documented value."""

    path: tuple[str, ...]
    text: str
    narrowed: dict[str, Any] | None
    default: Any


Documented = dict[tuple[str, ...], Value]


def read(text: str) -> list[Value]:
    """The documented values of a values.yaml, in file order."""
    defaults = yaml.safe_load(text)
    values: list[Value] = []
    path: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        if line.strip().startswith("#"):
            comment.append(line.strip().removeprefix("#").removeprefix(" "))
        elif found := KEY.match(line):
            path = [*path[: len(found[1]) // 2], found[2]]
            values += documented(tuple(path), comment, defaults)
            comment = []
        else:
            comment = []
    return values


def documented(path: tuple[str, ...], comment: list[str], defaults: Any) -> list[Value]:
    """The value at `path`, if the comment above it documents it."""
    if not comment or not comment[0].startswith("-- "):
        return []
    default = defaults
    for key in path:
        default = default[key]
    text = " ".join(line for line in comment if not line.startswith("@schema ")).removeprefix("-- ")
    schemas = [line.removeprefix("@schema ") for line in comment if line.startswith("@schema ")]
    return [Value(path, text, json.loads(schemas[0]) if schemas else None, default)]


def schema(values: list[Value], defaults: dict[str, Any]) -> dict[str, Any]:
    """JSON Schema of the values: closed, so that a misspelt key is an error and not ignored."""
    root = group(defaults, (), {value.path: value for value in values})
    if "config" in root["properties"]:
        fields, definitions = site_config()
        for key, described in root["properties"]["config"]["properties"].items():
            if key != "platform":  # `auto` is the chart's own
                described.pop("type", None)
                described.update(fields[key])
        root["definitions"] = definitions
    # A parent chart shares its global values with this one.
    root["properties"]["global"] = {"type": "object"}
    return {"$schema": "http://json-schema.org/draft-07/schema#", **root}


def site_config() -> tuple[dict[str, Any], dict[str, Any]]:
    """JSON Schema of the site config's keys, and of the mappings in it by their types' names."""
    (_, *_), found = msgspec.json.schema_components([Config], ref_template="#/definitions/{name}")
    definitions = {name: plain(described) for name, described in sorted(found.items())}
    return definitions.pop("Config")["properties"], definitions


def plain(node: Any) -> Any:
    """Without what only a reader of the schema would see, and as draft 7 has it: nothing counts beside a reference."""
    if isinstance(node, list):
        return [plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return {"allOf": [{"$ref": node["$ref"]}]}
    kept = {
        key: value for key, value in node.items() if key not in ("title", "description", "default", "discriminator")
    }
    if "properties" in node:
        kept["properties"] = {key: plain(value) for key, value in node["properties"].items()}
    return {key: value if key == "properties" else plain(value) for key, value in kept.items()}


def group(defaults: dict[str, Any], path: tuple[str, ...], values: Documented) -> dict[str, Any]:
    properties = {key: node(default, (*path, key), values) for key, default in defaults.items()}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def node(default: Any, path: tuple[str, ...], values: Documented) -> dict[str, Any]:
    value = values.get(path)
    inner = {key for key in values if key[: len(path)] == path and key != path}
    if value is None and not inner:
        raise Undocumented(f"values.yaml: {'.'.join(path)} has no `# --` above it")
    made: dict[str, Any] = {"description": value.text} if value else {}
    if inner:
        return {**made, **group(default, path, values)}
    narrowed = (value and value.narrowed) or {}
    if "enum" not in narrowed:
        made["type"] = TYPES[type(default)]
    return {**made, **narrowed}


def table(values: list[Value]) -> str:
    """The values as a Markdown table; a group has a text but no default."""
    groups = {value.path[:depth] for value in values for depth in range(1, len(value.path))}
    rows = "".join(row(value, value.path in groups) for value in values)
    return f"\n| value | default | meaning |\n| --- | --- | --- |\n{rows}\n"


def row(value: Value, is_group: bool) -> str:
    default = "" if is_group else f"`{json.dumps(value.default)}`"
    cells = [f"`{'.'.join(value.path)}`", default, value.text]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def main(check: bool) -> int:
    text = (CHART / "values.yaml").read_text()
    values = read(text)
    readme = CHART / "README.md"
    made = {
        CHART / "values.schema.json": json.dumps(schema(values, yaml.safe_load(text)), indent=2) + "\n",
        readme: TABLE.sub(lambda _: table(values), readme.read_text()),
    }
    stale = [path for path, content in made.items() if not path.exists() or path.read_text() != content]
    for path in stale:
        sys.stdout.write(f"{'stale' if check else 'written'}: charts/{path.relative_to(CHART.parent)}\n")
        if not check:
            path.write_text(made[path])
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
