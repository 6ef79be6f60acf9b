"""What a Pod learns about its slice: MEGASCALE_*, TPU_*; and how the names of its hosts are resolved. Pure."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from webhook.core import slices, topology
from webhook.core.devices import DeviceContainer
from webhook.core.patch import Append, Edit, Put
from webhook.core.resolution import JOB_NAME_VARIABLE, Resolution, Worker
from webhook.core.rules.rule import Found, Rule, container_path
from webhook.core.template import GKE, NOBODY, PodTemplate, first_user_of

JOBSET_NAME_VARIABLE: Final = "ACCEL_JOBSET_NAME"
JOBSET_NAME_PATH: Final = slices.field(slices.JOBSET_NAME)
MEGASCALE: Final = ("MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID", "MEGASCALE_COORDINATOR_ADDRESS")
COORDINATOR_VARIABLE: Final = "ACCEL_COORDINATOR"
MEGASCALE_PORT: Final = 8080
MEGASCALE_DEBUG_PORT: Final = 8090
"""For traffic between slices, and for debugging it. libtpu uses 8080 and 8081 for every process; the processes of one
host count up from these."""
PROCESS_PORT: Final = 8471
"""libtpu's default for traffic within a slice; the processes of one host count up from it.

Source: https://github.com/ai-on-gke/kuberay-tpu-webhook/blob/main/main.go (tpuProcessPortBase)
"""

FULL: Final = "site config tpu.environment: full"
OTHERS: Final = "set by GKE (site config tpu.environment: megascale)"

Env = dict[str, object]


def environment(_template: PodTemplate, resolution: Resolution) -> Found:
    """MEGASCALE_* and, if the site says so, TPU_*; a variable that exists in any form is the user's."""
    if resolution.slices is None and not resolution.full:
        return ()
    found: list[Edit] = []
    for number, device_container in enumerate(resolution.device_containers):
        container = device_container.container
        have = {e.name for e in container.env if e is not None and e.name is not None} if container.env else set()
        ours = _megascale(resolution, have)
        if resolution.full:
            ours += _tpu(resolution, device_container, number, have)
        missing = [variable for variable in ours if variable["name"] not in have]
        if missing:
            before = first_user_of(container, [str(variable["name"]) for variable in missing])
            path = (*container_path(device_container), "env")
            found += [Append(path, variable, key=("name",), before=before) for variable in missing]
    return found


def _value(name: str, value: str) -> Env:
    return {"name": name, "value": value}


