"""Why an object gets what it gets: the injection of one object, explained rule by rule. Pure.

The rules are run, not described: every line of `gets` comes from the rule that the webhook runs, and so
does its reason.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from webhook.command import describe
from webhook.core import annotations, scheduling, unread
from webhook.core.annotations import INJECT, NONE, TYPE, Levels, read_annotations
from webhook.core.catalogue.accelerator import Accelerator
from webhook.core.inject import LEFT_ALONE, inject, outside, targets_of
from webhook.core.kinds.kind import Context, Kind, Target, with_devices
from webhook.core.messages import Denied, Warn
from webhook.core.patch import Edit, Path, Section, at, render, steps
from webhook.core.rules.detect import detected, resources
from webhook.core.rules.rules import RULES
from webhook.core.template import PodTemplate

LONGEST = 1000
"""Characters of a line: a user's value can be as long as the whole object, and every template may have it."""


class Line(msgspec.Struct, frozen=True):
    """One thing that is or is not injected, and why."""

    what: str
    why: str


def _line(what: str, why: str) -> Line:
    return Line(_cut(what), _cut(why))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


class Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One pod template."""

    path: str
    name: str = ""
    asks: tuple[Line, ...] = ()  # why: where it is written
    means: str = ""
    gets: tuple[Line, ...] = ()
    gets_not: tuple[Line, ...] = ()


class Explanation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One object."""

    name: str
    verdict: str
    parts: tuple[Part, ...] = ()
    around: tuple[Line, ...] = ()  # outside the templates
    warnings: tuple[str, ...] = ()
    denied: str = ""


def explain(name: str, workload: Kind[Any], value: Any, obj: Any, context: Context) -> Explanation:
    """The injection of an object, whose JSON is `value` and whose view is `obj`, in words."""
    where = {id(part): path for path, part in unread.parts(obj)}
    parts = tuple(_unresolved(template, where) for template in workload.templates(obj))
    try:
        injection = inject(workload, obj, context)
        if injection.skipped or (workload.judged_before(obj) and not injection.types):
            warnings = tuple(w.text() for w in injection.warnings)
            return Explanation(name, _skipped(injection.skipped), parts, warnings=warnings)
        targets = targets_of(workload, obj, context)
        asked = {target.template.path: target for target in targets}
        numbers = {t.template.path: workload.slices(obj, t) for t in with_devices(targets)}
        parts = tuple(
            _part(p, asked.get(p.path), where, value, context, numbers.get(p.path)) for p in workload.templates(obj)
        )
        around = tuple(_around(workload, obj, targets, context, value))
    except Denied as denied:
        return Explanation(name, "denied", parts, denied=denied.message)
    operations = render(obj, injection.sections)
    verdict = _verdict(workload, targets, bool(operations), bool(injection.sections))
    return Explanation(name, verdict, parts, around, tuple(dict.fromkeys(w.text() for w in injection.warnings)))


def _verdict(workload: Kind[Any], targets: Iterable[Target], changed: bool, detected: bool) -> str:
    if not list(targets):
        return "injected: a host profile, for its resource" if detected else "no annotation or limit: unchanged"
    if not changed:
        return "nothing to add: everything is already set"
    if not workload.patched:
        return f"checked at admission, where its Pods are injected; accel inject writes it into the {workload.kind}"
    return "injected"


def _skipped(code: str) -> str:
    owned = "another object controls it: that object or its Pods are injected instead"
    return f"left alone: {LEFT_ALONE.get(code, owned)}"


Where = Mapping[int, Path]
"""The paths of the metadata of an object and its templates, by id."""


def _unresolved(template: PodTemplate, where: Where) -> Part:
    """What a template asks for, without what it means."""
    return Part(_dotted((*template.path,), None) or "the Pod", _cut(template.name), tuple(_asks(template, where)))


def _asks(template: PodTemplate, where: Where) -> Iterator[Line]:
    found = annotations.nearest_level([annotations.own(level.annotations or {}) for level in template.levels])
    for key, (text, index) in found.items():
        if key != annotations.INJECTED:
            path = where.get(id(template.levels[index]), (*template.path, "metadata"))
            yield _line(f"{key}: {text}", f"on {_dotted((*path, 'annotations'), None)}")
    for container, resource, amount in annotations.placeholders(template.containers):
        yield _line(f"{resource}: {amount}", f"a resource of container {container}")


def _part(
    template: PodTemplate, target: Target | None, where: Where, value: Any, context: Context, number: int | None
) -> Part:
    """`number`: slices that the template makes, if its kind defines it."""
    part = _unresolved(template, where)
    if target is None:
        found = tuple(_detected(template, value, context))
        return msgspec.structs.replace(part, means="" if found else _unasked(template, where), gets=found)
    gets: list[Line] = []
    gets_not: list[Line] = []
    for rule in RULES:
        resolution = target.resolution
        edits = [f for f in rule.apply(target.template, resolution) if not isinstance(f, Warn)]
        lines = lines_of(template.view, at(value, template.path), edits, rule.why(target.template, resolution))
        gets += lines
        if not lines and (why_not := rule.why_not(target.template, resolution)):
            gets_not.append(Line(rule.subject, why_not))
    hardware = target.resolution.accelerator
    means = f"{hardware.name}: {describe.sentence(hardware)}" + describe.total(hardware, number)
    return msgspec.structs.replace(part, means=means, gets=tuple(gets), gets_not=tuple(gets_not))


