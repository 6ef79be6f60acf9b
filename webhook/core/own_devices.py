"""Devices that a template already requests in another way: by other resources, annotations or claims. Pure.

A device can be requested whole, partitioned, shared, or with a claim. If the template does so, adding the type's
resource would request a second device, or a combination that no node has.
"""

from dataclasses import dataclass
from typing import Final, final

from webhook.core import quantity
from webhook.core.catalogue.accelerator import Accelerator
from webhook.core.messages import Denied, quoted
from webhook.core.schema.pod import Container
from webhook.core.site import Site, matches
from webhook.core.template import PodTemplate

DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""A resource with this prefix is a claim, for devices of the class that it names.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/#extended-resource
"""

_NAMED: Final = 4
"""The number of resources, annotations and claims that a warning names."""


@final
@dataclass(init=False)
class OwnDevices:
    """The devices that the user requested directly."""

    names: tuple[str, ...]  # resources, annotations and claims that are the devices: no resource is added
    unknown: tuple[str, ...]  # claims that may be devices or something else: a network, a channel
    containers: frozenset[tuple[str, int]]  # those that request them, by list and index

    def __init__(
        self,
        names: tuple[str, ...] = (),
        unknown: tuple[str, ...] = (),
        containers: frozenset[tuple[str, int]] = frozenset(),
    ) -> None:
        self.names = names
        self.unknown = unknown
        self.containers = containers


NOTHING: Final = OwnDevices()


def own_devices(template: PodTemplate, accelerator: Accelerator, site: Site, stored: bool = False) -> OwnDevices:
    """The devices that the template requests itself; raises `Denied` for hardware of another family.

    No node has two families. `stored`: the object already exists, and is not denied.
    """
    names: dict[str, None] = {}
    holders: set[tuple[str, int]] = set()
    for list_name, index, container in template.containers:
        for resource, amount, family in _hardware(container, accelerator.resource, site):
            if family == accelerator.family:
                names[resource] = None
                holders.add((list_name, index))
            elif not stored:
                raise _other_hardware(f"{list_name} {quoted(container.name)}", resource, amount, accelerator)
    for annotation, family in site.catalogue.families.annotations.items():
        amount = template.annotations.get(annotation)
        if amount is not None and family == accelerator.family:
            names[annotation] = None
        elif amount is not None and not stored:
            raise _other_hardware("metadata.annotations", annotation, amount, accelerator)
    unknown = _classes(template, site, names, holders)
    if template.spec.resourceClaims is not None:
        _claims(template, site, names, unknown, holders)
    if not names and not unknown:
        return NOTHING
    return OwnDevices(tuple(names)[:_NAMED], tuple(unknown)[:_NAMED], frozenset(holders))


def _hardware(container: Container, resource: str, site: Site) -> list[tuple[str, object, str]]:
    """The resources of accelerators that a container requests, except for `resource`: name, amount, family."""
    found: list[tuple[str, object, str]] = []
    resources = container.resources
    if resources is None:
        return found
    for amounts in (resources.limits, resources.requests):
        if amounts is None:
            continue
        for name in amounts:
            if name == resource or "/" not in name:
                continue
            family, amount = site.catalogue.families.of_resource(name), amounts[name]
            if family and amount is not None and quantity.devices(amount) != 0:
                found.append((name, amount, family))
    # An API server sorts the names, a file does not: both must get the same message.
    return sorted(found, key=lambda one: one[0]) if len(found) > 1 else found


def _other_hardware(where: str, name: str, amount: object, accelerator: Accelerator) -> Denied:
    return Denied(
        "devices-conflict",
        where=where,
        value=amount,
        resource=name,
        type=accelerator.name,
        gives="is other hardware: no node has both",
        valid=f"no {name}, or a type that it belongs to",
    )


def _classes(
    template: PodTemplate, site: Site, names: dict[str, None], holders: set[tuple[str, int]]
) -> dict[str, None]:
    """The claims by resource that may be devices or something else; those that are devices are added to `names`."""
    unknown: dict[str, None] = {}
    for list_name, index, container in template.containers:
        resources = container.resources
        if resources is None or resources.limits is None:  # the API server requires the limit
            continue
        for resource, amount in resources.limits.items():
            if not resource.startswith(DEVICE_CLASS) or not quantity.devices(amount):
                continue
            if site.catalogue.families.of_resource(resource):
                continue  # known by its name, like any other resource
            device_class = resource.removeprefix(DEVICE_CLASS)
            if matches(device_class, site.config.claims.devices):
                names[resource] = None
                holders.add((list_name, index))
            else:
                unknown[f"of class {device_class}"] = None
    return unknown


def _claims(
    template: PodTemplate,
    site: Site,
    names: dict[str, None],
    unknown: dict[str, None],
    holders: set[tuple[str, int]],
) -> None:
    """A claim is opaque: what it requests is in an object that we do not see, so the site config names those
    that are devices."""
    patterns = site.config.claims.devices
    are_devices: dict[str, bool] = {}
    for claim in template.spec.resourceClaims or ():
        if claim is not None and claim.name:
            words = (claim.resourceClaimTemplateName, claim.resourceClaimName, claim.name)
            are_devices[claim.name] = any(word and matches(word, patterns) for word in words)
    for list_name, index, container in template.containers:
        for use in (container.resources and container.resources.claims) or ():
            if use is None or use.name is None:
                continue
            if are_devices.get(use.name):
                names[f"resource claim {use.name}"] = None
                holders.add((list_name, index))
            else:
                unknown[use.name] = None
