"""The devices as resources: requests and limits, in place of a placeholder. Pure."""

from collections.abc import Iterator
from typing import Final

from webhook.core import quantity
from webhook.core.annotations import CONTAINER, MULTISLICE, SHM
from webhook.core.devices import DEFAULT_CONTAINER, DeviceContainer, asked_amounts
from webhook.core.messages import Denied, Warn, quoted
from webhook.core.patch import Edit, Put, Remove
from webhook.core.resolution import Resolution
from webhook.core.rules.rule import Found, Rule, container_path
from webhook.core.schema.pod import Container
from webhook.core.sidecars import PRIMARY
from webhook.core.template import PodTemplate


def resources(template: PodTemplate, resolution: Resolution) -> Found:
    """requests = limits = the devices, as a string; existing amounts have been checked to be equal."""
    found = _nobodys(template, resolution) if template.filled_in else []
    if resolution.request.mode == "host":
        return [*_no_resources(resolution), *found]
    if resolution.placed_only:
        return [*_without_effect(resolution), *found]
    resource, own = resolution.accelerator.resource, resolution.own
    if own.names:
        warning = Warn("own-devices", {"resource": resource, "names": ", ".join(own.names)})
        return found if template.of_workload else [warning, *found]
    for device_container in resolution.device_containers:
        found += _given(device_container, resource)
    if own.unknown and not template.of_workload:
        found.append(Warn("claims-unknown", {"resource": resource, "names": ", ".join(own.unknown)}))
    if resolution.accelerator.extras:
        found += _extras(template, resolution)
    return found


def _given(device_container: DeviceContainer, resource: str) -> Iterator[Edit | Warn]:
    """A user's 0 is not an amount, and is replaced."""
    amounts = {part: quantity.devices(amount) for part, amount in asked_amounts(device_container.container, resource)}
    if 0 in amounts.values():
        facts = {"name": device_container.container.name, "resource": resource, "count": device_container.devices}
        yield Warn("zero-replaced", facts)
    for part in ("limits", "requests"):
        if not amounts.get(part):
            yield Put((*container_path(device_container), "resources", part, resource), str(device_container.devices))


def _nobodys(template: PodTemplate, resolution: Resolution) -> list[Edit | Warn]:
    """Devices that LimitRanger gave to containers that should have none. Without any value it would refuse the Pod."""
    ours = {(h.list_name, h.index) for h in resolution.device_containers} if resolution.request.mode != "host" else ()
    hardware = resolution.accelerator.resource
    found: list[Edit | Warn] = []
    for list_name, index, part, resource in template.filled_in:
        is_device = bool(resolution.site.catalogue.families.of_resource(resource))
        if is_device and not (resource == hardware and not resolution.own.names and (list_name, index) in ours):
            found.append(Put(("spec", list_name, index, "resources", part, resource), "0"))
    return found


def _without_effect(resolution: Resolution) -> Iterator[Warn]:
    """Keys about devices that have no effect without devices."""
    request = resolution.request
    requested = {CONTAINER: request.containers, SHM: request.shm, MULTISLICE: request.multislice}
    for key, value in requested.items():
        if value:
            yield Warn("count-zero-unused", {"key": key})


def _no_resources(resolution: Resolution) -> Found:
    """Mode host provides whole nodes by path; a device resource as well would count the devices twice."""
    resource = resolution.accelerator.resource
    if resolution.own.names and not resolution.stored:
        raise Denied("host-mode-devices", where="the Pod", value=resolution.own.names[0])
    for device_container in resolution.device_containers:
        for part, _ in asked_amounts(device_container.container, resource):
            where = f"container {quoted(device_container.container.name)}: resources.{part}"
            raise Denied("host-mode-devices", where=where, value=resource)
    return ()


def _extras(template: PodTemplate, resolution: Resolution) -> Iterator[Edit]:
    """What comes with the whole instance (EFA devices), for the first container with devices; not with part of it."""
    if resolution.accelerator.count != sum(h.devices for h in resolution.device_containers):
        return
    device_container = resolution.device_containers[0]
    for resource, amount in resolution.accelerator.extras:
        if not any(asked_amounts(c, resource) for _, _, c in template.containers):
            for part in ("limits", "requests"):
                yield Put((*container_path(device_container), "resources", part, resource), str(amount))


