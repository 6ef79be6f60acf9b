"""Injection into each object of a manifest: its documents, the items of its Lists, and messages about each. Pure.

The edits are the webhook's own, of `core.inject` and `core.patch`; `edit` makes them in the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from webhook.core import annotations, limits, review, unread
from webhook.core.admission import PATCH, mentions_us, view
from webhook.core.inject import Injection, inject
from webhook.core.kinds.kind import Context, Kind
from webhook.core.kinds.registry import WORKLOADS
from webhook.core.messages import Denied, Warn
from webhook.core.patch import pointer, render
from webhook.core.site import Site
from webhook.core.yaml import nodes
from webhook.core.yaml.file_limits import OF_RESULT
from webhook.core.yaml.nodes import Document, Node
from webhook.errors import BadManifest, BadYaml
from webhook.manifest.edit import Change, Splice, rewrite, spliced

BOM = "\ufeff"
_HEAD = re.compile(r"(?:[ \t]*+(?:#[^\n]*+)?+\r?+\n)*+(?:(?P<marker>---(?:[ \t\r\n]|\Z))|(?P<directive>%))?+")
"""Blank lines and comments, and then the first document's marker, or a directive (`%YAML 1.1`)."""

LAYOUT_LOST = "accel.io: cannot be edited in place: reformatted, without its comments"


NO_OBJECT = "accel.io: not a Kubernetes object (apiVersion and kind): unchanged"


class Subject(msgspec.Struct, frozen=True):
    """One object in a document: the document itself, or an item of a List."""

    name: str  # "Pod/trainer"
    workload: Kind[Any] | None  # None: an unknown kind
    value: Any  # as JSON
    path: tuple[str | int, ...] = ()


class Result(msgspec.Struct, frozen=True):
    """The result for one document."""

    number: int  # from 1
    before: str
    splices: tuple[Splice, ...] = ()
    """The replacements in `before`."""
    empty: bool = False
    warnings: tuple[tuple[str, str], ...] = ()  # (Pod/trainer, text)
    denied: tuple[tuple[str, Denied], ...] = ()

    @property
    def after(self) -> str:
        """The document's text after injection."""
        return spliced(self.before, self.splices)

    @property
    def value(self) -> Any:
        """The same as JSON values, parsed again; None if the document is empty."""
        return nodes.plain(next(nodes.documents(self.after.removeprefix(BOM), OF_RESULT)).root)


def injected(text: str, site: Site, namespace: str = "", filename: str = "-") -> tuple[str, tuple[str, ...]]:
    """A file's text after injection, and the warnings; raises the first `Denied`, or `BadManifest`."""
    found = results(text, site, namespace, filename)
    for result in found:
        for _, denied in result.denied:
            raise denied
    return "".join(r.after for r in found), tuple(warning for r in found for _, warning in r.warnings)


def results(text: str, site: Site, namespace: str = "", filename: str = "-") -> list[Result]:
    """Each document of a file, injected; `namespace` is for objects that name none. Raises `BadManifest`.

    The `after` of all of them, concatenated, is the whole file.
    """
    found = [_result(n, d, site, namespace, text, filename) for n, d in documents(text, filename)]
    if text.startswith(BOM):
        first = found[0]
        splices = tuple(Splice(s.start + 1, s.end + 1, s.text) for s in first.splices)
        found[0] = msgspec.structs.replace(first, before=BOM + first.before, splices=splices)
    return found


def documents(text: str, filename: str) -> Iterator[tuple[int, Document]]:
    """The documents of a file, numbered from 1, parsed lazily. Raises `BadManifest`."""
    try:
        yield from enumerate(nodes.documents(text.removeprefix(BOM)), 1)
    except BadYaml as error:
        raise _bad(text, error, filename) from None


def subjects(document: Document, text: str = "", filename: str = "-") -> list[Subject]:
    """The objects of a document: one, the items of a List, or none."""
    try:
        found = list(_subjects(nodes.plain(document.root), ()))
        if any(subject.workload is not None for subject in found):
            nodes.check_keys(document.root)
            _check_annotations(document.root)
        return found
    except BadYaml as error:
        raise _bad(text or document.text, BadYaml(document.start + error.where, str(error)), filename) from None
    except RecursionError:
        raise _bad(text or document.text, BadYaml(document.start, "nested too deeply"), filename) from None


def _check_annotations(root: Node) -> None:
    """`accel.io/count: 8` without quotes is a number, which the API server refuses with a less helpful message."""
    for found in nodes.mappings(root, "annotations"):
        for name, item in zip(found.names, found.items, strict=True):
            if (
                name.startswith(annotations.PREFIX)
                and item.kind == "scalar"
                and isinstance(item.value, bool | int | float)
            ):
                written = msgspec.json.encode(item.value).decode()
                raise BadYaml(item.start, f'annotations are strings: write {name}: "{written}"')


