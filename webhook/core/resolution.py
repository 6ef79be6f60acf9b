"""One pod template's request, resolved: which hardware, which containers, how many devices, which scheduler. Pure.

Facts before edits: everything that a rule would have to compute is here, as values.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, final

from webhook.core import devices, limit_ranger, limits, scheduling
from webhook.core.annotations import NONE, TypeRequest
from webhook.core.catalogue.accelerator import Accelerator
from webhook.core.devices import DeviceContainer
from webhook.core.limit_ranger import forget_filled_in
from webhook.core.messages import Denied, quoted
from webhook.core.own_devices import OwnDevices, own_devices
from webhook.core.scheduling import Scheduling
from webhook.core.schema.pod import NO_SPEC, Container, Metadata, PodSpec, Template
from webhook.core.site import Site
from webhook.core.slice_keys import SliceKeys
from webhook.core.template import PodTemplate, annotations_of, labels_of

JOB_NAME_VARIABLE: Final = "ACCEL_JOB_NAME"
"""The variable with the Job's name, from which its host names are derived."""

SLICE_TOPOLOGY: Final = "cloud.google.com/gke-tpu-slice-topology"
"""Sub-, super- and dynamic slices: then the node's topology is not the slice's.

Source: https://github.com/ai-on-gke/tpu-device-plugin (pkg/tpu/util/util.go)
"""


DEVICES_PER_NODE: Final = "cloud.google.com/gke-accelerator-count"
"""GKE's label with the number of a node's devices, by which the two forms of a v5e-8 or v6e-8 can be told apart.

Source: https://github.com/ai-on-gke/tpu-device-plugin (pkg/tpu/util/util.go)
"""


@final
@dataclass(init=False)
class Slices:
    """How a Pod learns which of how many slices it is in: env values or `fieldRef`s, as in the API."""

    number: str  # field path of the number of slices
    index: str  # field path of this slice's index
    coordinator: str  # worker 0 of slice 0: a host name, may use $(ACCEL_JOBSET_NAME)
    coordinator_path: str  # or a field path

    def __init__(self, number: str, index: str, coordinator: str = "", coordinator_path: str = "") -> None:
        self.number = number
        self.index = index
        self.coordinator = coordinator
        self.coordinator_path = coordinator_path


@final
@dataclass(init=False)
class Worker:
    """How a Pod learns its worker id and the host names of its slice, if nothing else sets them."""

    index: str  # field path of the host's index; empty if the Pods have none
    prefix: str  # of the hosts' names, before "-0"; may use $(ACCEL_JOB_NAME)
    subdomain: str | None  # of the headless Service; None: the hosts have no names
    number: int | None  # the index itself, for a Pod that has it
    alone: bool  # this slice is the whole job

    def __init__(
        self,
        index: str = "",
        prefix: str = "",
        subdomain: str | None = None,
        *,
        number: int | None = None,
        alone: bool = False,
    ) -> None:
        self.index = index
        self.prefix = prefix
        self.subdomain = subdomain
        self.number = number
        self.alone = alone
        self._names: dict[tuple[int, int, int], str] = {}

    def hostnames(self, hosts: int, processes: int = 1) -> str:
        """TPU_WORKER_HOSTNAMES: each host once for each of its processes."""
        return self._listed(hosts, processes, 0)

    def addresses(self, hosts: int, processes: int, port: int) -> str:
        """TPU_PROCESS_ADDRESSES: the processes of a host have consecutive ports from `port`."""
        return self._listed(hosts, processes, port)

    def _listed(self, hosts: int, processes: int, port: int) -> str:
        """One text for all templates, since it can be long."""
        found = self._names.get((hosts, processes, port))
        if found is None:
            names = ["localhost"] if hosts == 1 else [f"{self.prefix}-{i}.{self.subdomain}" for i in range(hosts)]
            ports = [f":{port + c}" if port else "" for c in range(processes)]
            found = ",".join([name + end for name in names for end in ports])
            self._names[hosts, processes, port] = found
        return found


