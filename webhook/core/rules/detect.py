"""Detection: a device resource in a container's limits applies the admin's profile, without any annotation. Pure.

Only the profile is applied: no selector, no scheduler, no count. Nothing is ever denied, since nothing was requested:
what would be denied is left unchanged.
"""

from dataclasses import dataclass
from typing import final

from webhook.core import quantity
from webhook.core.devices import DeviceContainer
from webhook.core.messages import Denied, Warn
from webhook.core.patch import Edit
from webhook.core.rules.host import apply_profiles
from webhook.core.schema.pod import PodSpec
from webhook.core.site import Profile, Site
from webhook.core.template import PodTemplate, containers_of


@final
@dataclass(frozen=True)
class Detected:
    """What one template gets because of its resources alone."""

    types: tuple[str, ...] = ()  # the any-model types that the resources stand for, where the catalogue has them
    found: tuple[Edit | Warn, ...] = ()


def resources(spec: PodSpec, site: Site) -> dict[str, tuple[DeviceContainer, ...]]:
    """The site's detected resources that some container has in its limits, each with those containers.

    A quantity of 0, or one that is not an integer, requests nothing.
    """
    found: dict[str, list[DeviceContainer]] = {}
    for within, index, container in containers_of(spec):
        limits = (container.resources and container.resources.limits) or {}
        for resource in site.detect.intersection(limits):
            devices = quantity.devices(limits[resource])
            if devices is not None and devices > 0:
                found.setdefault(resource, []).append(DeviceContainer(within, index, container, devices))
    return {resource: tuple(found[resource]) for resource in sorted(found)}


def detected(template: PodTemplate, namespace: str, site: Site) -> Detected:
    """What a template without a type gets: each container all the profiles of its resources."""
    types: list[str] = []
    held: dict[tuple[str, int], tuple[DeviceContainer, list[Profile]]] = {}
    for resource, device_containers in resources(template.spec, site).items():
        profiles = site.detected(resource, namespace)
        if not profiles:
            continue
        types.append(site.catalogue.any_model(resource))
        for device_container in device_containers:
            held.setdefault((device_container.list_name, device_container.index), (device_container, []))[1].extend(
                profiles
            )
    try:
        return Detected(tuple(types), tuple(apply_profiles(template, list(held.values()))))
    except Denied as denied:
        return Detected(found=(Warn("not-detected", {"why": denied.message.splitlines()[0]}),))
