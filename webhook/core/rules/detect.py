"""Detection: a device resource in a container's limits brings the admin's profile, with no annotation at all. Pure.

Only the profile is applied: no selector, no scheduler, no count. Nothing is ever denied, since nobody asked: what
would be is left as it is.
"""

from dataclasses import dataclass
from typing import final

from webhook.core import quantity
from webhook.core.devices import Holder
from webhook.core.messages import Denied, Warn
from webhook.core.patch import Edit
from webhook.core.rules.host import give
from webhook.core.schema.pod import PodSpec
from webhook.core.site import Profile, Site
from webhook.core.template import Place, containers_of


@final
@dataclass(frozen=True)
class Detected:
    """What one template gets for its resources alone."""

    types: tuple[str, ...] = ()  # the any-model types that the resources stand for, where the catalogue has them
    found: tuple[Edit | Warn, ...] = ()


def resources(spec: PodSpec, site: Site) -> dict[str, tuple[Holder, ...]]:
    """The site's detected resources that some container has in its limits, each with those containers.

    A quantity of 0, or one that is no whole number, asks for nothing.
    """
    found: dict[str, list[Holder]] = {}
    for within, index, container in containers_of(spec):
        limits = (container.resources and container.resources.limits) or {}
        for resource in site.detect.intersection(limits):
            devices = quantity.devices(limits[resource])
            if devices is not None and devices > 0:
                found.setdefault(resource, []).append(Holder(within, index, container, devices))
    return {resource: tuple(found[resource]) for resource in sorted(found)}


def detected(place: Place, namespace: str, site: Site) -> Detected:
    """What a template that carries no type of ours gets: each container all the profiles of its resources."""
    types: list[str] = []
    held: dict[tuple[str, int], tuple[Holder, list[Profile]]] = {}
    for resource, holders in resources(place.spec, site).items():
        profiles = site.detected(resource, namespace)
        if not profiles:
            continue
        types.append(site.catalogue.any_model(resource))
        for holder in holders:
            held.setdefault((holder.within, holder.index), (holder, []))[1].extend(profiles)
    try:
        return Detected(tuple(types), tuple(give(place, list(held.values()))))
    except Denied as denied:
        return Detected(found=(Warn("not-detected", {"why": denied.message.splitlines()[0]}),))
