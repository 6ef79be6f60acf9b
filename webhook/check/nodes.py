"""Nodes for every type in use: labels and allocatable devices. Pure.

Taints, free capacity and affinities are left to the scheduler; a node that is found here may still be full.
"""

from collections.abc import Iterator

from webhook.check.facts import Asked, Facts, Node, Nodes, Unread
from webhook.check.finding import Finding, ok, skipped, warning
from webhook.core.catalogue.accelerator import Accelerator
from webhook.core.quantity import devices


def capacity(facts: Facts) -> Finding:
    """Each type in use has the nodes of one slice."""
    found = facts.nodes
    if isinstance(found, Unread):
        return skipped(found)
    wanted = list(_wanted(facts))
    if not wanted:
        return ok(f"no type is in use yet; {len(found.items)} nodes")
    lines = [(_line(hardware, count, found), _short(hardware, count, found)) for hardware, count in wanted]
    if not any(short for _, short in lines):
        return ok("every type in use has nodes", *(text for text, _ in lines))
    message = "some types in use lack nodes now" + ("" if found.complete else f" among the first {len(found.items)}")
    fix = "Nothing to do if an autoscaler adds such nodes; otherwise add a node pool with the labels below."
    return warning(message, fix, *(text for text, short in lines if short))


def _wanted(facts: Facts) -> Iterator[tuple[Accelerator, int]]:
    """The types in use, each with the largest number of devices that one Pod needs."""
    largest: dict[str, Asked] = {}
    for asked in facts.asking.items:
        if asked.hardware is None:
            continue
        key = f"{asked.hardware.name} {asked.hardware.selector}"
        if key not in largest or asked.devices > largest[key].devices:
            largest[key] = asked
    yield from ((asked.hardware, asked.devices) for asked in largest.values() if asked.hardware is not None)


def serving(hardware: Accelerator, count: int, nodes: Nodes) -> list[Node]:
    """The nodes that can run a Pod of this type: schedulable, labelled, with that many devices."""
    return [node for node in nodes.items if node.open and _fits(node, hardware, count)]


def _fits(node: Node, hardware: Accelerator, count: int) -> bool:
    labels = node.metadata.labels or {}
    if not all(labels.get(key) in values for key, values in hardware.selector):
        return False
    return (devices((node.status.allocatable or {}).get(hardware.resource, 0)) or 0) >= count


def _short(hardware: Accelerator, count: int, nodes: Nodes) -> bool:
    return len(serving(hardware, count, nodes)) < hardware.hosts


def _line(hardware: Accelerator, count: int, nodes: Nodes) -> str:
    labels = ", ".join(f"{key}={'|'.join(values)}" for key, values in hardware.selector) or "any label"
    needs = f"{hardware.resource}: {count}" if count else "no device resource"
    return f"{hardware.name}: {len(serving(hardware, count, nodes))} of {hardware.hosts} nodes ({labels}; {needs})"
