"""One pod template's ask, resolved: which hardware, which containers, how many devices, whose scheduler. Pure.

Facts before edits: everything that a mutator would have to compute stands here, as values.
"""

from dataclasses import dataclass, replace
from typing import Final, final

from webhook.core import devices, scheduling
from webhook.core.annotations import NONE, Ask
from webhook.core.catalogue.accelerator import Accelerator
from webhook.core.devices import Holder
from webhook.core.messages import Denied, quoted
from webhook.core.scheduling import Scheduling
from webhook.core.schema.pod import NO_SPEC, Container, Metadata, PodSpec, Template
from webhook.core.site import Site
from webhook.core.template import Place, annotations_of, labels_of

SLICE_TOPOLOGY: Final = "cloud.google.com/gke-tpu-slice-topology"
"""Sub-, super- and dynamic slices: the node's topology is not the slice's then.

Source: https://github.com/ai-on-gke/tpu-device-plugin (pkg/tpu/util/util.go)
"""


@final
@dataclass(frozen=True)
class Slices:
    """How a Pod learns which slice of how many it is in: env values or `fieldRef`s, as the API spells them."""

    number: str  # field path of the number of slices
    index: str  # field path of this slice's index
    coordinator: str = ""  # worker 0 of slice 0: a host name, may use $(ACCEL_JOBSET_NAME)
    coordinator_path: str = ""  # or a field path


@final
@dataclass(frozen=True)
class Worker:
    """How a Pod learns its place among its slice's hosts, where nobody else tells it."""

    subdomain: str | None  # of the headless Service; None: a single host
    indexed: bool  # the Pods carry a Job completion index


@final
@dataclass(init=False)
class Resolution:
    """What one template gets, before it is spelled out as edits."""

    ask: Ask
    accelerator: Accelerator
    holders: tuple[Holder, ...]
    namespace: str
    site: Site
    scheduling: Scheduling
    slices: Slices | None
    worker: Worker | None
    stored: bool  # the object exists already: what it has is kept, not judged

    def __init__(
        self,
        ask: Ask,
        accelerator: Accelerator,
        holders: tuple[Holder, ...],
        namespace: str,
        site: Site,
        scheduling: Scheduling,
        *,
        slices: Slices | None = None,
        worker: Worker | None = None,
        stored: bool = False,
    ) -> None:
        self.ask = ask
        self.accelerator = accelerator
        self.holders = holders
        self.namespace = namespace
        self.site = site
        self.scheduling = scheduling
        self.slices = slices
        self.worker = worker
        self.stored = stored

    @property
    def multi_host(self) -> bool:
        """Whether a slice of this type is more than one Pod."""
        return self.accelerator.hosts > 1

    def told(self, slices: Slices | None, worker: Worker | None) -> "Resolution":
        """The same with what only the whole object knows."""
        return Resolution(
            self.ask,
            self.accelerator,
            self.holders,
            self.namespace,
            self.site,
            self.scheduling,
            slices=slices,
            worker=worker,
            stored=self.stored,
        )


def accelerator(ask: Ask, place: Place, site: Site) -> Accelerator:
    """The hardware that is asked for, in the form that the template's own words point to."""
    try:
        found = site.catalogue.resolve(ask.type, ask.topology)
    except Denied as denied:
        raise denied.within(ask.where if ask.placeholders else "") from None
    if ask.also is not None and (ask.also == NONE or site.catalogue.resolve(ask.also, ask.topology) != found):
        raise Denied("two-types", where=ask.where, value=ask.type, other=f"accel.io/type: {quoted(ask.also)}")
    if not found.per_host_choices or found.slice is None:
        return found
    said = devices.two_hosts(ask, found.resource, place.containers)
    for choice in found.per_host_choices:
        if said == choice or (said is None and place.hosts_hint == found.slice.chips // choice):
            return site.catalogue.resolve(ask.type, ask.topology, chips_per_host=choice)
    return found


def resolve(ask: Ask, place: Place, namespace: str, site: Site, stored: bool = False) -> Resolution:
    """Everything about one template; raises `Denied`. `stored`: what the template has is kept, not judged."""
    hardware = accelerator(ask, place, site)
    return Resolution(
        ask,
        hardware,
        devices.holders(ask, hardware, place.annotations, place.containers, keep=stored),
        namespace,
        site,
        _scheduling(ask, hardware, place, namespace, site, stored),
        stored=stored,
    )


def _scheduling(ask: Ask, hardware: Accelerator, place: Place, namespace: str, site: Site, stored: bool) -> Scheduling:
    if place.owned_scheduling:
        return scheduling.UNTOUCHED
    return scheduling.decide(
        ask,
        hardware.name,
        namespace,
        site,
        present=place.spec.schedulerName,
        kueue=scheduling.kueue_managed(labels_of(level) for level in place.levels),
        stored=stored,
    )


def own_topology(place: Place) -> bool:
    """Whether the template forms its slice itself, so that neither topology nor node pool is ours to choose."""
    return bool(place.annotations.get(SLICE_TOPOLOGY))


def bare(template: Template) -> Template:
    """The template with nothing in it that injection writes: its containers' names, and what decides for whole Pods."""
    spec, kept = template.spec or NO_SPEC, annotations_of(template.metadata).get(SLICE_TOPOLOGY)
    return Template(
        metadata=Metadata(annotations={SLICE_TOPOLOGY: kept}) if kept else None,
        spec=PodSpec(
            containers=[c and Container(name=c.name) for c in spec.containers or ()],
            initContainers=[c and Container(name=c.name) for c in spec.initContainers or ()],
            hostNetwork=spec.hostNetwork,
        ),
    )


def unfilled(place: Place, resolution: Resolution) -> tuple[Place, Resolution]:
    """The same decisions about the bare template: what follows from them is all that injection would ever write."""
    holders = tuple(replace(h, container=Container(name=h.container.name)) for h in resolution.holders)
    return (
        replace(place, template=bare(place.template)),
        replace(resolution, holders=holders),
    )
