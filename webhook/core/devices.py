"""Which containers get devices, and how many each. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, final

from webhook.core import limits, quantity
from webhook.core.annotations import COUNT, TypeRequest
from webhook.core.catalogue.accelerator import Accelerator
from webhook.core.messages import Denied, quoted
from webhook.core.own_devices import OwnDevices
from webhook.core.schema.pod import Container
from webhook.core.sidecars import ARGO, ARGO_WAIT, PRIMARY, is_sidecar
from webhook.core.template import Placed, PodTemplate

DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
"""Source: https://kubernetes.io/docs/reference/labels-annotations-taints/#kubectl-kubernetes-io-default-container"""

Amounts = dict[tuple[str, int], int]
"""The devices that containers already request, by list and index."""


@final
@dataclass(init=False)
class DeviceContainer:
    """A container that gets devices, its position, and its number of devices."""

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
    """The amounts of the resource that the container already has: ("limits", "4"), ("requests", 4)."""
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
    """The devices that a container already requests; None if it does not mention them.

    A 0 is no amount beside another. Limits and requests of an extended resource must be equal, and integers:
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
        if found and count and found != count:
            raise Denied(
                "devices-conflict",
                where=_named_part(within, container, part),
                value=count,
                resource=resource,
                type="resources.limits",
                gives=f"says {found}",
                valid=f"{found} in both",
            )
        found = found or count
    return found


def _named_part(within: str, container: Container, part: str) -> str:
    return f"{_container_name(within, container)}: resources.{part}"


def _container_name(within: str, container: Container) -> str:
    return f"{within.removesuffix('s')} {quoted(container.name)}"


def runs_beside(list_name: str, container: Container) -> bool:
    """Whether a container runs as long as its Pod: a regular one, or a sidecar among the init containers.

    Source: https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
    """
    return list_name == "containers" or container.restartPolicy == "Always"


def _amounts(placed: Sequence[Placed], resource: str) -> Amounts:
    """What the containers that run concurrently request; other init containers count only if they are named."""
    found: Amounts = {}
    for within, index, container in placed:
        amount = asked(within, container, resource) if runs_beside(within, container) else None
        if amount:
            found[within, index] = amount
    return found


def _unnamed(request: TypeRequest, template: PodTemplate, asking: Collection[tuple[str, int]]) -> list[Placed]:
    """The containers that get devices if none is named: those that request them, else the default, else the first."""
    found = [p for p in template.containers if p[:2] in asking] if asking else []
    if found:
        return found
    ordinary = [p for p in template.containers if p[0] == "containers"]
    if not ordinary:
        raise Denied("no-containers", value=request.type)
    for default in (template.annotations.get(DEFAULT_CONTAINER), template.annotations.get(PRIMARY)):
        if default:
            for candidate in ordinary:
                if candidate[2].name == default:
                    return [candidate]
    return [next((p for p in ordinary if not _is_sidecar(template, p[2])), ordinary[0])]


def _is_sidecar(template: PodTemplate, container: Container) -> bool:
    return is_sidecar(container.name) or (container.name == ARGO_WAIT and ARGO in template.annotations)


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
    template: PodTemplate,
    own: OwnDevices,
    keep: bool = False,
) -> tuple[DeviceContainer, ...]:
    """Every container that has devices after injection; raises `Denied` if the user's amounts do not fit.

    `keep`: existing amounts come from an earlier injection, and are correct.
    """
    resource, placed = accelerator.resource, template.containers
    if request.count == 0:
        return _none(request, accelerator, placed)
    amounts: Amounts | None = None
    if request.containers:
        picked = _named(request.containers, placed)
    else:
        amounts = _amounts(placed, resource)
        picked = _unnamed(request, template, own.containers if own.names else amounts)
    if own.names:
        return tuple([DeviceContainer(*p, 0) for p in picked])
    if keep:
        there = [(w, i, c, n) for w, i, c in placed if (n := asked(w, c, resource))]
        if there:
            return tuple([DeviceContainer(*one) for one in there])
    if accelerator.slice is None:
        found = _other_devices(request, accelerator, picked)
    else:
        _whole_share(request, accelerator)
        found = _tpu(request, accelerator, picked, placed, _amounts(placed, resource) if amounts is None else amounts)
    _check_node(request, accelerator, found, placed)
    return found


def _none(request: TypeRequest, accelerator: Accelerator, placed: Sequence[Placed]) -> tuple[DeviceContainer, ...]:
    """A count of 0: the nodes without the devices. Not valid for a Pod that requests them."""
    if request.mode == "host":
        raise Denied("count-conflict", value=0, type="accel.io/mode: host", valid="1 or more, or leave it out")
    if request.placeholders:
        raise Denied("count-conflict", value=0, type=request.where, valid="accel.io/type in place of the limit")
    for list_name, _, container in placed:
        if asked(list_name, container, accelerator.resource):
            valid = f"no {accelerator.resource} in {list_name} {quoted(container.name)}, or leave it out"
            raise Denied("count-conflict", value=0, type=accelerator.name, valid=valid)
    return ()


def _check_node(
    request: TypeRequest, accelerator: Accelerator, found: Sequence[DeviceContainer], placed: Sequence[Placed]
) -> None:
    """What all containers need at the same time must fit on one node."""
    limit = accelerator.max_per_node
    if limit is None or (len(placed) == 1 and found[0].devices <= limit):
        return
    total = _at_once(found, placed, accelerator.resource)
    if total <= limit:
        return
    where = "the Pod's containers together"
    if request.count and sum(h.devices for h in found) > limit:
        each = f" for each of {len(found)} containers" if len(found) > 1 else ""
        where = f"{COUNT} {request.count}{each}"
    raise Denied(
        "too-many-devices",
        where=where,
        value=total,
        resource=accelerator.resource,
        type=accelerator.name,
        limit=limit,
    )


def _tpu(
    request: TypeRequest, accelerator: Accelerator, picked: list[Placed], placed: Sequence[Placed], existing: Amounts
) -> tuple[DeviceContainer, ...]:
    """One host's chips, in one container, or divided if the hardware supports it."""
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
                "count-conflict", value=request.count, type=accelerator.name, valid="what the containers request"
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
    return tuple([_device_container(p, share, accelerator) for p in picked])


