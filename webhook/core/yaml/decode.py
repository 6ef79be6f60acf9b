"""One YAML document from an admin, decoded into a frozen Struct.

The Struct is the schema. An error names the file, the path in it, what was found and what is valid.
This module reads no files: bytes in, value out.
"""

import difflib
import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from webhook.core.messages import LONGEST_VALUE, quoted
from webhook.core.yaml import file_limits, nodes
from webhook.errors import BadConfig, BadYaml

T = TypeVar("T")

Path = tuple[str | int, ...]

LONGEST = 1000
"""Characters of an error."""

_STEP = re.compile(r"\.(?P<field>[^.\[]++)|\[(?P<index>[0-9]++)\]|(?P<any>\[\.\.\.\])")
_EXPECTED = re.compile(r"Expected `(?P<type>[^`]*+)`")
_OWN = re.compile(r"(?P<field>[a-z][A-Za-z]*+): (?P<rest>.*+)", re.DOTALL)
_UNKNOWN, _MISSING = "Object contains unknown field `", "Object missing required field `"
_WORDS = {"object": "a mapping", "array": "a list", "str": "text", "int": "a whole number", "bool": "true or false"}


def decode(data: bytes, filename: str, form: type[T]) -> T:
    """The document as `form`; an empty document is an empty mapping. Raises `BadConfig`."""
    _, _, raw = read(data, filename)
    return convert(raw, filename, form)


def read(data: bytes, filename: str) -> tuple[str, nodes.Node, Any]:
    """The text of a file, its one document, in which no key is given twice, and what that holds. Raises `BadConfig`."""
    if len(data) > file_limits.CONFIG:
        raise BadConfig(f"{filename}: more than {file_limits.CONFIG >> 20} MiB, which a ConfigMap cannot hold")
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadConfig(f"{filename}: line {line}: not UTF-8 text") from None
    try:
        document, *more = nodes.documents(text, file_limits.OF_CONFIG)
        if more:
            raise BadYaml(more[0].start, "expected a single YAML document")
        nodes.check_keys(document.root)
        raw = nodes.plain(document.root)
    except BadYaml as error:
        line, column = nodes.position(text, error.where)
        raise BadConfig(f"{filename}: line {line}, column {column}: {error}") from None
    return text, document.root, {} if raw is None else raw


def convert(raw: object, filename: str, form: type[T]) -> T:
    """Plain values as `form`; raises `BadConfig` that names `filename`."""
    try:
        return msgspec.convert(raw, form)
    except msgspec.ValidationError as error:
        path, rest = explain(raw, form, str(error))
        raise BadConfig(f"{filename}: {show(path)}{rest}") from None


def explain(raw: object, form: Any, message: str) -> tuple[Path, str]:
    """msgspec's message as the true path (it prints mapping keys as `...`), the value, and what is valid."""
    sentence, _, place = message.rpartition(" - at ") if " - at " in message else (message, "", "")
    of_key = place.startswith("`key` in ")
    path = _path(raw, form, place.removeprefix("`key` in ").strip("`"), message)
    if of_key:
        return path, f": {_bad_key(raw, form, path)}"
    if sentence.startswith(_UNKNOWN):
        unknown = sentence.removeprefix(_UNKNOWN).removesuffix("`")
        return (*path, unknown), f" is not a known key; {_keys(raw, form, path, unknown)}"
    if sentence.startswith(_MISSING):
        return path, f" lacks the key {sentence.removeprefix(_MISSING).removesuffix('`')}"
    if choices := _choices(form, raw, path):
        return path, f": found {_found(raw, path)}; valid: {', '.join(choices)}"
    if expected := _EXPECTED.match(sentence):
        return path, f": found {_found(raw, path)}; valid: {_in_words(expected['type'])}"
    # A Struct's own check, which begins with the key that it is about.
    if own := _OWN.match(sentence):
        return (*path, own["field"]), f": {own['rest']}"
    return path, f": {sentence}"


def _bad_key(raw: object, form: Any, path: Path) -> str:
    """Which key of a mapping is not one of its allowed keys."""
    words = [
        str(word)
        for kind in _types(form, raw, path)
        if isinstance(kind, msgspec.inspect.DictType) and isinstance(kind.key_type, msgspec.inspect.LiteralType)
        for word in kind.key_type.values
    ]
    keys = _at(raw, path)
    wrong = next((key for key in keys if key not in words), "") if isinstance(keys, dict) else ""
    return f"found the key {quoted(wrong)}; valid: {', '.join(words)}"


def _in_words(types: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in types.split(" | "))


