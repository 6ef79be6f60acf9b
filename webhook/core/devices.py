"""Which containers hold the devices, and how many each. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from webhook.core import limits, quantity
from webhook.core.annotations import COUNT, TypeRequest
from webhook.core.catalogue.accelerator import Accelerator
from webhook.core.messages import Denied, quoted
from webhook.core.schema.pod import Annotations, Container
from webhook.core.template import Placed

DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
"""Source: https://kubernetes.io/docs/reference/labels-annotations-taints/#kubectl-kubernetes-io-default-container"""

Amounts = dict[tuple[str, int], int]
"""The devices that containers ask for already, by where they stand."""


@final
@dataclass(init=False)
class DeviceContainer:
    """A container that gets devices, where it stands, and its number of them."""

    list_name: str  # "containers" or "initContainers"
    index: int
    container: Container
    devices: int

    def __init__(self, list_name: str, index: int, container: Container, devices: int) -> None:
        self.list_name = list_name
        self.index = index
        self.container = container
        self.devices = devices


def asked_amounts(container: Container, resource: str) -> list[tuple[str, object]]:
    """What the container already says of the resource: ("limits", "4"), ("requests", 4)."""
    found: list[tuple[str, object]] = []
    resources = container.resources
    if resources is None:
        return found
    limits, requests = resources.limits, resources.requests
    if limits and (amount := limits.get(resource)) is not None:
        found.append(("limits", amount))
    if requests and (amount := requests.get(resource)) is not None:
        found.append(("requests", amount))
    return found


def asked(within: str, container: Container, resource: str) -> int | None:
    """The devices that a container already asks for; None where it says nothing of them.

    Limits and requests of an extended resource must be equal, and whole:
    https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources
    """
    found: int | None = None
    for part, amount in asked_amounts(container, resource):
        count = quantity.devices(amount)
        if count is None or count < 0:
            where = f"{_named_part(within, container, part)}.{resource}"
            if isinstance(amount, str):
                limits.check(where, amount, limits.QUANTITY)
            raise Denied("bad-value", where=where, value=amount, valid="a whole number")
        if found is not None and found != count:
            raise Denied(
                "devices-conflict",
                where=_named_part(within, container, part),
                value=count,
                resource=resource,
                type="resources.limits",
                want=found,
            )
        found = count
    return found


def _named_part(within: str, container: Container, part: str) -> str:
    return f"{_container_name(within, container)}: resources.{part}"


def _container_name(within: str, container: Container) -> str:
    return f"{within.removesuffix('s')} {quoted(container.name)}"


def _amounts(placed: Sequence[Placed], resource: str) -> Amounts:
    """What the ordinary containers ask for; init containers are looked at only where they are named."""
    found: Amounts = {}
    for within, index, container in placed:
        amount = asked(within, container, resource) if within == "containers" else None
        if amount:
            found[within, index] = amount
    return found


def _unnamed(
    request: TypeRequest, annotations: Annotations, placed: Sequence[Placed], amounts: Amounts
) -> list[Placed]:
    """The containers that get devices where none is named: those that ask, else the default, else the first."""
    ordinary = [p for p in placed if p[0] == "containers"]
    asking = [p for p in ordinary if p[:2] in amounts] if amounts else []
    if asking:
        return asking
    if not ordinary:
        raise Denied("no-containers", value=request.type)
    default = annotations.get(DEFAULT_CONTAINER)
    if default:
        for candidate in ordinary:
            if candidate[2].name == default:
                return [candidate]
    return ordinary[:1]


def _named(names: Sequence[str], placed: Sequence[Placed]) -> list[Placed]:
    by_name: dict[str | None, Placed] = {}
    for candidate in placed:
        by_name.setdefault(candidate[2].name, candidate)
    for name in names:
        if name not in by_name:
            known = ", ".join(quoted(p[2].name) for p in placed[:10]) or "there are none"
            raise Denied("unknown-container", value=name, names=known)
    return [by_name[name] for name in names]


def device_containers(
    request: TypeRequest,
    accelerator: Accelerator,
    annotations: Annotations,
    placed: Sequence[Placed],
    keep: bool = False,
) -> tuple[DeviceContainer, ...]:
    """Every container that holds devices after injection; raises `Denied` where the user's amounts do not fit.

    `keep`: amounts that are there are an earlier injection's, and right as they are.
    """
    resource = accelerator.resource
    amounts: Amounts | None = None
    if request.containers:
        picked = _named(request.containers, placed)
    else:
        amounts = _amounts(placed, resource)
        picked = _unnamed(request, annotations, placed, amounts)
    if keep:
        there = [(w, i, c, n) for w, i, c in placed if (n := asked(w, c, resource))]
        if there:
            return tuple([DeviceContainer(*one) for one in there])
    if accelerator.slice is None:
        return _gpu(request, accelerator, picked)
    _whole_share(request, accelerator)
    return _tpu(request, accelerator, picked, placed, _amounts(placed, resource) if amounts is None else amounts)


