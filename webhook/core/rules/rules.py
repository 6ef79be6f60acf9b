"""What injection makes true of a pod template: one plain function per concern, in one tuple. Pure.

Each sees the original template, never another's edits. A function gives edits and warnings; where a user's
own value stands in the way it raises `Denied`. None of them writes what is already there. Paths begin at the template:
where it stands in its object is nothing to a mutator.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Final

from webhook.core import annotations, scheduling, topology
from webhook.core.container import first_user_of
from webhook.core.devices import Holder, asked_amounts
from webhook.core.messages import Denied, Warn, quoted
from webhook.core.patch import Append, Edit, Path, Put, Remove
from webhook.core.resolution import Place, Resolution, own_topology
from webhook.core.rules.host import host
from webhook.core.rules.placement import placement
from webhook.core.scheduling import Scheduling
from webhook.core.schema.pod import Container, VolumeMount

Found = Iterable[Edit | Warn]
Mutator = Callable[[Place, Resolution], Found]

TPU_TOPOLOGY: Final = "cloud.google.com/gke-tpu-topology"
JOBSET_NAME: Final = "ACCEL_JOBSET_NAME"
JOBSET_NAME_PATH: Final = "metadata.annotations['jobset.sigs.k8s.io/jobset-name']"
JOB_NAME: Final = "ACCEL_JOB_NAME"
MEGASCALE: Final = ("MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID", "MEGASCALE_COORDINATOR_ADDRESS")
SHM_VOLUME: Final = "accel-shm"
SHM: Final = "/dev/shm"  # noqa: S108 (a mount point in the container, not a file of ours)
COMPLETION_INDEX: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
"""Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode"""

Env = dict[str, object]


def container_path(holder: Holder) -> Path:
    """Where a holder stands in its template."""
    return ("spec", holder.within, holder.index)


def resources(place: Place, resolution: Resolution) -> Found:
    """requests = limits = the devices, as a string; amounts that are there already were found equal before."""
    if resolution.ask.mode == "host":
        return _no_resources(resolution)
    resource = resolution.accelerator.resource
    found: list[Edit | Warn] = []
    for holder in resolution.holders:
        there = [part for part, _ in asked_amounts(holder.container, resource)]
        for part in ("limits", "requests"):
            if part not in there:
                path = (*container_path(holder), "resources", part, resource)
                found.append(Put(path, str(holder.devices)))
    if resolution.accelerator.extras:
        found += _extras(place, resolution)
    return found


def _no_resources(resolution: Resolution) -> Found:
    """Mode host gives whole nodes by path; a device resource beside it would count the devices twice."""
    resource = resolution.accelerator.resource
    for holder in resolution.holders:
        for part, _ in asked_amounts(holder.container, resource):
            where = f"container {quoted(holder.container.name)}: resources.{part}"
            raise Denied("host-mode-devices", where=where, value=resource)
    return ()


def _extras(place: Place, resolution: Resolution) -> Iterator[Edit]:
    """What comes with the whole instance (EFA devices), for the first holder; not with a part of it."""
    if resolution.accelerator.count != sum(h.devices for h in resolution.holders):
        return
    holder = resolution.holders[0]
    for resource, amount in resolution.accelerator.extras:
        if not any(asked_amounts(c, resource) for _, _, c in place.containers):
            for part in ("limits", "requests"):
                yield Put((*container_path(holder), "resources", part, resource), str(amount))


def placeholders(place: Place, resolution: Resolution) -> Found:
    """The `accel.io/` limits go, and with them the toleration that ExtendedResourceToleration made of them.

    Source: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#extendedresourcetoleration
    """
    held = resolution.ask.placeholders
    return _gone(place, {resource for _, resource in held}) if held else ()


def _gone(place: Place, gone: set[str]) -> Iterator[Edit]:
    for within, index, container in place.containers:
        for resource in sorted(gone):
            for part, _ in asked_amounts(container, resource):
                yield Remove(("spec", within, index, "resources", part, resource))
    for index, toleration in enumerate(place.spec.tolerations or ()):
        if toleration is not None and toleration.key in gone:
            yield Remove(("spec", "tolerations", index))


def node_selector(place: Place, resolution: Resolution) -> Found:
    """The labels of the nodes that have the accelerator; several acceptable values become a node affinity."""
    have, hardware = place.spec.nodeSelector or {}, resolution.accelerator
    found: list[Edit | Warn] = []
    if not hardware.pinned and not place.owned_scheduling:
        platform = resolution.site.config.platform
        found.append(Warn("not-pinned", {"type": hardware.name, "platform": platform, "resource": hardware.resource}))
    for label, values in hardware.selector:
        if label == TPU_TOPOLOGY and own_topology(place):
            continue
        value = have.get(label)
        if value is None:
            found += _pin(place, label, values)
        elif value not in values and not resolution.stored:
            raise _selector_conflict(label, value, f"{annotations.TYPE} {hardware.name}", values)
    return found


def _pin(place: Place, label: str, values: tuple[str, ...]) -> Iterable[Edit]:
    if len(values) == 1:
        return (Put(("spec", "nodeSelector", label), values[0]),)
    return _node_affinity(place, label, values)


def _selector_conflict(label: str, value: str, source: str, values: tuple[str, ...]) -> Denied:
    want = " or ".join(quoted(v) for v in values)
    return Denied("selector-conflict", where=f"nodeSelector {label}", value=value, source=source, want=want)


def _node_affinity(place: Place, label: str, values: tuple[str, ...]) -> Iterator[Edit]:
    """`In` is added to each of the user's required terms, since terms are alternatives.

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity
    """
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    expression = {"key": label, "operator": "In", "values": list(values)}
    path = ("spec", "affinity", "nodeAffinity", required, "nodeSelectorTerms")
    node_affinity = place.spec.affinity and place.spec.affinity.nodeAffinity
    terms = node_affinity and node_affinity.requiredDuringSchedulingIgnoredDuringExecution
    if not terms or not terms.nodeSelectorTerms:
        yield Append(path, {"matchExpressions": [expression]}, key=("matchExpressions",))
        return
    for index, term in enumerate(terms.nodeSelectorTerms):
        if not term.matchExpressions and not term.matchFields:
            continue  # an empty term matches no node; with our expression it would match some
        narrowed = any(
            e.key == label and e.operator == "In" and set(e.values or ()) <= set(values)
            for e in term.matchExpressions or ()
        )
        if not narrowed:
            yield Append((*path, index, "matchExpressions"), expression, key=("key", "operator"))


def tolerations(place: Place, resolution: Resolution) -> Found:
    """Tolerations of the accelerator's taints, where the user has none of that key or of every key."""
    tolerated: list[str | None] = []
    for there in place.spec.tolerations or ():
        if there is None:
            continue
        if not there.key and there.operator == "Exists":
            return ()
        tolerated.append(there.key)
    missing = [key for key in resolution.accelerator.tolerations if key not in tolerated]
    path = ("spec", "tolerations")
    return [Append(path, {"key": key, "operator": "Exists"}, key=("key",)) for key in missing]


