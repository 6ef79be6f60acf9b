"""The user's whole interface: the `accel.io/` annotations and the placeholder limits. Pure.

Each key is resolved separately and the innermost level wins; an inner type cancels an outer count, topology and
container. Values are checked here as text; what they mean for hardware is up to the catalogue.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

from webhook.core import limits, quantity
from webhook.core.last_applied import LAST_APPLIED
from webhook.core.messages import Denied, Warn, quoted
from webhook.core.schema.pod import Annotations, Container, Metadata
from webhook.core.template import annotations_of

NAME: Final = "accel.io"
PREFIX: Final = NAME + "/"
TYPE: Final = PREFIX + "type"
COUNT: Final = PREFIX + "count"
TOPOLOGY: Final = PREFIX + "topology"
CONTAINER: Final = PREFIX + "container"
MODE: Final = PREFIX + "mode"
SCHEDULER: Final = PREFIX + "scheduler"
QUEUE: Final = PREFIX + "queue"
PLACEMENT: Final = PREFIX + "placement"
SHM: Final = PREFIX + "shm"
MULTISLICE: Final = PREFIX + "multislice"
INJECT: Final = PREFIX + "inject"
INJECTED: Final = PREFIX + "injected"

KEYS: Final = (
    TYPE,
    COUNT,
    TOPOLOGY,
    CONTAINER,
    MODE,
    SCHEDULER,
    QUEUE,
    PLACEMENT,
    SHM,
    MULTISLICE,
    INJECT,
    INJECTED,
)
_KNOWN: Final = frozenset(KEYS)
VOIDED: Final = (COUNT, TOPOLOGY, CONTAINER)
"""Keys of an outer level that are cancelled by a type on an inner level."""
COPIED: Final = (TYPE, COUNT, TOPOLOGY, CONTAINER, MODE, SCHEDULER, QUEUE, PLACEMENT, SHM, MULTISLICE)
"""Keys that are copied from outer levels to a pod template, so that its Pods have them too."""

_LONGEST: Final = {CONTAINER: limits.LIST, PLACEMENT: limits.LIST}
"""Characters of a value that is a list."""

NONE: Final = "none"
_MODES: Final = ("plugin", "host")
_BOOLEANS: Final = ("true", "false")


@final
@dataclass(init=False)
class TypeRequest:
    """What the user requested for one pod template, checked as text."""

    type: str  # as the user wrote it
    where: str  # where `type` is, for messages
    count: int | None
    topology: str | None
    containers: tuple[str, ...]
    mode: str
    scheduler: str | None
    queue: str | None
    placements: tuple[str, ...]
    shm: str | None  # "true" or a size; None: the site's default
    multislice: bool | None
    outer: tuple[tuple[str, str], ...]  # keys that took effect from outside the template, to be copied to it
    placeholders: tuple[tuple[str, str], ...]  # (container, resource) to be replaced by the real one
    amount: int | None  # the placeholder's quantity: devices, or 1 if the type fixes their number
    also: str | None  # a type annotation on the same template, which must mean the same as the placeholder

    def __init__(
        self,
        type: str,
        where: str,
        *,
        count: int | None = None,
        topology: str | None = None,
        containers: tuple[str, ...] = (),
        mode: str = "plugin",
        scheduler: str | None = None,
        queue: str | None = None,
        placements: tuple[str, ...] = (),
        shm: str | None = None,
        multislice: bool | None = None,
        outer: tuple[tuple[str, str], ...] = (),
        placeholders: tuple[tuple[str, str], ...] = (),
        amount: int | None = None,
        also: str | None = None,
    ) -> None:
        self.type = type
        self.where = where
        self.count = count
        self.topology = topology
        self.containers = containers
        self.mode = mode
        self.scheduler = scheduler
        self.queue = queue
        self.placements = placements
        self.shm = shm
        self.multislice = multislice
        self.outer = outer
        self.placeholders = placeholders
        self.amount = amount
        self.also = also


@final
@dataclass(init=False)
class TemplateAnnotations:
    """Our annotations on the levels around one pod template, and our limits in its containers."""

    levels: list[dict[str, str]]  # our keys, from the outermost metadata to the template's own
    placeholders: list[tuple[str, str, object]]  # (container, resource, quantity)
    off: int | None  # the level of the `accel.io/inject: "false"` that applies
    typed: bool  # there is a type on some level, or a placeholder

    def __init__(self, levels: list[dict[str, str]], placeholders: list[tuple[str, str, object]]) -> None:
        self.levels = levels
        self.placeholders = placeholders
        self.off = _off(levels)
        self.typed = bool(placeholders) or any(TYPE in level for level in levels)


@final
class Levels:
    """Our annotations on the levels that have already been read, by id.

    The object's own metadata is a level of each of its templates.
    """

    def __init__(self) -> None:
        self._known: dict[int, dict[str, str]] = {}
        self._unknown: dict[int, list[str]] = {}

    def known(self, level: Metadata) -> dict[str, str]:
        """The known keys."""
        found = self._known.get(id(level))
        if found is None:
            ours = own(annotations_of(level))
            unknown_keys = unknown(ours)
            if unknown_keys:
                self._unknown[id(level)] = unknown_keys
                ours = {key: value for key, value in ours.items() if key in _KNOWN}
            found = self._known[id(level)] = ours
        return found

    def has_read(self, level: Metadata | None) -> bool:
        """Whether this was one of the levels."""
        return id(level) in self._known

    def read_any(self) -> bool:
        """Whether there was any level."""
        return bool(self._known)

    def mentions(self, obj: Any) -> int:
        """How many keys of ours were read, including those in the manifest that kubectl keeps in an annotation."""
        number = sum([len(ours) for ours in self._known.values()])
        metadata = obj.metadata
        if id(metadata) not in self._known:
            number += len(own(annotations_of(metadata)))
        file = annotations_of(metadata).get(LAST_APPLIED)
        return number + (file.count(f'"{NAME}') if file else 0)

    def take_unknown(self, level: Metadata) -> list[str]:
        """The unknown keys with our prefix; each level returns them once."""
        return self._unknown.pop(id(level), []) if self._unknown else []


def read_annotations(
    levels: Sequence[Metadata], containers: Sequence[tuple[str, int, Container]], known: Levels
) -> TemplateAnnotations:
    """Our annotations around a template, whose own metadata is the last of `levels`; `known` is extended."""
    return TemplateAnnotations([known.known(level) for level in levels], placeholders(containers))


def _off(levels: Sequence[Mapping[str, str]]) -> int | None:
    for index in range(len(levels) - 1, -1, -1):
        if INJECT in levels[index]:
            return index if switched_off(levels[index]) else None
    return None


def own(annotations: Annotations) -> dict[str, str]:
    """Our annotations, without those that are null."""
    return {k: v for k, v in annotations.items() if v is not None and k.startswith(PREFIX)}


def unknown(level: Iterable[str]) -> list[str]:
    """The unknown keys with our prefix, sorted."""
    return sorted([key for key in level if key not in _KNOWN])


def nearest_level(levels: Sequence[Mapping[str, str]]) -> dict[str, tuple[str, int]]:
    """Each key's value and the level that it comes from; `levels` go from the outermost to the template's own."""
    if len(levels) == 1:
        return {key: (value, 0) for key, value in levels[0].items()}
    found: dict[str, tuple[str, int]] = {}
    for index, level in enumerate(levels):
        if TYPE in level:
            for key in VOIDED:
                found.pop(key, None)
        for key, value in level.items():
            found[key] = (value, index)
    return found


def placeholders(containers: Sequence[tuple[str, int, Container]]) -> list[tuple[str, str, object]]:
    """(container, resource, quantity) of every `accel.io/` limit or request."""
    found: dict[tuple[str, str], object] = {}
    for _, _, container in containers:
        resources = container.resources
        if resources is not None:
            _hold(found, container.name or "", resources.limits)
            _hold(found, container.name or "", resources.requests)
    return [(name, resource, amount) for (name, resource), amount in found.items()]


def _hold(found: dict[tuple[str, str], object], name: str, amounts: Mapping[str, object] | None) -> None:
    if amounts is None:
        return
    for resource in amounts:
        if resource.startswith(PREFIX):
            found.setdefault((name, resource), amounts[resource])


def type_request(annotated: TemplateAnnotations) -> TypeRequest | None:
    """What is requested; None if there is no type at all."""
    if annotated.placeholders:
        return _by_resource(annotated.levels, annotated.placeholders)
    found = nearest_level(annotated.levels)
    return _asked(found, len(annotated.levels) - 1) if TYPE in found else None


def _asked(found: Mapping[str, tuple[str, int]], template: int) -> TypeRequest:
    for key, (word, _) in found.items():
        if key != INJECTED:  # nothing reads it
            limits.check(key, word, _LONGEST.get(key, limits.WORD))
    if len(found) == 1:  # only a type, the usual case
        word, level = found[TYPE]
        return TypeRequest(word.strip(), TYPE, outer=() if level == template else ((TYPE, word),))
    text = {key: value.strip() for key, (value, _) in found.items()}
    return TypeRequest(
        type=text[TYPE],
        where=TYPE,
        count=_count(text.get(COUNT)),
        topology=text.get(TOPOLOGY),
        containers=_names(CONTAINER, text.get(CONTAINER)),
        mode=_one_of(MODE, text.get(MODE), _MODES) or "plugin",
        scheduler=_filled(SCHEDULER, text.get(SCHEDULER)),
        queue=_filled(QUEUE, text.get(QUEUE)),
        placements=_names(PLACEMENT, text.get(PLACEMENT)),
        shm=_shm(text.get(SHM)),
        multislice=_boolean(MULTISLICE, text.get(MULTISLICE)),
        outer=tuple((k, found[k][0]) for k in COPIED if k in found and found[k][1] != template),
    )


def _by_resource(levels: Sequence[Mapping[str, str]], held: Sequence[tuple[str, str, object]]) -> TypeRequest:
    """A placeholder means a type, with its container, on the template itself."""
    resources = sorted({resource for _, resource, _ in held})
    if len(resources) > 1:
        raise Denied("two-types", where="a limit", value=resources[0], other=f"another for {quoted(resources[1])}")
    amounts = {_amount(name, resource, amount) for name, resource, amount in held}
    if len(amounts) > 1:
        found = ", ".join(map(str, sorted(amounts)))
        raise Denied(
            "placeholder-quantity",
            where=f"limit {resources[0][:64]}",
            value=found,
            valid="the same number for all",
        )
    near, device_containers = levels[-1], tuple(dict.fromkeys(name for name, _, _ in held))
    meant = {**near, TYPE: resources[0].removeprefix(PREFIX), CONTAINER: ",".join(device_containers)}
    asked = _asked(nearest_level([*levels[:-1], meant]), len(levels) - 1)
    if CONTAINER in near and set(_names(CONTAINER, near[CONTAINER])) != set(device_containers):
        other = f"{CONTAINER} names {quoted(near[CONTAINER])}"
        raise Denied("two-types", where=f"container {quoted(meant[CONTAINER])}", value=resources[0], other=other)
    return replace(
        asked,
        where=f"limit {resources[0][:64]}",
        amount=amounts.pop(),
        also=near.get(TYPE),
        placeholders=tuple((name, resource) for name, resource, _ in held),
        outer=(*asked.outer, *((key, meant[key]) for key in (TYPE, CONTAINER) if key not in near)),
    )


def _amount(container: str, resource: str, amount: object) -> int:
    count = quantity.devices(amount)
    if count is None or count < 1:
        where = f"limit {resource[:64]} of container {quoted(container)}"
        if isinstance(amount, str):
            limits.check(where, amount, limits.QUANTITY)
        raise Denied("placeholder-quantity", where=where, value=amount, valid="an integer from 1 (for a TPU: 1)")
    return count


def without_effect(levels: Sequence[Mapping[str, str]]) -> list[str]:
    """The keys without effect, since no level has a type."""
    return [key for key in KEYS[1:-2] if any(key in level for level in levels)]


def unknown_key_warnings(keys: Iterable[str]) -> list[Warn]:
    """Warnings about unknown keys: a few, each with the key that was probably meant, and the number of the rest."""
    every = list(dict.fromkeys(keys))
    named = every if len(every) <= limits.WARNINGS else every[: limits.WARNINGS - 1]
    found = [Warn("unknown-key", {"key": key[:48], "nearest": nearest(key)}) for key in named]
    if len(named) < len(every):
        found.append(Warn("unknown-keys", {"number": f"{len(every) - len(named):,}"}))
    return found


def nearest(key: str) -> str:
    """The key that was probably meant."""
    found: list[str] = difflib.get_close_matches(key[: limits.LABEL_VALUE], KEYS[:-1], n=1, cutoff=0.0)
    return found[0]


def switched_off(level: Mapping[str, str]) -> bool:
    """Whether this level says `accel.io/inject: "false"`."""
    value = _one_of(INJECT, level.get(INJECT), _BOOLEANS)
    return value == "false"


def _one_of(key: str, value: str | None, valid: Sequence[str]) -> str | None:
    if value is None or value in valid:
        return value
    raise Denied("bad-value", where=key, value=value, valid=", ".join(f'"{word}"' for word in valid))


def _boolean(key: str, value: str | None) -> bool | None:
    word = _one_of(key, value, _BOOLEANS)
    return None if word is None else word == "true"


def _filled(key: str, value: str | None) -> str | None:
    if value == "":
        raise Denied("bad-value", where=key, value=value, valid="a name")
    return value


def _count(value: str | None) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise Denied("bad-value", where=COUNT, value=value, valid="an integer from 1, or 0 for only the nodes")
    return int(value)


def _names(key: str, value: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    names = tuple(dict.fromkeys(part.strip() for part in value.split(",")))
    if "" in names:
        raise Denied("bad-value", where=key, value=value, valid="a name, or comma-separated names")
    return names


def _shm(value: str | None) -> str | None:
    if value is None or value in _BOOLEANS:
        return value
    limits.check(SHM, value, limits.QUANTITY)
    if not quantity.is_positive(value):
        raise Denied("bad-value", where=SHM, value=value, valid='"true", "false", or a size such as 64Gi')
    return value