def _whole_share(request: TypeRequest, accelerator: Accelerator) -> None:
    """The placeholder of a type with a fixed count means one node's share: 1."""
    if request.amount not in (None, 1):
        valid = f"1 (one host's share: {accelerator.count} x {accelerator.resource})"
        raise Denied("placeholder-quantity", where=request.where, value=request.amount, valid=valid)


def _other_devices(request: TypeRequest, accelerator: Accelerator, picked: list[Placed]) -> tuple[DeviceContainer, ...]:
    """Everything but TPUs: the same number in each container."""
    if accelerator.count is not None:
        _whole_share(request, accelerator)
        wanted = request.count or accelerator.count
    else:
        wanted = _agreed(request)
    resource = accelerator.resource
    return tuple([_device_container(p, wanted or asked(p[0], p[2], resource) or 1, accelerator) for p in picked])


def _at_once(found: Sequence[DeviceContainer], placed: Sequence[Placed], resource: str) -> int:
    """The devices that the Pod needs at the same time. Init containers run one after the other, alongside the sidecars
    that were started before them, and then release their devices.

    Source: https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
    """
    given = {(h.list_name, h.index): h.devices for h in found}
    together = starting = 0
    for list_name, index, container in _as_started(placed):
        amount = given.get((list_name, index))
        if amount is None:
            amount = _plain_amount(container, resource)
        if runs_beside(list_name, container):
            together += amount
        else:
            starting = max(starting, together + amount)
    return max(together, starting)


def _plain_amount(container: Container, resource: str) -> int:
    """What a container that we do not change requests; the API server judges an invalid amount."""
    amounts = asked_amounts(container, resource)
    return max([0, *(quantity.devices(amount) or 0 for _, amount in amounts)]) if amounts else 0


def _as_started(placed: Sequence[Placed]) -> Sequence[Placed]:
    """Init containers first, each list in its own order."""
    init = [one for one in placed if one[0] != "containers"]
    return [*init, *(one for one in placed if one[0] == "containers")] if init else placed


def _agreed(request: TypeRequest) -> int:
    """The count of the annotation and of the placeholder, which must agree; 0 if neither is set."""
    if request.count and request.amount and request.count != request.amount:
        valid = f"{request.amount}, as the limit says, or leave it out"
        raise Denied("count-conflict", value=request.count, type=request.where, valid=valid)
    return request.count or request.amount or 0


def _device_container(placed: Placed, want: int, accelerator: Accelerator) -> DeviceContainer:
    """The container with so many devices; raises `Denied` if it requests another number."""
    within, index, container = placed
    existing = asked(within, container, accelerator.resource)
    if existing not in (None, 0, want):
        raise Denied(
            "devices-conflict",
            where=_container_name(within, container),
            value=existing,
            resource=accelerator.resource,
            type=accelerator.name,
            gives=f"gives it {want}",
            valid=f"{want}, or no {accelerator.resource} at all",
        )
    return DeviceContainer(within, index, container, want)


def chips_per_host(request: TypeRequest, resource: str, placed: Sequence[Placed]) -> int | None:
    """Chips per host that the template's own values indicate, for a shape that exists in two forms."""
    amounts = [n for w, _, c in placed if runs_beside(w, c) and (n := asked(w, c, resource))]
    return sum(amounts) if amounts else request.count