def accelerator_annotations(place: Place, resolution: Resolution) -> Found:
    """Annotations that the hardware itself needs (the legacy TPU Node's software version)."""
    wanted = resolution.accelerator.annotations
    if not wanted:
        return ()
    have = place.annotations
    return [Put(("metadata", "annotations", key), value) for key, value in wanted if have.get(key) is None]


def environment(_place: Place, resolution: Resolution) -> Found:
    """MEGASCALE_* and, where the site says so, TPU_*; a variable that is there in any form is the user's."""
    if resolution.slices is None and resolution.worker is None:
        return ()
    found: list[Edit] = []
    for number, holder in enumerate(resolution.holders):
        container = holder.container
        have = {e.name for e in container.env if e is not None and e.name is not None} if container.env else set()
        ours = _megascale(resolution, have)
        if resolution.worker is not None:
            ours += _tpu(resolution, holder, number, have)
        missing = [variable for variable in ours if variable["name"] not in have]
        if missing:
            before = first_user_of(container, [str(variable["name"]) for variable in missing])
            path = (*container_path(holder), "env")
            found += [Append(path, variable, key=("name",), before=before) for variable in missing]
    return found


def _value(name: str, value: str) -> Env:
    return {"name": name, "value": value}


@lru_cache(maxsize=64)
def _field(name: str, path: str) -> Env:
    """Names and paths are our own, so there are few; what is made of them is only ever read."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _megascale(resolution: Resolution, have: set[str]) -> list[Env]:
    """All three or none: JAX fails on a coordinator without the other two.

    Source: https://github.com/jax-ml/jax/blob/main/jax/_src/clusters/cloud_tpu_cluster.py
    """
    slices = resolution.slices
    if slices is None or not have.isdisjoint(MEGASCALE):
        return []
    number, index, coordinator = MEGASCALE
    ours = [_field(number, slices.number), _field(index, slices.index)]
    if slices.coordinator_path:
        return [*ours, _field(coordinator, slices.coordinator_path)]
    needed = [_field(JOBSET_NAME, JOBSET_NAME_PATH)] if JOBSET_NAME in slices.coordinator else []
    return [*needed, *ours, _value(coordinator, slices.coordinator)]


def _tpu(resolution: Resolution, holder: Holder, number: int, have: set[str]) -> Iterator[Env]:
    """The variables that GKE's device plugin and webhook would set, for clusters without them.

    Names and values: https://github.com/ai-on-gke/tpu-device-plugin (pkg/tpu/util/util.go, InitEnvs)
    """
    shape = resolution.accelerator.slice
    if shape is None or resolution.worker is None:
        return
    yield from _worker(resolution, have)
    yield _value("TPU_ACCELERATOR_TYPE", shape.accelerator_type)
    yield _value("TPU_TOPOLOGY", shape.topology)
    host, chips = _bounds(resolution, holder)
    yield _value("TPU_HOST_BOUNDS", host)
    yield _value("TPU_CHIPS_PER_HOST_BOUNDS", chips)
    yield _value("TPU_TOPOLOGY_WRAP", shape.wrap)
    yield _value("TPU_SKIP_MDS_QUERY", "true")
    share = len(shape.ports) // len(resolution.holders)
    ports = shape.ports[number * share : (number + 1) * share]
    yield _value("TPU_RUNTIME_METRICS_PORTS", ",".join(map(str, ports)))


def _bounds(resolution: Resolution, holder: Holder) -> tuple[str, str]:
    """(host bounds, chips per host bounds) as this container sees them: they follow the chips that it asks for."""
    shape = resolution.accelerator.slice
    assert shape is not None
    chips, form = topology.HOST_BOUNDS.get(holder.devices), topology.parse(shape.topology)
    if holder.devices == shape.chips_per_host or chips is None or form is None:
        return shape.host_bounds, shape.chips_per_host_bounds
    hosts = topology.host_bounds(form, holder.devices)
    return topology.bounds(hosts or form), topology.bounds(chips)


def _worker(resolution: Resolution, have: set[str]) -> Iterator[Env]:
    worker, hosts = resolution.worker, resolution.accelerator.hosts
    if worker is None or len(resolution.holders) > 1:
        return  # a divided host is several processes: their ids are the launcher's to give
    if hosts == 1:
        yield _value("TPU_WORKER_ID", "0")
        yield _value("TPU_WORKER_HOSTNAMES", "localhost")
        return
    if not worker.indexed or worker.subdomain is None:
        return
    yield _field("TPU_WORKER_ID", COMPLETION_INDEX)
    if "TPU_WORKER_HOSTNAMES" not in have:
        yield _field(JOB_NAME, "metadata.labels['batch.kubernetes.io/job-name']")
        if JOBSET_NAME in worker.subdomain:
            yield _field(JOBSET_NAME, JOBSET_NAME_PATH)
    names = ",".join(f"$({JOB_NAME})-{i}.{worker.subdomain}" for i in range(hosts))
    yield _value("TPU_WORKER_HOSTNAMES", names)


def network(place: Place, resolution: Resolution) -> Found:
    """Hosts of a slice find each other by name, which the host's own DNS does not know.

    Source: https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy
    """
    spec = place.spec
    if (
        spec.hostNetwork
        and resolution.multi_host
        and resolution.accelerator.slice is not None
        and spec.dnsPolicy in (None, "", "ClusterFirst")
    ):
        return (Put(("spec", "dnsPolicy"), "ClusterFirstWithHostNet"),)
    return ()


def shared_memory(place: Place, resolution: Resolution) -> Found:
    """An in-memory emptyDir at /dev/shm, for each holder that has nothing mounted there."""
    size = resolution.ask.shm or _site_shm(resolution)
    return () if size == "false" else _shared(place, resolution, size)


def _shared(place: Place, resolution: Resolution, size: str) -> Iterator[Edit]:
    bare = [h for h in resolution.holders if not any(m and _is_shm(m) for m in h.container.volumeMounts or ())]
    if not bare:
        return
    if not any(v and v.name == SHM_VOLUME for v in place.spec.volumes or ()):
        directory = {"medium": "Memory"} if size == "true" else {"medium": "Memory", "sizeLimit": size}
        yield Append(("spec", "volumes"), {"name": SHM_VOLUME, "emptyDir": directory}, key=("name",))
    for holder in bare:
        mount = {"name": SHM_VOLUME, "mountPath": SHM}
        yield Append((*container_path(holder), "volumeMounts"), mount, key=("mountPath",))


def _is_shm(mount: VolumeMount) -> bool:
    return (mount.mountPath or "").rstrip("/") == SHM


def _site_shm(resolution: Resolution) -> str:
    """The site's default, in the annotation's words."""
    default = resolution.site.config.shared_memory
    return str(default).lower() if isinstance(default, bool) else default


def privileged(place: Place, resolution: Resolution) -> Found:
    """A privileged container sees all devices of its node, whatever it was given: said once, never changed."""
    if resolution.accelerator.slice is not None or resolution.ask.mode == "host" or place.owned_scheduling:
        return ()  # a whole node is one Pod's anyway; a Pod of a workload was told of when the workload came
    open_ones = [h.container for h in resolution.holders if _is_privileged(h.container)]
    return [Warn("privileged", {"name": container.name}) for container in open_ones]


def _is_privileged(container: Container) -> bool:
    return container.securityContext is not None and bool(container.securityContext.privileged)


def neuron(place: Place, resolution: Resolution) -> Found:
    """A part of a node's Neuron devices must be contiguous, which only AWS's scheduler extension knows.

    Source: https://awsdocs-neuron.readthedocs-hosted.com/en/latest/containers/k8s-neuron-scheduler.html
    """
    hardware = resolution.accelerator
    if hardware.family != "neuron" or place.owned_scheduling:
        return ()
    count = sum(holder.devices for holder in resolution.holders)
    if count not in (1, hardware.count) and resolution.scheduling.name in (None, scheduling.VOLCANO):
        return (Warn("neuron-part", {"count": count}),)
    return ()


def scheduler(place: Place, resolution: Resolution) -> Found:
    """schedulerName and Volcano's queue, as `scheduling` decided them."""
    decided = resolution.scheduling
    return () if decided == scheduling.UNTOUCHED else _scheduled(place, decided)