def show(path: Path) -> str:
    """`("placements", "spot", "tolerations", 0)` as `$.placements.spot.tolerations[0]`."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{_cut(step)}" for step in path)


def _cut(key: str) -> str:
    return key if len(key) <= LONGEST_VALUE else key[:LONGEST_VALUE] + "…"


def _found(raw: object, path: Path) -> str:
    value = _at(raw, path)
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    return quoted(value) if isinstance(value, str) else str(value).lower()


def _path(raw: object, form: Any, text: str, message: str) -> Path:
    """msgspec's path, with the keys that it prints as `[...]`."""
    path: Path = ()
    for step in _STEP.finditer(text):
        if step["field"] is not None:
            path = (*path, step["field"])
        elif step["index"] is not None:
            path = (*path, int(step["index"]))
        else:
            path = (*path, *_culprit(raw, form, path, message))
    return path


def _culprit(raw: object, form: Any, path: Path, message: str) -> Path:
    """The first key of a mapping with which it fails in the same way, without the following ones."""
    mapping = _at(raw, path)
    if not isinstance(mapping, dict):
        return ()
    keys = list(mapping)

    def fails(count: int) -> bool:
        try:
            msgspec.convert(_replaced(raw, path, {key: mapping[key] for key in keys[:count]}), form)
        except msgspec.ValidationError as error:
            return str(error) == message
        return False

    first = bisect_left(range(len(keys)), True, key=lambda index: fails(index + 1))
    return (keys[first],) if first < len(keys) else ()


def _at(raw: object, path: Path) -> object:
    for step in path:
        if isinstance(raw, dict):
            raw = raw.get(step)
        elif isinstance(raw, list) and isinstance(step, int) and step < len(raw):
            raw = raw[step]
        else:
            return None
    return raw


def _replaced(raw: object, path: Path, value: object) -> object:
    """`raw` with `value` at `path`; only the containers on the way are copied."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(raw, dict):
        return {**raw, step: _replaced(raw.get(step), rest, value)}
    if isinstance(raw, list) and isinstance(step, int):
        return [*raw[:step], _replaced(raw[step], rest, value), *raw[step + 1 :]]
    return raw


def _keys(raw: object, form: Any, path: Path, wrong: str) -> str:
    known = sorted(
        {
            field.encode_name
            for kind in _types(form, raw, path)
            if isinstance(kind, msgspec.inspect.StructType)
            for field in kind.fields
        }
    )
    near = difflib.get_close_matches(wrong[:LONGEST_VALUE], known, n=1)
    return f"did you mean {near[0]}?" if near else f"valid: {', '.join(known)}"


def _choices(form: Any, raw: object, path: Path) -> list[str]:
    """The allowed values of a field: a Literal's values, or the tags of a union of Structs."""
    words = [
        str(value)
        for kind in _types(form, raw, path)
        if isinstance(kind, msgspec.inspect.LiteralType)
        for value in kind.values
    ]
    if words or not path:
        return words
    tagged = [k for k in _types(form, raw, path[:-1], all_tags=True) if isinstance(k, msgspec.inspect.StructType)]
    return [str(kind.tag) for kind in tagged if kind.tag_field == path[-1]]


def _types(form: Any, raw: object, path: Path, all_tags: bool = False) -> list[msgspec.inspect.Type]:
    """The types allowed at `path`; of a union of tagged Structs, the one that `raw` names."""
    kinds = list(_members(msgspec.inspect.type_info(form)))
    for depth, step in enumerate(path):
        kinds = [k for kind in kinds for k in _into(kind, step, _at(raw, path[:depth]))]
    return kinds if all_tags else [k for k in kinds if _tag_fits(k, _at(raw, path))]


def _members(kind: msgspec.inspect.Type) -> Iterator[msgspec.inspect.Type]:
    if isinstance(kind, msgspec.inspect.UnionType):
        yield from kind.types
    else:
        yield kind


def _into(kind: msgspec.inspect.Type, step: str | int, value: object) -> Iterator[msgspec.inspect.Type]:
    if isinstance(kind, msgspec.inspect.StructType) and _tag_fits(kind, value):
        for field in kind.fields:
            if field.encode_name == step:
                yield from _members(field.type)
    elif isinstance(kind, msgspec.inspect.DictType):
        yield from _members(kind.value_type)
    elif isinstance(kind, msgspec.inspect.VarTupleType | msgspec.inspect.ListType):
        yield from _members(kind.item_type)


def _tag_fits(kind: msgspec.inspect.Type, value: object) -> bool:
    if not isinstance(kind, msgspec.inspect.StructType) or kind.tag_field is None:
        return True
    return isinstance(value, dict) and value.get(kind.tag_field) == kind.tag