def _bad(text: str, error: BadYaml, filename: str) -> BadManifest:
    line, column = nodes.position(text.removeprefix(BOM), error.where)
    return BadManifest(f"{filename}:{line}:{column}: {error}")


def _subjects(value: Any, path: tuple[str | int, ...]) -> Iterator[Subject]:
    if not isinstance(value, dict):
        return
    version, kind = value.get("apiVersion"), value.get("kind")
    if kind == "List" and version == "v1" and isinstance(value.get("items"), list):
        for index, item in enumerate(value["items"]):
            yield from _subjects(item, (*path, "items", index))
        return
    group = version.rpartition("/")[0] if isinstance(version, str) else None
    workload = WORKLOADS.get((group, kind)) if group is not None and isinstance(kind, str) else None
    yield Subject(_name(value), workload, value, path)


def _name(value: dict[str, Any]) -> str:
    """A readable name of the object: kind and name, as far as it has them."""
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    kind, name = value.get("kind") or "no kind", metadata.get("name") or metadata.get("generateName")
    return "".join(c if c.isprintable() else "?" for c in (f"{kind}/{name}" if name else str(kind)))[:120]


def _result(number: int, document: Document, site: Site, namespace: str, text: str, filename: str) -> Result:
    warnings: list[tuple[str, str]] = []
    denied: list[tuple[str, Denied]] = []
    operations: list[Change] = []
    for subject in subjects(document, text, filename):
        try:
            operations_of, injection = injection_of(subject, site, namespace)
        except Denied as denial:
            denied.append((subject.name, denial))
            continue
        operations += operations_of
        warnings += [(subject.name, warning) for warning in dict.fromkeys(w.text() for w in injection.warnings)]
    rewritten = rewrite(document, operations)
    if rewritten.value is not None and not _is_object(rewritten.value):
        warnings.append(("", NO_OBJECT))
    if not rewritten.kept:
        warnings.append(("", LAYOUT_LOST))
    empty = rewritten.value is None
    return Result(number, document.text, rewritten.splices, empty, tuple(warnings), tuple(denied))


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(key), str) for key in ("apiVersion", "kind"))


def injection_of(subject: Subject, site: Site, namespace: str) -> tuple[list[Change], Injection]:
    """The operations on a document that inject into one of its objects. Raises `Denied`."""
    if subject.workload is None:
        return [], Injection(warnings=_unknown(subject.value))
    raw = msgspec.json.encode(subject.value)
    if not mentions_us(raw) and not site.detect:
        return [], Injection()
    obj = view(subject.workload, raw)
    setting = Context(namespace_of(subject.value) or namespace, site, offline=True)
    injection = inject(subject.workload, obj, setting)
    if not injection.skipped and unread.has_more_than(injection.mentions, raw):
        injection = replace(injection, warnings=(*injection.warnings, *unread.unread(subject.value, obj)))
    patch = review.encode_patch(render(obj, injection.sections), PATCH)
    if patch is None:
        raise limits.too_large("the injection", f"more than {PATCH:,} bytes of changes", f"{PATCH:,}")
    below = pointer(subject.path)
    return [{**operation, "path": below + operation["path"]} for operation in msgspec.json.decode(patch)], injection


def namespace_of(value: Any) -> str:
    """The namespace that an object names, or an empty string."""
    metadata = value.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    return namespace if isinstance(namespace, str) else ""


def _unknown(value: Any) -> tuple[Warn, ...]:
    """A warning if it has one of our keys anywhere, except in kinds that select objects by them or describe them."""
    if not isinstance(value, dict) or _group_of(value) in CLUSTERS_OWN or value.get("kind") == "Namespace":
        return ()
    return (Warn("unknown-kind", {"kind": str(value.get("kind"))[:48]}),) if unread.has_any(value) else ()


CLUSTERS_OWN = ("admissionregistration.k8s.io", "apiextensions.k8s.io")
"""Groups whose objects may say which namespaces are injected, or describe our keys."""


def _group_of(value: dict[str, Any]) -> str:
    return str(value.get("apiVersion")).rpartition("/")[0]


def joined(files: Sequence[str]) -> str:
    """Several files as one stream."""
    parts: list[str] = []
    for text in filter(None, files):
        if not parts:
            parts.append(text)
            continue
        text = text.removeprefix(BOM)
        head = _HEAD.match(nodes.with_line_feeds(text))
        line = "" if parts[-1].endswith("\n") else "\n"
        separator = "" if head and head["marker"] else "...\n" if head and head["directive"] else "---\n"
        parts += [line + separator, text]
    return "".join(parts)