@final
@dataclass(init=False)
class Resolution:
    """What one template gets, before it becomes edits."""

    request: TypeRequest
    accelerator: Accelerator
    device_containers: tuple[DeviceContainer, ...]
    own: OwnDevices
    slice_topology: str  # of a slice formed for the Pods; else empty
    namespace: str
    site: Site
    scheduling: Scheduling
    slices: Slices | None
    worker: Worker | None
    slice_keys: SliceKeys | None  # the labels that tell slices apart; None if there are none
    stored: bool  # the object already exists: what it has is kept, not judged

    def __init__(
        self,
        request: TypeRequest,
        accelerator: Accelerator,
        device_containers: tuple[DeviceContainer, ...],
        own: OwnDevices,
        slice_topology: str,
        namespace: str,
        site: Site,
        scheduling: Scheduling,
        *,
        slices: Slices | None = None,
        worker: Worker | None = None,
        slice_keys: SliceKeys | None = None,
        stored: bool = False,
    ) -> None:
        self.request = request
        self.accelerator = accelerator
        self.device_containers = device_containers
        self.own = own
        self.slice_topology = slice_topology
        self.namespace = namespace
        self.site = site
        self.scheduling = scheduling
        self.slices = slices
        self.worker = worker
        self.slice_keys = slice_keys
        self.stored = stored

    @property
    def formed(self) -> bool:
        """Whether a slice is formed for the Pods, so that no node label shows it beforehand."""
        return bool(self.slice_topology)

    @property
    def placed_only(self) -> bool:
        """Whether the Pods get the nodes but no devices: they are not hosts of a slice."""
        return self.request.count == 0

    @property
    def multi_host(self) -> bool:
        """Whether a slice of this type is more than one Pod."""
        return self.accelerator.hosts > 1

    @property
    def full(self) -> bool:
        """Whether we set TPU_* variables: the site says so."""
        return self.accelerator.slice is not None and self.site.config.tpu.environment == "full"

    def with_slices_and_worker(self, slices: Slices | None, worker: Worker | None) -> "Resolution":
        """The same with what only the whole object knows."""
        return self._with(slices, worker, self.slice_keys)

    def with_slice_keys(self, keys: SliceKeys | None) -> "Resolution":
        """The same with the labels that tell slices apart."""
        return self._with(self.slices, self.worker, keys)

    def _with(self, slices: Slices | None, worker: Worker | None, keys: SliceKeys | None) -> "Resolution":
        """By hand: `dataclasses.replace` costs as much as a rule."""
        return Resolution(
            self.request,
            self.accelerator,
            self.device_containers,
            self.own,
            self.slice_topology,
            self.namespace,
            self.site,
            self.scheduling,
            slices=slices,
            worker=worker,
            slice_keys=keys,
            stored=self.stored,
        )


