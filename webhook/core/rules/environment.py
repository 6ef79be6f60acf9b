"""What a Pod learns of its slice: MEGASCALE_*, TPU_*; and how the names of its hosts are resolved. Pure."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from webhook.core import topology
from webhook.core.devices import DeviceContainer
from webhook.core.patch import Append, Edit, Put
from webhook.core.resolution import JOB_NAME, Resolution
from webhook.core.rules.rule import Found, Rule, container_path
from webhook.core.template import PodTemplate, first_user_of

JOBSET_NAME: Final = "ACCEL_JOBSET_NAME"
JOBSET_NAME_PATH: Final = "metadata.annotations['jobset.sigs.k8s.io/jobset-name']"
MEGASCALE: Final = ("MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID", "MEGASCALE_COORDINATOR_ADDRESS")
COMPLETION_INDEX: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
"""Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode"""

Env = dict[str, object]


def environment(_template: PodTemplate, resolution: Resolution) -> Found:
    """MEGASCALE_* and, where the site says so, TPU_*; a variable that is there in any form is the user's."""
    if resolution.slices is None and resolution.worker is None:
        return ()
    found: list[Edit] = []
    for number, device_container in enumerate(resolution.device_containers):
        container = device_container.container
        have = {e.name for e in container.env if e is not None and e.name is not None} if container.env else set()
        ours = _megascale(resolution, have)
        if resolution.worker is not None:
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


def _tpu(resolution: Resolution, device_container: DeviceContainer, number: int, have: set[str]) -> Iterator[Env]:
    """The variables that GKE's device plugin and webhook would set, for clusters without them.

    Names and values: https://github.com/ai-on-gke/tpu-device-plugin (pkg/tpu/util/util.go, InitEnvs)
    """
    shape = resolution.accelerator.slice
    if shape is None or resolution.worker is None:
        return
    yield from _worker(resolution, have)
    yield _value("TPU_ACCELERATOR_TYPE", shape.accelerator_type)
    yield _value("TPU_TOPOLOGY", shape.topology)
    host, chips = _bounds(resolution, device_container)
    yield _value("TPU_HOST_BOUNDS", host)
    yield _value("TPU_CHIPS_PER_HOST_BOUNDS", chips)
    yield _value("TPU_TOPOLOGY_WRAP", shape.wrap)
    yield _value("TPU_SKIP_MDS_QUERY", "true")
    share = len(shape.ports) // len(resolution.device_containers)
    ports = shape.ports[number * share : (number + 1) * share]
    yield _value("TPU_RUNTIME_METRICS_PORTS", ",".join(map(str, ports)))


def _bounds(resolution: Resolution, device_container: DeviceContainer) -> tuple[str, str]:
    """(host bounds, chips per host bounds) as this container sees them: they follow the chips that it asks for."""
    shape = resolution.accelerator.slice
    assert shape is not None
    chips, form = topology.HOST_BOUNDS.get(device_container.devices), topology.parse(shape.topology)
    if device_container.devices == shape.chips_per_host or chips is None or form is None:
        return shape.host_bounds, shape.chips_per_host_bounds
    hosts = topology.host_bounds(form, device_container.devices)
    return topology.bounds(hosts or form), topology.bounds(chips)


def _worker(resolution: Resolution, have: set[str]) -> Iterator[Env]:
    worker, hosts = resolution.worker, resolution.accelerator.hosts
    if worker is None or len(resolution.device_containers) > 1:
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
    yield _value("TPU_WORKER_HOSTNAMES", worker.hostnames(hosts))


def network(template: PodTemplate, resolution: Resolution) -> Found:
    """Hosts of a slice find each other by name, which the host's own DNS does not know.

    Source: https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy
    """
    spec = template.spec
    if (
        spec.hostNetwork
        and resolution.multi_host
        and resolution.accelerator.slice is not None
        and spec.dnsPolicy in (None, "", "ClusterFirst")
    ):
        return (Put(("spec", "dnsPolicy"), "ClusterFirstWithHostNet"),)
    return ()


def _why(_template: PodTemplate, resolution: Resolution) -> str:
    reasons = []
    if resolution.slices is not None:
        reasons.append("several slices form one job")
    if resolution.worker is not None:
        reasons.append("site config tpu.environment: full")
    return "; ".join(reasons)


def _why_not(_template: PodTemplate, resolution: Resolution) -> str:
    return _missing(resolution) if resolution.accelerator.slice is not None else ""


def _missing(resolution: Resolution) -> str:
    """Why no MEGASCALE_* and no TPU_* variable."""
    hardware, request = resolution.accelerator, resolution.request
    have = {e.name for h in resolution.device_containers for e in h.container.env or () if e is not None}
    if resolution.slices is not None and not have.isdisjoint(MEGASCALE):
        return "MEGASCALE_*: the container has some of them, so all are its own"
    if request.multislice is False:
        return "MEGASCALE_*: accel.io/multislice: false"
    if hardware.slice is not None and not hardware.slice.multislice:
        return f"MEGASCALE_*: {hardware.name} is of a generation without multislice"
    if hardware.hosts == 1:
        return "MEGASCALE_*: slices of one host are no multislice, unless accel.io/multislice says so"
    if resolution.worker is None and resolution.site.config.tpu.environment == "megascale":
        return "MEGASCALE_*: one slice; TPU_*: set by GKE (site config tpu.environment: megascale)"
    if resolution.worker is None:
        return "MEGASCALE_*: one slice; TPU_*: set by its controller"
    return "there already"


def _resolved(_template: PodTemplate, _resolution: Resolution) -> str:
    return "with hostNetwork, the hosts of a slice find each other only through the cluster's DNS"


ENVIRONMENT: Final = Rule("environment", environment, _why, _why_not)
NETWORK: Final = Rule("dnsPolicy", network, _resolved)
