"""The devices as resources: requests and limits, in place of a placeholder. Pure."""

from collections.abc import Iterator
from typing import Final

from webhook.core.devices import DEFAULT_CONTAINER, asked_amounts
from webhook.core.messages import Denied, Warn, quoted
from webhook.core.patch import Edit, Put, Remove
from webhook.core.resolution import Resolution
from webhook.core.rules.rule import Found, Rule, container_path
from webhook.core.schema.pod import Container
from webhook.core.template import PodTemplate


def resources(template: PodTemplate, resolution: Resolution) -> Found:
    """requests = limits = the devices, as a string; amounts that are there already were found equal before."""
    if resolution.request.mode == "host":
        return _no_resources(resolution)
    resource = resolution.accelerator.resource
    found: list[Edit | Warn] = []
    for device_container in resolution.device_containers:
        there = [part for part, _ in asked_amounts(device_container.container, resource)]
        for part in ("limits", "requests"):
            if part not in there:
                path = (*container_path(device_container), "resources", part, resource)
                found.append(Put(path, str(device_container.devices)))
    if resolution.accelerator.extras:
        found += _extras(template, resolution)
    return found


def _no_resources(resolution: Resolution) -> Found:
    """Mode host gives whole nodes by path; a device resource beside it would count the devices twice."""
    resource = resolution.accelerator.resource
    for device_container in resolution.device_containers:
        for part, _ in asked_amounts(device_container.container, resource):
            where = f"container {quoted(device_container.container.name)}: resources.{part}"
            raise Denied("host-mode-devices", where=where, value=resource)
    return ()


def _extras(template: PodTemplate, resolution: Resolution) -> Iterator[Edit]:
    """What comes with the whole instance (EFA devices), for the first holder; not with a part of it."""
    if resolution.accelerator.count != sum(h.devices for h in resolution.device_containers):
        return
    device_container = resolution.device_containers[0]
    for resource, amount in resolution.accelerator.extras:
        if not any(asked_amounts(c, resource) for _, _, c in template.containers):
            for part in ("limits", "requests"):
                yield Put((*container_path(device_container), "resources", part, resource), str(amount))


def placeholders(template: PodTemplate, resolution: Resolution) -> Found:
    """The `accel.io/` limits go, and with them the toleration that ExtendedResourceToleration made of them.

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
            yield Remove(("spec", "tolerations", index))


def privileged(template: PodTemplate, resolution: Resolution) -> Found:
    """A privileged container sees all devices of its node, whatever it was given: said once, never changed."""
    if _has_node(resolution) or resolution.request.mode == "host" or template.of_workload:
        return ()  # a whole node is one Pod's anyway; a Pod of a workload was told of when the workload came
    open_ones = [h.container for h in resolution.device_containers if _is_privileged(h.container)]
    return [Warn("privileged", {"name": container.name}) for container in open_ones]


def _has_node(resolution: Resolution) -> bool:
    """Whether the Pod takes all devices that a node of this type can have."""
    hardware = resolution.accelerator
    if hardware.slice is not None:
        return True
    together = sum(h.devices for h in resolution.device_containers if h.list_name == "containers")
    return together == (hardware.most if hardware.count is None else hardware.count)


def _is_privileged(container: Container) -> bool:
    return container.securityContext is not None and bool(container.securityContext.privileged)


def _why(template: PodTemplate, resolution: Resolution) -> str:
    return f"{_amount(resolution)}; {_choice(template, resolution)}"


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
        return "as many as the container asks for"
    return "1, since neither accel.io/count nor the container says how many"


def _choice(template: PodTemplate, resolution: Resolution) -> str:
    """Why these containers."""
    request, resource = resolution.request, resolution.accelerator.resource
    if request.containers:
        return "accel.io/container names it" if not request.placeholders else "the container that has the limit"
    if any(asked_amounts(h.container, resource) for h in resolution.device_containers):
        return "the container that asks for it"
    if template.annotations.get(DEFAULT_CONTAINER) == resolution.device_containers[0].container.name:
        return "the default container"
    return "the first container"


def _why_not(_template: PodTemplate, resolution: Resolution) -> str:
    return "accel.io/mode: host gives devices by path" if resolution.request.mode == "host" else "there already"


def _replaced(_template: PodTemplate, _resolution: Resolution) -> str:
    return "the real resource takes its place"


def _warned(_template: PodTemplate, _resolution: Resolution) -> str:
    return "a privileged container sees all devices of its node"


RESOURCES: Final = Rule("resources", resources, _why, _why_not)
PLACEHOLDERS: Final = Rule("placeholders", placeholders, _replaced)
PRIVILEGED: Final = Rule("privileged containers", privileged, _warned)