def accelerator(request: TypeRequest, template: PodTemplate, site: Site, formed: str) -> Accelerator:
    """The requested hardware, in the form that the template's own values indicate."""
    try:
        found = site.catalogue.resolve(request.type, request.topology)
    except Denied as denied:
        raise denied.within(request.where if request.placeholders else "") from None
    if request.also is not None and (
        request.also == NONE or site.catalogue.resolve(request.also, request.topology) != found
    ):
        raise Denied(
            "two-types", where=request.where, value=request.type, other=f"accel.io/type is {quoted(request.also)}"
        )
    if formed and found.slice is not None:
        found = _formed(request, found, formed, site)
    if not found.per_host_choices or found.slice is None:
        return found
    per_host = devices.chips_per_host(request, found.resource, template.containers)
    if per_host is None:
        per_host = devices_per_node(template)
    for choice in found.per_host_choices:
        if per_host == choice or (per_host is None and template.hosts_hint == found.slice.chips // choice):
            return site.catalogue.resolve(request.type, request.topology or formed or None, chips_per_host=choice)
    return found


def devices_per_node(template: PodTemplate) -> int | None:
    """The number of devices of the nodes that the user selects."""
    value = (template.spec.nodeSelector or {}).get(DEVICES_PER_NODE)
    return int(value) if value is not None and value.isascii() and value.isdecimal() else None


def slice_topology(request: TypeRequest, template: PodTemplate, site: Site) -> str:
    """The topology of a slice that is formed for these Pods only, by annotation or by a placement; empty if there
    is none. The nodes have no label for it before the slice is formed, so we choose neither topology nor node pool."""
    topology = template.annotations.get(SLICE_TOPOLOGY)
    for name in () if topology else request.placements:
        placement = site.config.placements.get(name)
        topology = topology or (placement.annotations.get(SLICE_TOPOLOGY) if placement is not None else None)
    return topology or ""


def _formed(request: TypeRequest, found: Accelerator, formed: str, site: Site) -> Accelerator:
    """The type in the topology of the slice; raises `Denied` if that has a different number of chips."""
    assert found.slice is not None
    limits.check(SLICE_TOPOLOGY, formed, limits.WORD)
    if request.topology is None:
        return site.catalogue.resolve(request.type, formed, where=SLICE_TOPOLOGY)
    if formed == found.slice.topology:
        return found
    same, wanted = site.catalogue.resolve(found.name, formed, where=SLICE_TOPOLOGY), found.slice
    raise Denied(
        "topology-mismatch",
        where=SLICE_TOPOLOGY,
        value=formed,
        chips=same.slice.chips if same.slice is not None else 0,
        wanted=f"topology {wanted.topology}",
        shapes=wanted.topology,
    )


def resolve(
    request: TypeRequest, template: PodTemplate, namespace: str, site: Site, stored: bool = False
) -> Resolution:
    """Everything about one template; raises `Denied`. `stored`: what the template has is kept, not judged."""
    if not template.path and limit_ranger.ANNOTATION in template.annotations:
        forget_filled_in(template, _concerns(request, site))
    formed = slice_topology(request, template, site)
    hardware = accelerator(request, template, site, formed)
    own = own_devices(template, hardware, site, stored)
    return Resolution(
        request,
        hardware,
        devices.device_containers(request, hardware, template, own, keep=stored),
        own,
        formed,
        namespace,
        site,
        _scheduling(request, hardware, template, namespace, site, stored),
        stored=stored,
    )


def _concerns(request: TypeRequest, site: Site) -> Callable[[str], bool]:
    """A test whether we may write a resource: hardware, and what the chosen placements set."""
    found = (site.config.placements.get(name) for name in request.placements)
    placed = {resource for placement in found if placement is not None for resource in placement.resources}
    return lambda resource: resource in placed or bool(site.catalogue.families.of_resource(resource))


def _scheduling(
    request: TypeRequest, hardware: Accelerator, template: PodTemplate, namespace: str, site: Site, stored: bool
) -> Scheduling:
    if template.owned_scheduling:
        return scheduling.UNTOUCHED
    return scheduling.decide(
        request,
        hardware.name,
        namespace,
        site,
        present=template.spec.schedulerName,
        kueue=scheduling.kueue_managed(labels_of(level) for level in template.levels),
        stored=stored,
    )


def stripped_view(template: Template) -> Template:
    """The template without anything that injection writes: its container names, and what affects whole Pods."""
    spec, kept = template.spec or NO_SPEC, annotations_of(template.metadata).get(SLICE_TOPOLOGY)
    return Template(
        metadata=Metadata(annotations={SLICE_TOPOLOGY: kept}) if kept else None,
        spec=PodSpec(
            containers=[c and Container(name=c.name) for c in spec.containers or ()],
            initContainers=[c and Container(name=c.name) for c in spec.initContainers or ()],
            hostNetwork=spec.hostNetwork,
        ),
    )


def stripped(template: PodTemplate, resolution: Resolution) -> tuple[PodTemplate, Resolution]:
    """The same decisions for the stripped template: what follows from them is all that injection would ever write."""
    device_containers = tuple(
        replace(h, container=Container(name=h.container.name)) for h in resolution.device_containers
    )
    return (
        replace(template, view=stripped_view(template.view)),
        replace(resolution, device_containers=device_containers),
    )
