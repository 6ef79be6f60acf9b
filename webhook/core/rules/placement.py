"""`accel.io/placement`: the admin's sets of node labels, tolerations, annotations and resources. Pure.

The user names sets, the site config says what is in them and who may use them. The user's own values on the template
win: an equal value is left alone, a different annotation or resource is kept, a different node label is denied.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from webhook.core.annotations import PLACEMENT
from webhook.core.catalogue import accelerator
from webhook.core.catalogue.catalogue import TOPOLOGY_LABEL
from webhook.core.catalogue.tpu import listed
from webhook.core.devices import asked_amounts
from webhook.core.messages import Denied, Warn, quoted
from webhook.core.patch import Append, Edit, Put
from webhook.core.resolution import Resolution
from webhook.core.rules.nodes import check_affinity
from webhook.core.rules.rule import Rule
from webhook.core.schema.pod import Container, Toleration
from webhook.core.schema.site import Placement
from webhook.core.template import PodTemplate

RUNTIME_CLASS: Final = ("spec", "runtimeClassName")
"""The user's own wins. Where it is not the node's default runtime, a Pod gets its GPU counted and sees none.

Source: https://docs.k3s.io/advanced#nvidia-container-runtime
"""


def placement(template: PodTemplate, resolution: Resolution) -> Iterable[Edit | Warn]:
    """Every named set, in the order of their names in the annotation."""
    return _placed(template, resolution) if resolution.request.placements else ()


def _placed(template: PodTemplate, resolution: Resolution) -> Iterator[Edit | Warn]:
    chosen = list(_chosen(template, resolution))
    yield from _node_selector(template, resolution, chosen)
    yield from _tolerations(template, resolution, [t for _, found in chosen for t in found.tolerations])
    for name, found in chosen:
        for key, value in found.annotations.items():
            if template.annotations.get(key) is None:
                yield Put(("metadata", "annotations", key), value)
        yield from _resources(template, resolution, name, found)
    wanted = _runtime_class(chosen)
    if wanted and not template.spec.runtimeClassName:
        yield Put(RUNTIME_CLASS, wanted)


def runtime_class(template: PodTemplate, resolution: Resolution) -> str:
    """The RuntimeClass that a placement brings; empty where none does."""
    return _runtime_class(_chosen(template, resolution)) if resolution.request.placements else ""


def _runtime_class(chosen: Iterable[tuple[str, Placement]]) -> str:
    return next((found.runtime_class_name for _, found in chosen if found.runtime_class_name), "")


def _chosen(template: PodTemplate, resolution: Resolution) -> Iterator[tuple[str, Placement]]:
    """The named sets that the namespace may use; a name is only ever looked up, never a pattern or a path.

    A stored object was allowed them when it was created: it gets nothing new. So was the workload of a Pod: denying
    the Pod because the site has changed would stop the workload at its next restart.
    """
    known = resolution.stored or template.of_workload
    site, namespace = resolution.site, resolution.namespace
    usable = site.placement_names(namespace)
    for name in resolution.request.placements:
        found = site.config.placements.get(name)
        if found is not None and (name in usable or resolution.stored):
            yield name, found
        elif not known:
            code = "unknown-placement" if found is None else "namespace-not-allowed"
            valid = listed(usable) or "none is defined for this namespace"
            raise Denied(code, value=name, namespace=quoted(namespace), valid=valid)


def _node_selector(
    template: PodTemplate, resolution: Resolution, chosen: Iterable[tuple[str, Placement]]
) -> Iterator[Edit]:
    have = {label: value for label, value in (template.spec.nodeSelector or {}).items() if value is not None}
    needed = {label: ("the type", values) for label, values in _needed(resolution).items()}
    for name, found in chosen:
        if not resolution.stored:
            labels = {label: (value,) for label, value in found.node_selector.items()}
            check_affinity(template, f"{PLACEMENT} {quoted(name)}", labels)
        for label, value in found.node_selector.items():
            if have.get(label, value) != value and not resolution.stored:
                where, source = f"nodeSelector {label}", f"{PLACEMENT} {quoted(name)}"
                raise Denied("selector-conflict", where=where, value=have[label], source=source, want=quoted(value))
            who, values = needed.setdefault(label, (f"placement {quoted(name)}", (value,)))
            if value not in values:
                want = " or ".join(map(quoted, values))
                raise Denied("placement-conflict", value=name, label=label, sets=quoted(value), who=who, want=want)
            if label not in have:
                yield Put(("spec", "nodeSelector", label), value)


def _needed(resolution: Resolution) -> dict[str, tuple[str, ...]]:
    """The labels of the accelerator's own nodes, with their acceptable values."""
    labels = dict(resolution.accelerator.selector)
    if resolution.formed:
        labels.pop(TOPOLOGY_LABEL, None)
    return labels


def _tolerations(template: PodTemplate, resolution: Resolution, wanted: Iterable[Any]) -> Iterator[Edit]:
    """What is not tolerated yet: neither by the user, nor by the accelerator's own tolerations."""
    have = [t for t in template.spec.tolerations or () if t is not None]
    have += [Toleration(**accelerator.toleration(taint)) for taint in resolution.accelerator.tolerations]
    for toleration in wanted:
        item = msgspec.to_builtins(toleration)
        if not any(covers(there, item) for there in have):
            yield Append(("spec", "tolerations"), item, key=("key", "operator", "value", "effect"))


def covers(there: Toleration, wanted: dict[str, Any]) -> bool:
    """Whether everything that `wanted` tolerates is already tolerated.

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#concepts
    """
    if there.effect and there.effect != wanted.get("effect"):
        return False
    operator = there.operator or "Equal"
    if not there.key:
        return operator == "Exists"
    if there.key != wanted.get("key"):
        return False
    same = operator == wanted.get("operator", "Equal") and (there.value or "") == wanted.get("value", "")
    return operator == "Exists" or same


def _resources(template: PodTemplate, resolution: Resolution, name: str, found: Placement) -> Iterator[Edit | Warn]:
    """Requests and limits of each container with devices; a container that sets either keeps its own."""
    for device_container in resolution.device_containers:
        for resource, amount in found.resources.items():
            if asked_amounts(device_container.container, resource):
                continue
            if resource.startswith(HUGEPAGES) and not _has_cpu_or_memory(device_container.container):
                yield from _alone(template, resolution, device_container.container, name, resource)
            for part in ("limits", "requests"):
                yield Put(
                    ("spec", device_container.list_name, device_container.index, "resources", part, resource),
                    str(amount),
                )


HUGEPAGES: Final = "hugepages-"


def _has_cpu_or_memory(container: Container) -> bool:
    return any(asked_amounts(container, resource) for resource in ("cpu", "memory"))


def _alone(
    template: PodTemplate, resolution: Resolution, container: Container, name: str, resource: str
) -> Iterator[Warn]:
    """The API server refuses hugepages on a container without either; a LimitRange may yet give a template's Pods some.

    Source: https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/apis/core/validation/validation.go
    (ValidateResourceRequirements)
    """
    if template.path or resolution.stored:
        yield Warn("hugepages-alone", {"name": container.name, "resource": resource})
        return
    where = f"container {quoted(container.name)}"
    raise Denied("hugepages-alone", where=where, value=name, resource=resource)


def _why(_template: PodTemplate, resolution: Resolution) -> str:
    return " and ".join(f"site config placements.{name}" for name in resolution.request.placements)


def _why_not(_template: PodTemplate, resolution: Resolution) -> str:
    return "already set" if resolution.request.placements else ""


PLACEMENT_RULE: Final = Rule("accel.io/placement", placement, _why, _why_not)