def _tpu(
    request: TypeRequest, accelerator: Accelerator, picked: list[Placed], placed: Sequence[Placed], existing: Amounts
) -> tuple[DeviceContainer, ...]:
    """One host's chips, in one container, or divided where the hardware can."""
    chips = accelerator.count or 0
    if existing:
        places = {p[:2] for p in picked}
        picked = picked + [p for p in placed if p[:2] in existing and p[:2] not in places]
    divisible = accelerator.slice is not None and accelerator.slice.divisible
    if len(picked) > 1 and not divisible:
        names = ", ".join(p[2].name or "" for p in picked)
        raise Denied("one-container", value=names, type=accelerator.name)
    if len(existing) == len(picked) and sum(existing.values()) == chips:
        if request.count is not None and any(n != request.count for n in existing.values()):
            raise Denied(
                "count-conflict", value=request.count, type=accelerator.name, valid="what the containers ask for"
            )
        return tuple([DeviceContainer(w, i, c, existing[w, i]) for w, i, c in picked])
    if chips % len(picked):
        raise Denied(
            "uneven-division", value=", ".join(p[2].name or "" for p in picked), chips=chips, type=accelerator.name
        )
    share = chips // len(picked)
    if request.count not in (None, share):
        smaller = [n for n in accelerator.per_host_choices if n < chips]
        valid = ", ".join([str(share), *(f"{n} for {chips // n} hosts" for n in smaller), "or leave it out"])
        raise Denied("count-conflict", value=request.count, type=accelerator.name, valid=valid)
    return tuple([_holder(p, share, accelerator) for p in picked])


def _whole_share(request: TypeRequest, accelerator: Accelerator) -> None:
    """A placeholder of a type that fixes its count means one node's share: 1."""
    if request.amount not in (None, 1):
        valid = f"1 (one host's share: {accelerator.count} x {accelerator.resource})"
        raise Denied("placeholder-quantity", where=request.where, value=request.amount, valid=valid)


def _gpu(request: TypeRequest, accelerator: Accelerator, picked: list[Placed]) -> tuple[DeviceContainer, ...]:
    if accelerator.count is not None:
        _whole_share(request, accelerator)
        wanted = request.count or accelerator.count
    else:
        wanted = _agreed(request)
    resource = accelerator.resource
    found = tuple([_holder(p, wanted or asked(p[0], p[2], resource) or 1, accelerator) for p in picked])
    total = _at_once(found)
    if accelerator.most is not None and total > accelerator.most:
        where = f"{COUNT}" if request.count else f"{len(found)} containers" if len(found) > 1 else "the container"
        raise Denied(
            "too-many-devices",
            where=where,
            value=total,
            resource=resource,
            type=accelerator.name,
            most=accelerator.most,
        )
    return found


def _at_once(found: Sequence[DeviceContainer]) -> int:
    """The devices that the Pod needs at a time: init containers come before the others, and give theirs back.

    Source: https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
    """
    together = sum(h.devices for h in found if h.list_name == "containers")
    return max(together, *(h.devices for h in found))


def _agreed(request: TypeRequest) -> int:
    """The count of the annotation and of the placeholder, which must be one number; 0 where neither says it."""
    if request.count and request.amount and request.count != request.amount:
        valid = f"{request.amount}, as the limit says, or leave it out"
        raise Denied("count-conflict", value=request.count, type=request.where, valid=valid)
    return request.count or request.amount or 0


def _holder(template: Placed, want: int, accelerator: Accelerator) -> DeviceContainer:
    within, index, container = template
    existing = asked(within, container, accelerator.resource)
    if existing not in (None, want):
        raise Denied(
            "devices-conflict",
            where=_container_name(within, container),
            value=existing,
            resource=accelerator.resource,
            type=accelerator.name,
            want=want,
        )
    return DeviceContainer(within, index, container, want)


def two_hosts(request: TypeRequest, resource: str, placed: Sequence[Placed]) -> int | None:
    """Chips per host that the template's own words point to, where a shape exists in two forms."""
    amounts = [n for w, _, c in placed if w == "containers" and (n := asked(w, c, resource))]
    return sum(amounts) if amounts else request.count