def _detected(template: PodTemplate, value: Any, context: Context) -> Iterator[Line]:
    """What a template gets because of its resources alone."""
    annotated = read_annotations(template.levels, template.containers, Levels())
    if not context.site.detect or annotated.typed or annotated.off is not None:
        return
    edits = [f for f in detected(template, context.namespace, context.site).found if not isinstance(f, Warn)]
    names = ", ".join(resources(template.spec, context.site))
    why = f"site config detect: {names}, and the profile for it"
    yield from lines_of(template.view, at(value, template.path), edits, why)


def _unasked(template: PodTemplate, where: Where) -> str:
    """Why a template gets nothing."""
    annotated = read_annotations(template.levels, template.containers, Levels())
    paths = [where.get(id(level), (*template.path, "metadata")) for level in template.levels]
    if template.path:
        paths[0] = ("metadata",)
    if annotated.off is not None:
        return f'nothing: {INJECT} is "false" on {_dotted((*paths[annotated.off], "annotations"), None)}'
    found = annotations.nearest_level(annotated.levels)
    if TYPE in found and found[TYPE][0].strip().lower() == NONE:
        return f"nothing: {TYPE} is none"
    if TYPE in found:  # only a kind leaves out a template that asks
        return f"nothing: the other templates of {found[TYPE][0]} are already whole slices"
    places = " or ".join(_dotted((*path, "annotations"), None) for path in paths)
    return f"nothing: no {TYPE} on {places}, and no accel.io/ limit in a container"


def lines_of(view: Any, value: Any, edits: Sequence[Edit], why: str) -> list[Line]:
    """The operations that result from the edits, as lines; `view` and `value` are their object or template."""
    lines: list[Line] = []
    for operation in render(view, [Section((), edits)]):
        path = tuple(steps(operation.path))
        if operation.op == "add" and isinstance(_at(value, path[:-1]), list):
            path = (*path[:-1], "-")  # a new item, wherever it is put
        if operation.op == "remove":
            lines.append(_line(f"removed: {_dotted(path, value)}", why))
            continue
        for leaf, item in _leaves(path, operation.value):
            lines.append(_line(f"{_dotted(leaf, value)}: {_item(item)}", WHY_ANNOTATION.get(leaf[-1], why)))
    return lines


WHY_ANNOTATION = {
    annotations.INJECTED: "for people to read",
    annotations.CONTAINER: "so that the choice stays when containers are added",
}


def _at(node: Any, path: Iterable[str]) -> Any:
    for step in path:
        node = _below(node, int(step) if isinstance(node, list) and step.isdigit() else step)
    return node


def _leaves(path: tuple[str, ...], new: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each field or item at `path` and below."""
    if isinstance(new, list) and new:
        for item in new:
            yield (*path, "-"), item
    elif isinstance(new, dict) and new and path[-1:] != ("-",):
        for name, item in new.items():
            yield from _leaves((*path, name), item)
    else:
        yield path, new


def _item(item: Any) -> str:
    """A list item, abbreviated."""
    if not isinstance(item, dict):
        return _text(item)
    if item.keys() == {"name", "value"}:
        return f"{item['name']}={item['value']}"
    if item.keys() == {"key", "operator"}:
        return f"{item['key']} {item['operator']}"
    field = item.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath") if "valueFrom" in item else None
    return f"{item['name']} from {field}" if field else _text(item)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _dotted(path: Iterable[str | int], value: Any) -> str:
    """A readable path: containers by name, and names with dots set off by a blank."""
    text, node = "", value
    for part in path:
        if part == "-":
            continue
        step = int(part) if isinstance(node, list) and str(part).isdigit() else part
        node = _below(node, step)
        if isinstance(step, int):
            text += f"[{(node.get('name') if isinstance(node, dict) else None) or step}]"
        else:
            text += ("" if not text else " " if "." in step or "/" in step else ".") + step
    return text


def _below(node: Any, step: str | int) -> Any:
    if isinstance(node, dict):
        return node.get(step)
    if isinstance(node, list) and isinstance(step, int) and step < len(node):
        return node[step]
    return None


def _around(workload: Kind[Any], obj: Any, targets: Sequence[Target], context: Context, value: Any) -> Iterator[Line]:
    hosts = next((t.resolution.accelerator for t in with_devices(targets) if t.resolution.multi_host), None)
    queues = {key.label or key.annotation for key in context.site.queues.values()}
    for found in outside(workload, obj, targets, context):
        if not isinstance(found, Warn):
            field = str(found.path[-1])
            why = WHY_QUEUE if field in queues else _why_around(field, workload, hosts)
            yield from lines_of(obj, value, [found], why)


WHY_QUEUE = "accel.io/queue, or the site's default, where the scheduler reads it"


def _why_around(field: str, workload: Kind[Any], hosts: Accelerator | None) -> str:
    if "exclusive-topology" in field:
        return "each slice gets its own node pool (site config exclusivePlacement: jobset)"
    if field == scheduling.MIN_MEMBER:
        return "Volcano starts all hosts of a slice together"
    if field == "groupName":
        return "JobSet can then count the slices of one job"
    if field == "completionMode":
        return "each host needs an index"
    if hosts is not None and field in ("parallelism", "completions", "size", "numOfHosts", "subGroupSize"):
        return f"{hosts.name} has {hosts.hosts} hosts, one Pod each"
    return f"rule for {workload.kind}"
