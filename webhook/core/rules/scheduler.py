"""schedulerName and queue, and what a scheduler must know of the hardware. Pure."""

from collections.abc import Iterator
from typing import Final

from webhook.core import scheduling
from webhook.core.messages import Warn
from webhook.core.patch import Edit, Put
from webhook.core.resolution import Resolution
from webhook.core.rules.rule import Found, Rule
from webhook.core.scheduling import Scheduling
from webhook.core.template import Place


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


def _why(_place: Place, resolution: Resolution) -> str:
    said = resolution.ask.scheduler
    return f"accel.io/scheduler: {said}" if said else "site config schedulers.defaults"


def _why_not(_place: Place, resolution: Resolution) -> str:
    asked = resolution.ask.scheduler or resolution.ask.queue
    return "there already" if asked and not resolution.scheduling.warnings else ""


def _warned(_place: Place, _resolution: Resolution) -> str:
    return "a part of a node's Neuron devices must be contiguous"


SCHEDULER: Final = Rule("schedulerName", scheduler, _why, _why_not)
NEURON: Final = Rule("Neuron devices", neuron, _warned)