@lru_cache(maxsize=64)
def _field(name: str, path: str) -> Env:
    """Cached: names and paths are our own, so there are few, and the results are never modified."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _megascale(resolution: Resolution, have: set[str]) -> list[Env]:
    """All three or none: JAX fails on a coordinator without the other two.

    Source: https://github.com/jax-ml/jax/blob/main/jax/_src/clusters/cloud_tpu_cluster.py
    """
    counted = resolution.slices
    if counted is slices.NO_SLICES and not _is_told_one(resolution):
        return [_value(name, "") for name in (*MEGASCALE, "MEGASCALE_PORT")]
    if not have.isdisjoint(MEGASCALE):
        return []
    number, index, coordinator = MEGASCALE
    if counted is None or counted is slices.NO_SLICES:
        return [_value(number, "1"), _value(index, "0"), _value(coordinator, "")] if _is_told_one(resolution) else []
    ours = [_field(number, counted.number), _field(index, counted.index)]
    divided = resolution.full and len(resolution.device_containers) > 1
    port = f":{MEGASCALE_PORT}" if divided else ""  # libtpu's default is that of the process itself
    if counted.coordinator_path and port:
        return [
            _field(COORDINATOR_VARIABLE, counted.coordinator_path),
            *ours,
            _value(coordinator, f"$({COORDINATOR_VARIABLE}){port}"),
        ]
    if counted.coordinator_path:
        return [*ours, _field(coordinator, counted.coordinator_path)]
    needed = [_field(JOBSET_NAME_VARIABLE, JOBSET_NAME_PATH)] if JOBSET_NAME_VARIABLE in counted.coordinator else []
    return [*needed, *ours, _value(coordinator, counted.coordinator + port)]


def _is_told_one(resolution: Resolution) -> bool:
    """Whether a slice that is a whole job gets these variables: JAX queries a metadata server for unset ones.

    Source: https://github.com/jax-ml/jax/issues/40854
    """
    worker = resolution.worker
    return worker is not None and worker.alone and resolution.site.config.tpu.avoid_metadata_server


def _tpu(resolution: Resolution, device_container: DeviceContainer, number: int, have: set[str]) -> Iterator[Env]:
    """The variables that GKE's device plugin and webhook would set, for clusters without them.

    Names and values: https://github.com/ai-on-gke/tpu-device-plugin (pkg/tpu/util/util.go, InitEnvs)
    """
    shape = resolution.accelerator.slice
    if shape is None:
        return
    if resolution.worker is not None:
        yield from _worker(resolution, resolution.worker, number, have)
    yield _value("TPU_ACCELERATOR_TYPE", shape.accelerator_type)
    yield _value("TPU_TOPOLOGY", shape.topology)
    host, chips = _bounds(resolution, device_container)
    yield _value("TPU_HOST_BOUNDS", host)
    yield _value("TPU_CHIPS_PER_HOST_BOUNDS", chips)
    yield _value("TPU_TOPOLOGY_WRAP", shape.wrap)
    if shape.resilient:
        yield _value("ENABLE_ICI_RESILIENCY", "true")
    yield _value("TPU_SKIP_MDS_QUERY", "true")
    share = len(shape.ports) // len(resolution.device_containers)
    ports = shape.ports[number * share : (number + 1) * share]
    yield _value("TPU_RUNTIME_METRICS_PORTS", ",".join(map(str, ports)))


def _bounds(resolution: Resolution, device_container: DeviceContainer) -> tuple[str, str]:
    """(host bounds, chips per host bounds) as this container sees them: they depend on the chips that it requests."""
    shape = resolution.accelerator.slice
    assert shape is not None
    chips, form = topology.HOST_BOUNDS.get(device_container.devices), topology.parse(shape.topology)
    if device_container.devices == shape.chips_per_host or chips is None or form is None:
        return shape.host_bounds, shape.chips_per_host_bounds
    hosts = topology.host_bounds(form, device_container.devices)
    return topology.bounds(hosts or form), topology.bounds(chips)


def _worker(resolution: Resolution, worker: Worker, process: int, have: set[str]) -> Iterator[Env]:
    """Which of the slice's processes this one is, and the addresses of all: one for each container of a host."""
    hosts, processes = resolution.accelerator.hosts, len(resolution.device_containers)
    if hosts == 1:
        yield _value("TPU_WORKER_ID", str(process))
    elif processes > 1 and worker.number is not None:
        yield _value("TPU_WORKER_ID", str(worker.number * processes + process))
    elif processes == 1 and worker.index:
        yield _field("TPU_WORKER_ID", worker.index)
    if hosts > 1 and (not worker.index or worker.subdomain is None):
        return
    yield from _addresses(worker, hosts, process, processes, have)
    if processes > 1 and resolution.slices is not None and resolution.slices is not slices.NO_SLICES:
        yield _value("MEGASCALE_PORT", str(MEGASCALE_PORT + process))
        yield _value("MEGASCALE_DEBUG_PORT", str(MEGASCALE_DEBUG_PORT + process))


def _addresses(worker: Worker, hosts: int, process: int, processes: int, have: set[str]) -> Iterator[Env]:
    ours = {"TPU_WORKER_HOSTNAMES": worker.hostnames(hosts, processes)}
    if processes > 1:
        ours["TPU_PROCESS_ADDRESSES"] = worker.addresses(hosts, processes, PROCESS_PORT)
    if hosts > 1 and not have.issuperset(ours):
        text = f"{worker.prefix} {worker.subdomain}"
        if JOB_NAME_VARIABLE in text:
            yield _field(JOB_NAME_VARIABLE, "metadata.labels['batch.kubernetes.io/job-name']")
        if JOBSET_NAME_VARIABLE in text:
            yield _field(JOBSET_NAME_VARIABLE, JOBSET_NAME_PATH)
    for name, value in ours.items():
        yield _value(name, value)
    if processes > 1:
        yield _value("TPU_PROCESS_PORT", str(PROCESS_PORT + process))