def placeholders(template: PodTemplate, resolution: Resolution) -> Found:
    """Removes the `accel.io/` limits, and the toleration that ExtendedResourceToleration derived from them.

    Source: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#extendedresourcetoleration
    """
    held = resolution.request.placeholders
    return _gone(template, {resource for _, resource in held}) if held else ()


def _gone(template: PodTemplate, gone: set[str]) -> Iterator[Edit]:
    for within, index, container in template.containers:
        for resource in sorted(gone):
            for part, _ in asked_amounts(container, resource):
                yield Remove(("spec", within, index, "resources", part, resource))
    for index, toleration in enumerate(template.spec.tolerations or ()):
        if toleration is not None and toleration.key in gone:
            yield Remove(("spec", "tolerations", index), (("key", toleration.key),))


def privileged(template: PodTemplate, resolution: Resolution) -> Found:
    """A privileged container sees all devices of its node, whatever it was given: warned about once, never changed."""
    if _has_node(resolution) or resolution.request.mode == "host" or template.of_workload:
        return ()  # a whole node belongs to one Pod anyway; for a Pod of a workload, the workload got the warning
    open_ones = [h.container for h in resolution.device_containers if _is_privileged(h.container)]
    return [Warn("privileged", {"name": container.name}) for container in open_ones]


def _has_node(resolution: Resolution) -> bool:
    """Whether the Pod takes all devices that a node of this type can have."""
    hardware = resolution.accelerator
    if hardware.slice is not None:
        return True
    together = sum(h.devices for h in resolution.device_containers if h.list_name == "containers")
    return together == (hardware.max_per_node if hardware.count is None else hardware.count)


def _is_privileged(container: Container) -> bool:
    return container.securityContext is not None and bool(container.securityContext.privileged)


def _why(template: PodTemplate, resolution: Resolution) -> str:
    if template.filled_in and (resolution.placed_only or resolution.own.names):
        return "LimitRanger's default, which nobody requested"
    return "" if resolution.placed_only else f"{_amount(resolution)}; {_choice(template, resolution)}"


def _amount(resolution: Resolution) -> str:
    request, hardware = resolution.request, resolution.accelerator
    if hardware.slice is not None:
        share = " evenly divided" if len(resolution.device_containers) > 1 else ""
        return f"the chips of one host{share}" if hardware.hosts > 1 else f"all its chips{share}"
    if request.count is not None:
        return f"accel.io/count: {request.count}"
    if request.amount is not None and hardware.count is None:
        return f"as many as {request.where} says"
    if hardware.count is not None:
        return "all devices of the machine"
    if any(asked_amounts(h.container, hardware.resource) for h in resolution.device_containers):
        return "as many as the container requests"
    return "1, since neither accel.io/count nor the container says how many"


def _choice(template: PodTemplate, resolution: Resolution) -> str:
    """Why these containers."""
    request, resource = resolution.request, resolution.accelerator.resource
    if request.containers:
        return "accel.io/container names it" if not request.placeholders else "the container that has the limit"
    if any(asked_amounts(h.container, resource) for h in resolution.device_containers):
        return "the container that requests it"
    chosen = resolution.device_containers[0]
    for key in (DEFAULT_CONTAINER, PRIMARY):
        if template.annotations.get(key) == chosen.container.name:
            return f"the annotation {key} names it"
    return "the first container" + (" that is not a known sidecar" if chosen.index else "")


def _why_not(_template: PodTemplate, resolution: Resolution) -> str:
    if resolution.placed_only:
        return "accel.io/count: 0 requests the nodes without devices"
    if resolution.own.names:
        return f"the Pod asks for {', '.join(resolution.own.names)} itself"
    return "accel.io/mode: host provides devices by path" if resolution.request.mode == "host" else "already set"


def _replaced(_template: PodTemplate, _resolution: Resolution) -> str:
    return "replaced by the real resource"


def _warned(_template: PodTemplate, _resolution: Resolution) -> str:
    return "a privileged container sees all devices of its node"


RESOURCES: Final = Rule("resources", resources, _why, _why_not)
PLACEHOLDERS: Final = Rule("placeholders", placeholders, _replaced)
PRIVILEGED: Final = Rule("privileged containers", privileged, _warned)
