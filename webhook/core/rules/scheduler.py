"""schedulerName and queue, and what a scheduler must know about the hardware. Pure."""

from collections.abc import Iterator
from typing import Final

from webhook.core import scheduling
from webhook.core.catalogue.catalogue import INSTANCE_LABEL
from webhook.core.messages import Warn
from webhook.core.patch import Edit, Put
from webhook.core.resolution import Resolution
from webhook.core.rules.rule import Found, Rule
from webhook.core.scheduling import Scheduling
from webhook.core.template import PodTemplate


def scheduler(template: PodTemplate, resolution: Resolution) -> Found:
    """schedulerName and the queue, as `scheduling` decided them."""
    decided = resolution.scheduling
    return () if decided == scheduling.UNTOUCHED else _scheduled(template, decided)


def _scheduled(template: PodTemplate, decided: Scheduling) -> Iterator[Edit | Warn]:
    yield from decided.warnings
    if decided.name is not None and decided.written:
        yield Put(("spec", "schedulerName"), decided.name)
    key, queue = decided.key, decided.queue
    if key is None or queue is None or key.where == "workload":  # the object itself has that: kinds/queue.py
        return
    if not scheduling.queue_chosen(template.view.metadata, key):
        yield scheduling.queue_edit(("metadata",), queue, key)


def neuron(template: PodTemplate, resolution: Resolution) -> Found:
    """If not all of a node's Neuron devices are used, they must be contiguous, which needs AWS's scheduler extension.

    Source: https://awsdocs-neuron.readthedocs-hosted.com/en/latest/containers/k8s-neuron-scheduler.html
    """
    hardware = resolution.accelerator
    if hardware.family != "neuron" or template.of_workload or resolution.own.names or resolution.placed_only:
        return ()
    count = sum(device_container.devices for device_container in resolution.device_containers)
    if count not in (1, _whole(template, resolution)) and resolution.scheduling.name in (None, scheduling.VOLCANO):
        return (Warn("neuron-part", {"count": count}),)
    return ()


def _whole(template: PodTemplate, resolution: Resolution) -> int:
    """All devices of the machine: the one that is asked for, or that the selector names, else the largest."""
    hardware, named = resolution.accelerator, (template.spec.nodeSelector or {}).get(INSTANCE_LABEL)
    return hardware.count or resolution.site.catalogue.whole_machine(hardware.resource, named)


def _why(_template: PodTemplate, resolution: Resolution) -> str:
    requested = resolution.request.scheduler
    queue = resolution.request.queue
    if requested is None and queue is not None:
        return f"accel.io/queue: {queue}{_where(resolution)}"
    return (f"accel.io/scheduler: {requested}" if requested else "site config schedulers.defaults") + _where(resolution)


def _where(resolution: Resolution) -> str:
    decided = resolution.scheduling
    return f"; {decided.name or scheduling.DEFAULT} reads its queue there" if decided.queue else ""


def _why_not(_template: PodTemplate, resolution: Resolution) -> str:
    asked = resolution.request.scheduler or resolution.request.queue
    if resolution.scheduling.key is not None and resolution.scheduling.key.where == "workload":
        return "the queue is on the object itself"
    return "already set" if asked and not resolution.scheduling.warnings else ""


def _warned(_template: PodTemplate, _resolution: Resolution) -> str:
    return "if not all of a node's Neuron devices are used, they must be contiguous"


SCHEDULER: Final = Rule("schedulerName", scheduler, _why, _why_not)
NEURON: Final = Rule("Neuron devices", neuron, _warned)
