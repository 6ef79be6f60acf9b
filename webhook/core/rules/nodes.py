"""The nodes that have the accelerator: selector, affinity, tolerations. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from webhook.core import annotations
from webhook.core.catalogue.accelerator import toleration
from webhook.core.devices import runs_beside
from webhook.core.messages import Denied, Warn, quoted
from webhook.core.patch import Append, Edit, Put
from webhook.core.resolution import DEVICES_PER_NODE, Resolution, devices_per_node
from webhook.core.rules.rule import Found, Rule
from webhook.core.schema.pod import Expression, NodeSelectorTerm, Toleration
from webhook.core.template import PodTemplate

TPU_TOPOLOGY: Final = "cloud.google.com/gke-tpu-topology"


def node_selector(template: PodTemplate, resolution: Resolution) -> Found:
    """The labels of the nodes that have the accelerator; several acceptable values become a node affinity."""
    have, hardware = template.spec.nodeSelector or {}, resolution.accelerator
    found: list[Edit | Warn] = []
    if not hardware.pinned and not template.of_workload:
        platform = resolution.site.config.platform
        found.append(Warn("not-pinned", {"type": hardware.name, "platform": platform, "resource": hardware.resource}))
    wanted = {k: v for k, v in hardware.selector if not (k == TPU_TOPOLOGY and resolution.formed)}
    if not resolution.stored and (template.spec.affinity is not None or have):
        check_affinity(template, f"{annotations.TYPE} {hardware.name}", wanted | _number(resolution))
        _check_number(template, resolution)
    for label, values in wanted.items():
        value = have.get(label)
        if value is None:
            found += _pin(template, label, values)
        elif value not in values and not resolution.stored:
            raise _conflict(f"nodeSelector {label}", value, f"{annotations.TYPE} {hardware.name}", values)
    return found


def _number(resolution: Resolution) -> dict[str, tuple[str, ...]]:
    """The label with the number of a node's devices, where the type says it."""
    hardware = resolution.accelerator
    if hardware.slice is None or not hardware.selector or resolution.site.config.platform != "gke":
        return {}
    return {DEVICES_PER_NODE: (str(hardware.slice.chips_per_host),)}


def _check_number(template: PodTemplate, resolution: Resolution) -> None:
    """Raises `Denied` if the user selects nodes with another number of chips, or with fewer GPUs than the Pod needs."""
    number = devices_per_node(template)
    if number is None or resolution.site.config.platform != "gke":
        return
    where, source = f"nodeSelector {DEVICES_PER_NODE}", f"{annotations.TYPE} {resolution.accelerator.name}"
    for values in _number(resolution).values():
        if str(number) not in values:
            raise _conflict(where, str(number), source, values)
    together = sum(h.devices for h in resolution.device_containers if runs_beside(h.list_name, h.container))
    if number < together:
        raise Denied("selector-conflict", where=where, value=number, source=source, want=f'"{together}" or more')


def _pin(template: PodTemplate, label: str, values: tuple[str, ...]) -> Iterable[Edit]:
    if len(values) == 1:
        return (Put(("spec", "nodeSelector", label), values[0]),)
    return _node_affinity(template, label, values)


def _conflict(where: str, value: str, source: str, values: tuple[str, ...]) -> Denied:
    want = " or ".join(quoted(v) for v in values)
    return Denied("selector-conflict", where=where, value=value, source=source, want=want)


def _node_affinity(template: PodTemplate, label: str, values: tuple[str, ...]) -> Iterator[Edit]:
    """`In` is added to each of the user's required terms, since terms are alternatives.

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity
    """
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    expression = {"key": label, "operator": "In", "values": list(values)}
    path = ("spec", "affinity", "nodeAffinity", required, "nodeSelectorTerms")
    terms = required_terms(template)
    if not terms:
        yield Append(path, {"matchExpressions": [expression]}, key=("matchExpressions",))
        return
    for index, term in enumerate(terms):
        if not term.matchExpressions and not term.matchFields:
            continue  # an empty term matches no node; with our expression it would match some
        narrowed = any(
            e.key == label and e.operator == "In" and set(e.values or ()) <= set(values)
            for e in term.matchExpressions or ()
        )
        if not narrowed:
            yield Append((*path, index, "matchExpressions"), expression, key=("key", "operator"))