def network(template: PodTemplate, resolution: Resolution) -> Found:
    """Hosts of a slice find each other by name, which the host's own DNS does not know.

    Source: https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy
    """
    spec = template.spec
    if (
        spec.hostNetwork
        and (resolution.multi_host or resolution.slices is not None)
        and resolution.accelerator.slice is not None
        and spec.dnsPolicy in (None, "", "ClusterFirst")
    ):
        return (Put(("spec", "dnsPolicy"), "ClusterFirstWithHostNet"),)
    return ()


def _why(template: PodTemplate, resolution: Resolution) -> str:
    reasons = []
    if resolution.slices is slices.NO_SLICES:
        reasons.append("accel.io/multislice: false; GKE would fill in what is unset")
    elif resolution.slices is not None:
        reasons.append("several slices form one job")
    if resolution.full:
        reasons.append(FULL if _set_by_us(resolution) else _place(template, resolution, FULL))
    return "; ".join(reasons)


def _set_by_us(resolution: Resolution) -> bool:
    """Whether we set a host's worker id: nothing else does, and it has an index, or is the only host."""
    worker = resolution.worker
    return worker is not None and bool(worker.index or not resolution.multi_host)


def _place(template: PodTemplate, resolution: Resolution, others: str) -> str:
    """What sets the worker ids, and which `others` set the rest."""
    unset = " and ".join(slices.unset(resolution))
    if not unset:
        return f"TPU_WORKER_*: already set in the container; other TPU_*: {others}"
    if template.worker_ids_by == NOBODY:
        return f"{unset}: set by nothing, so the Pods must do it; other TPU_*: {others}"
    return f"TPU_WORKER_*: set by {template.worker_ids_by}; other TPU_*: {others}"


def _why_not(template: PodTemplate, resolution: Resolution) -> str:
    if resolution.accelerator.slice is None or resolution.placed_only:
        return ""
    if resolution.full:
        return "already set"
    return f"{_no_slices(template, resolution)}; {_no_place(template, resolution)}"


def _no_slices(template: PodTemplate, resolution: Resolution) -> str:
    """Why no MEGASCALE_* variable."""
    hardware = resolution.accelerator
    have = {e.name for h in resolution.device_containers for e in h.container.env or () if e is not None}
    if resolution.slices is not None and have.issuperset(MEGASCALE):
        return "MEGASCALE_*: already set"
    if resolution.slices is not None:
        return "MEGASCALE_*: the container sets some of them, so none are added"
    if resolution.request.multislice is False:
        return "MEGASCALE_*: accel.io/multislice: false"
    if hardware.slice is not None and not hardware.slice.multislice:
        return f"MEGASCALE_*: the generation of {hardware.name} has no multislice"
    if template.worker_ids_by != GKE:
        return "MEGASCALE_*: only a JobSet counts slices"
    if hardware.hosts == 1:
        return "MEGASCALE_*: single-host slices are not multislice, unless accel.io/multislice says so"
    return "MEGASCALE_*: one slice"


def _no_place(template: PodTemplate, resolution: Resolution) -> str:
    """Why no TPU_* variable: what sets them, if the site config leaves them to others."""
    if template.worker_ids_by == GKE or not resolution.multi_host:
        return f"TPU_*: {OTHERS}"
    return _place(template, resolution, OTHERS)


def _resolved(_template: PodTemplate, _resolution: Resolution) -> str:
    return "with hostNetwork, the hosts of a slice find each other only through the cluster's DNS"


ENVIRONMENT: Final = Rule("environment", environment, _why, _why_not)
NETWORK: Final = Rule("dnsPolicy", network, _resolved)