def _scheduled(place: Place, decided: Scheduling) -> Iterator[Edit | Warn]:
    yield from decided.warnings
    if decided.name is not None:
        yield Put(("spec", "schedulerName"), decided.name)
    if decided.queue is not None and not scheduling.queue_chosen(place.annotations):
        yield Put(("metadata", "annotations", scheduling.QUEUE), decided.queue)


def provenance(place: Place, resolution: Resolution) -> Found:
    """What outer levels said, so that the Pods say it too; and what was injected, for people to read.

    In mode host no resource shows which containers were chosen, and another webhook may yet put one before them.
    """
    have, asked = place.annotations, resolution.ask
    said = [(key, value) for key, value in asked.outer if have.get(key) is None]
    if asked.mode == "host" and not asked.containers:
        said.append((annotations.CONTAINER, ",".join([h.container.name or "" for h in resolution.holders])))
    said.append((annotations.INJECTED, resolution.accelerator.name))
    return [Put(("metadata", "annotations", key), value) for key, value in said]


MUTATORS: Final[tuple[Mutator, ...]] = (
    provenance,
    resources,
    placeholders,
    node_selector,
    tolerations,
    placement,
    accelerator_annotations,
    environment,
    network,
    shared_memory,
    host,
    privileged,
    neuron,
    scheduler,
)
"""In the order in which their edits stand in the patch. Of two edits of one place the first wins."""


def mutate(place: Place, resolution: Resolution) -> Iterator[Edit | Warn]:
    """All edits of one template."""
    for mutator in MUTATORS:
        yield from mutator(place, resolution)