def required_terms(template: PodTemplate) -> Sequence[NodeSelectorTerm]:
    """The user's required node affinity: alternatives, each of them a conjunction."""
    node_affinity = template.spec.affinity and template.spec.affinity.nodeAffinity
    required = node_affinity and node_affinity.requiredDuringSchedulingIgnoredDuringExecution
    return (required and required.nodeSelectorTerms) or ()


def pinned(template: PodTemplate, label: str) -> bool:
    """Whether the user chose the nodes by this label: by selector, or in every term of the required affinity."""
    terms = required_terms(template)
    by_affinity = bool(terms) and all(
        any(e.key == label and e.operator == "In" for e in term.matchExpressions or ()) for term in terms
    )
    return by_affinity or label in (template.spec.nodeSelector or {})


def check_affinity(template: PodTemplate, source: str, wanted: Mapping[str, tuple[str, ...]]) -> None:
    """Raises `Denied` if no term of the required affinity allows a node with these labels.

    An empty term matches no node.
    """
    first: tuple[Expression, tuple[str, ...]] | None = None
    for term in required_terms(template):
        against = next((e for e in term.matchExpressions or () if _excludes(e, wanted.get(e.key or "", ()))), None)
        if against is None and (term.matchExpressions or term.matchFields):
            return
        if against is not None and first is None:
            first = (against, wanted[against.key or ""])
    if first is not None:
        expression, values = first
        required = f"{expression.operator} {', '.join((expression.values or ())[:8])}"
        raise _conflict(f"nodeAffinity {expression.key}", required.strip(), source, values)


def _excludes(expression: Expression, values: tuple[str, ...]) -> bool:
    """Whether an expression on a label excludes all values that a node of the accelerator has there."""
    if not values:
        return False
    if expression.operator == "In":
        return not set(values).intersection(expression.values or ())
    if expression.operator == "NotIn":
        return set(values).issubset(expression.values or ())
    return expression.operator == "DoesNotExist"


def tolerations(template: PodTemplate, resolution: Resolution) -> Found:
    """Tolerations of the accelerator's taints, where the user's own do not tolerate them."""
    have = [there for there in template.spec.tolerations or () if there is not None]
    known = KNOWN_VALUES.get(resolution.site.config.platform)
    missing = [toleration(taint) for taint in resolution.accelerator.tolerations]
    if have:
        missing = [item for item in missing if not any(_tolerates(there, item, known) for there in have)]
    return [Append(("spec", "tolerations"), item, key=("key",)) for item in missing]


KNOWN_VALUES: Final = {"gke": "present"}
"""The value of the taints that a platform gives its accelerators' nodes.

Source: https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus (nvidia.com/gpu=present:NoSchedule)
"""


def _tolerates(there: Toleration, ours: Mapping[str, str], known: str | None) -> bool:
    """Whether the user's toleration covers a taint that keeps Pods from being scheduled: with any value, or its own.

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#concepts
    """
    if there.effect not in (None, "", ours.get("effect") or "NoSchedule"):
        return False
    if there.operator == "Exists":
        return not there.key or there.key == ours["key"]
    value = ours.get("value", known)
    return there.key == ours["key"] and there.operator in (None, "", "Equal") and (there.value or "") == value


def _why(_template: PodTemplate, resolution: Resolution) -> str:
    hardware, platform = resolution.accelerator, resolution.site.config.platform
    form = f" (site config {hardware.form})" if hardware.form else ""
    return f"nodes with {hardware.name}, by the labels of platform {platform}{form}"


def _why_not(_template: PodTemplate, resolution: Resolution) -> str:
    hardware, platform = resolution.accelerator, resolution.site.config.platform
    if not hardware.selector and platform == "none":
        return "site config platform: none"
    if not hardware.selector:
        return f"{hardware.name} runs on any node with {hardware.resource}, on platform {platform}"
    return "already set" + (", or the slice is formed for the Pods" if resolution.formed else "")


def _taint(_template: PodTemplate, _resolution: Resolution) -> str:
    return "the taint of such nodes"


def _no_taint(_template: PodTemplate, resolution: Resolution) -> str:
    return "already set" if resolution.accelerator.tolerations else "no taint is known on such nodes"


NODE_SELECTOR: Final = Rule("nodeSelector", node_selector, _why, _why_not)
TOLERATIONS: Final = Rule("tolerations", tolerations, _taint, _no_taint)
