"""What a type means, as plain values and as sentences: for `accel explain` and `accel catalogue`. Pure."""

from typing import Any

from webhook.core.catalogue.accelerator import Accelerator, toleration
from webhook.core.catalogue.catalogue import Catalogue


def facts(hardware: Accelerator, catalogue: Catalogue) -> dict[str, Any]:
    """Everything about a type, as data for programs."""
    found: dict[str, Any] = {
        "name": hardware.name,
        "family": hardware.family,
        "resource": hardware.resource,
        "devicesPerPod": hardware.count,
        "mostPerPod": hardware.max_per_node,
        "pods": hardware.hosts,
        "nodeSelector": {label: list(values) if len(values) > 1 else values[0] for label, values in hardware.selector},
        "tolerations": [toleration(taint) for taint in hardware.tolerations],
        "annotations": dict(hardware.annotations),
        "otherResources": dict(hardware.extras),
    }
    shape = hardware.slice
    if shape is not None:
        found["slice"] = {
            "generation": shape.generation,
            "acceleratorType": shape.accelerator_type,
            "nameCounts": catalogue.counts(hardware),
            "topology": shape.topology,
            "topologies": list(catalogue.shapes(hardware)),
            "chips": shape.chips,
            "chipsPerHost": shape.chips_per_host,
            "otherChipsPerHost": list(hardware.per_host_choices),
            "hosts": shape.hosts,
            "hostBounds": shape.host_bounds,
            "chipsPerHostBounds": shape.chips_per_host_bounds,
            "wrap": shape.wrap,
            "multislice": shape.multislice,
        }
    return found


def sentence(hardware: Accelerator) -> str:
    """The type in one line."""
    shape = hardware.slice
    if shape is None:
        return _devices(hardware)
    size = f"{_plural(shape.chips, 'chip')} as {shape.topology}"
    if hardware.hosts < shape.hosts:
        return f"{size}, reached over the network by one Pod"
    if shape.hosts == 1:
        return f"{size} on one host"
    return f"{size}: {shape.hosts} hosts with {_plural(shape.chips_per_host, 'chip')} each"


def total(hardware: Accelerator, slices: int | None) -> str:
    """What several slices add up to, to be appended to the sentence."""
    shape = hardware.slice
    if shape is None or slices is None or slices < 2:
        return ""
    return f"; {slices} slices, {slices * hardware.hosts} hosts, {slices * shape.chips} chips"


def _devices(hardware: Accelerator) -> str:
    if hardware.count is not None:
        return f"a machine with {hardware.count} x {hardware.resource}"
    return hardware.resource + (
        f", at most {hardware.max_per_node} on one node" if hardware.max_per_node else ", any number"
    )


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def devices(hardware: Accelerator) -> str:
    """What the containers of one Pod request together."""
    if hardware.count is not None:
        return str(hardware.count)
    return f"1 to {hardware.max_per_node}" if hardware.max_per_node else "1 or more"


def selectors(hardware: Accelerator) -> list[str]:
    """The node labels, each with its value or values."""
    return [f"{label}: {' or '.join(values)}" for label, values in hardware.selector]
