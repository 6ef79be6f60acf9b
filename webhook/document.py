"""One YAML document from an admin, decoded into a frozen Struct.

The Struct is the schema. An error names the file, the path in it, what was found and what is valid.
This module reads no files: bytes in, value out.
"""

import difflib
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
import yaml

from webhook.messages import quoted

T = TypeVar("T")

Path = tuple[str | int, ...]

_AT = re.compile(r" - at (?P<key>`key` in )?`\$(?P<path>.*)`$")
_STEP = re.compile(r"\.(?P<field>[^.\[]+)|\[(?P<index>\d+)\]|(?P<any>\[\.\.\.\])")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<field>.*)`$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>.*)`$")
_EXPECTED = re.compile(r"Expected `(?P<type>[^`]*)`")
_OWN = re.compile(r"(?P<field>[a-z][A-Za-z]*): (?P<rest>.*)", re.DOTALL)
_WORDS = {"object": "a mapping", "array": "a list", "str": "text", "int": "a whole number", "bool": "true or false"}


class BadConfig(Exception):
    """A file that an admin wrote cannot be used; the text is one line, meant for that admin."""


class _Loader(yaml.CSafeLoader):
    """YAML as people expect it: a key given twice is an error, and a date stays the text it was."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (the parent's own way to declare it)
        first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if not isinstance(key, yaml.ScalarNode):
                continue  # refused below, with its place
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f'key "{key.value}" is given twice', problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def decode(data: bytes, filename: str, form: type[T]) -> T:
    """The document as `form`; an empty document is an empty mapping. Raises `BadConfig`."""
    try:
        # _Loader is a safe loader: it builds nothing but plain values.
        raw = yaml.load(data, _Loader)  # noqa: S506
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadConfig(f"{filename}: {_where(error)}") from None
    return convert({} if raw is None else raw, filename, form)


def convert(raw: object, filename: str, form: type[T]) -> T:
    """Plain values as `form`; raises `BadConfig` that names `filename`."""
    try:
        return msgspec.convert(raw, form)
    except msgspec.ValidationError as error:
        raise BadConfig(f"{filename}: {_explain(raw, form, str(error))}") from None
    except RecursionError:
        raise BadConfig(f"{filename}: an alias contains itself") from None


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).replace("\n", " ")
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else str(problem)


def _explain(raw: object, form: Any, message: str) -> str:
    """msgspec's message with the true path (it prints mapping keys as `...`), the value, and what is valid."""
    at = _AT.search(message)
    sentence = message[: at.start()] if at else message
    path = _path(raw, form, at["path"] if at else "", message)
    if at and at["key"]:
        return f"{show(path)}: {_bad_key(raw, form, path)}"
    if unknown := _UNKNOWN.match(sentence):
        return f"{show((*path, unknown['field']))} is not a known key; {_keys(raw, form, path, unknown['field'])}"
    if missing := _MISSING.match(sentence):
        return f"{show(path)} lacks the key {missing['field']}"
    if choices := _choices(form, raw, path):
        return f"{show(path)}: found {_found(raw, path)}; valid: {', '.join(choices)}"
    if expected := _EXPECTED.match(sentence):
        return f"{show(path)}: found {_found(raw, path)}; valid: {_in_words(expected['type'])}"
    # A Struct's own check, which begins with the key that it is about.
    if own := _OWN.match(sentence):
        return f"{show((*path, own['field']))}: {own['rest']}"
    return f"{show(path)}: {sentence}"


def _bad_key(raw: object, form: Any, path: Path) -> str:
    """Which key of a mapping with free keys is wrong: not one of a few words, or not text."""
    words = [
        str(word)
        for kind in _types(form, raw, path)
        if isinstance(kind, msgspec.inspect.DictType) and isinstance(kind.key_type, msgspec.inspect.LiteralType)
        for word in kind.key_type.values
    ]
    keys = _at(raw, path)
    wrong = [key for key in keys if key not in words] if isinstance(keys, dict) and words else []
    if wrong:
        return f"found the key {quoted(wrong[0])}; valid: {', '.join(words)}"
    return "every key is text, between quotes if need be"


def _in_words(types: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in types.split(" | "))


def show(path: Path) -> str:
    """`("placements", "spot", "tolerations", 0)` as `$.placements.spot.tolerations[0]`."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


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
    """Resolve `[...]` by trying which key alone fails in the same way. Errors are rare, so this may be slow."""
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
    mapping = _at(raw, path)
    if not isinstance(mapping, dict):
        return ()
    for key in mapping:
        try:
            msgspec.convert(_replaced(raw, path, {key: mapping[key]}), form)
        except msgspec.ValidationError as error:
            if str(error) == message:
                return (str(key),)
    return ()


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
    near = difflib.get_close_matches(wrong, known, n=1)
    return f"did you mean {near[0]}?" if near else f"valid: {', '.join(known)}"


def _choices(form: Any, raw: object, path: Path) -> list[str]:
    """What a field that is one of a few words may be: a Literal's values, or the tags of a union of Structs."""
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
    """The types that may stand at `path`; of a union of tagged Structs the one that `raw` names."""
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
