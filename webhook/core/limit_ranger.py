"""Amounts that the LimitRanger admission plugin filled in: the user did not request them. Pure.

The plugin runs before webhooks. If a LimitRange has a `max` or a `default` for a device, every container of a Pod gets
that many. An annotation records what was set: "LimitRanger plugin set: cpu, memory request for container a; ...".
Source: https://github.com/kubernetes/kubernetes/blob/v1.37.2/plugin/pkg/admission/limitranger/admission.go
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from webhook.core import quantity
from webhook.core.annotations import INJECTED
from webhook.core.schema.pod import Annotations, Container, Quantity, Resources
from webhook.core.template import FilledIn, PodTemplate

ANNOTATION: Final = "kubernetes.io/limit-ranger"
_OPENING: Final = "LimitRanger plugin set: "
_PLACES: Final = ((" for init container ", "initContainers"), (" for container ", "containers"))
_PARTS: Final = {"request": "requests", "limit": "limits"}

Defaults = dict[tuple[str, str, str], frozenset[str]]
"""The resources that were filled in, by list, container name and part."""


def forget_filled_in(template: PodTemplate, concerns_us: Callable[[str], bool]) -> None:
    """Removes the amounts that LimitRanger filled in from `template.containers`, for resources that concern us."""
    defaults = _defaults(template.annotations)
    if _was_decided(template, defaults):
        return
    found: list[FilledIn] = []
    for position, (list_name, index, container) in enumerate(template.containers):
        if container.resources is None:
            continue
        kept: dict[str, dict[str, Quantity | None]] = {}
        for part in _PARTS.values():
            amounts: dict[str, Quantity | None] = getattr(container.resources, part) or {}
            gone = {r for r in amounts if _is_default(defaults, list_name, container, part, r) and concerns_us(r)}
            found += [(list_name, index, part, resource) for resource in amounts if resource in gone]
            kept[part] = {r: amount for r, amount in amounts.items() if r not in gone} if gone else amounts
        resources = Resources(limits=kept["limits"], requests=kept["requests"], claims=container.resources.claims)
        template.containers[position] = (list_name, index, _with_resources(container, resources))
    template.filled_in = tuple(found)


def _was_decided(template: PodTemplate, defaults: Defaults) -> bool:
    """Whether we have seen the Pod: of what LimitRanger gave, the containers without devices have 0 instead."""
    return INJECTED in template.annotations and any(
        quantity.devices(amount) == 0 and _is_default(defaults, list_name, container, "limits", resource)
        for list_name, _, container in template.containers
        if container.resources is not None
        for resource, amount in (container.resources.limits or {}).items()
    )


def _is_default(defaults: Defaults, list_name: str, container: Container, part: str, resource: str) -> bool:
    """Whether an amount was filled in. Limit and request of an extended resource are equal: one record covers both."""
    parts = _PARTS.values() if "/" in resource else (part,)
    return any(resource in defaults.get((list_name, container.name or "", one), ()) for one in parts)


def _with_resources(container: Container, resources: Resources) -> Container:
    return msgspec.structs.replace(container, resources=resources)


def _defaults(annotations: Annotations) -> Defaults:
    text = annotations.get(ANNOTATION) or ""
    if not text.startswith(_OPENING):
        return {}
    return {place: frozenset(names) for place, names in _entries(text.removeprefix(_OPENING))}


def _entries(text: str) -> Iterator[tuple[tuple[str, str, str], list[str]]]:
    for entry in text.split("; "):
        for phrase, list_name in _PLACES:
            what, found, container = entry.partition(phrase)
            names, _, part = what.rpartition(" ")
            if found and part in _PARTS:
                yield (list_name, container, _PARTS[part]), names.split(", ")
                break
