"""One slice, one node pool: the hosts of a slice share an interconnect, hosts of different node pools do not. Pure.

Two required terms in each pod template of a multi-host type, which every kind and every scheduler with inter-pod
affinity understands. The affinity brings the Pods of one slice together. The anti-affinity keeps slices out of each
other's pools, whatever their kind and namespace: without it two slices that start together could each take a part of
one pool, and wait for the rest of it for ever. The kinds' own exclusive placements (JobSet's, LeaderWorkerSet's) see
only their own kind, so beside each other they have the same flaw.

Namespaces are not selected, for the scheduler would retry a Pod that waits only five minutes after a pool is free:
https://github.com/kubernetes/kubernetes/issues/141953
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from webhook.core.messages import Warn
from webhook.core.patch import Append, Edit, Path, Put
from webhook.core.resolution import Resolution
from webhook.core.rules.rule import Found, Rule
from webhook.core.slice_keys import BY_POD, MULTI_HOST, SLICE, SliceKeys
from webhook.core.template import PodTemplate, annotations_of, labels_of

JOBSET_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
JOBSET_NODE_SELECTOR: Final = "alpha.jobset.sigs.k8s.io/node-selector"
LWS_EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"
LWS_SUBGROUP_EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
KUEUE_TOPOLOGY: Final = (
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/podset-preferred-topology",
    "kueue.x-k8s.io/podset-unconstrained-topology",
    "kueue.x-k8s.io/podset-slice-required-topology",
    "kueue.x-k8s.io/podset-slice-required-topology-constraints",
)
"""Source: https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/"""

CHOICES: Final = (
    *KUEUE_TOPOLOGY,
    JOBSET_EXCLUSIVE,
    JOBSET_NODE_SELECTOR,
    LWS_EXCLUSIVE,
    LWS_SUBGROUP_EXCLUSIVE,
)
"""Annotations by which the user lets someone else choose where slices go."""

_CHOICES: Final = frozenset(CHOICES)

POOL_LABELS: Final = {"gke": "cloud.google.com/gke-nodepool"}
"""The node label whose value the hosts of one slice have in common, for each platform that has one.

Source: https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus (a multi-host node pool is one slice)
"""

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
AFFINITY: Final[Path] = ("spec", "affinity", "podAffinity", REQUIRED)
ANTI_AFFINITY: Final[Path] = ("spec", "affinity", "podAntiAffinity", REQUIRED)
OF_SLICES: Final[dict[str, Any]] = {"matchExpressions": [{"key": MULTI_HOST, "operator": "Exists"}]}
"""All hosts of slices. It also keeps a slice's other Pods out, such as a leader without TPUs, which is elsewhere."""


def pool_label(resolution: Resolution) -> str:
    """The node label of a pool on this cluster; empty if none is known."""
    config = resolution.site.config
    return config.tpu.node_pool_label or POOL_LABELS.get(config.platform, "")


def node_pool(template: PodTemplate, resolution: Resolution) -> Found:
    """The pair of terms and the label, for a host of several. `restored` is for stored objects."""
    if not resolution.multi_host or resolution.placed_only:
        return ()
    if resolution.stored or resolution.site.config.placement != "affinity" or choice(template, resolution):
        return ()
    keys, label = resolution.slice_keys, pool_label(resolution)
    if keys is None or not label:
        return _why_none(resolution, label) if template.path else ()
    return () if keys is BY_POD else _pair(template, label, keys)


def _why_none(resolution: Resolution, label: str) -> Iterator[Warn]:
    name = resolution.accelerator.name
    if label:
        yield Warn("slices-unlabelled", {"type": name})
    else:
        yield Warn("no-pool-label", {"type": name, "platform": resolution.site.config.platform})


def choice(template: PodTemplate, resolution: Resolution) -> str:
    """The user's, the admin's or Kueue's own choice of where slices go; empty if there is none."""
    if resolution.formed:
        return "the slice is formed for its Pods"
    places: list[Mapping[str, str | None]] = [annotations_of(level) for level in template.levels]
    for name in resolution.request.placements:
        placement = resolution.site.config.placements.get(name)
        if placement is not None:
            places.append(placement.annotations)
    for place in places:
        if not _CHOICES.isdisjoint(place):
            found = next((key for key in CHOICES if place.get(key)), None)
            if found is not None:
                return found
    if template.spec.affinity is None or template.spec.affinity.podAffinity is None:
        return ""
    label, keys = pool_label(resolution), resolution.slice_keys
    ours = None if keys is None else _together(label, keys)
    if any(term != ours and term.get("topologyKey") == label for term in _terms(template, anti=False)):
        return f"a podAffinity on {label}"
    return ""


def _terms(template: PodTemplate, *, anti: bool) -> list[dict[str, Any]]:
    """The required terms that the template has."""
    return [term for term in _listed(template, anti=anti) if isinstance(term, dict)]


def _listed(template: PodTemplate, *, anti: bool) -> list[Any]:
    """Their list as it is."""
    affinity = template.spec.affinity
    if affinity is None:
        return []
    found: list[Any] | None = None
    if anti and affinity.podAntiAffinity is not None:
        found = affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution
    elif not anti and affinity.podAffinity is not None:
        found = affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution
    return found or []


def _together(label: str, keys: SliceKeys) -> dict[str, Any]:
    return {"topologyKey": label, "labelSelector": OF_SLICES, "matchLabelKeys": list(keys.same)}


def _apart(label: str, key: str) -> dict[str, Any]:
    """One key a term: a slice is another one if any of them differs."""
    return {"topologyKey": label, "namespaceSelector": {}, "labelSelector": OF_SLICES, "mismatchLabelKeys": [key]}


def _pair(template: PodTemplate, label: str, keys: SliceKeys) -> Iterator[Edit]:
    labels = labels_of(template.view.metadata)
    if labels.multi_host is None:
        yield Put(("metadata", "labels", MULTI_HOST), "true")
    if keys.value and labels.slice != keys.value:  # a copied manifest has another slice's
        yield Put(("metadata", "labels", SLICE), keys.value)
    together = _together(label, keys)
    if together not in _terms(template, anti=False):
        yield Append(AFFINITY, together, key=("topologyKey", "matchLabelKeys"))
    there = _terms(template, anti=True)
    for key in keys.other:
        apart = _apart(label, key)
        if apart not in there:
            yield Append(ANTI_AFFINITY, apart, key=("topologyKey", "mismatchLabelKeys"))


def restored(now: PodTemplate, before: PodTemplate) -> Iterator[Edit]:
    """What a stored template has of this, whatever would be decided today: it cannot change.

    In a Pod's terms the API server has added the values of their label keys.
    """
    labels, had = labels_of(now.view.metadata), labels_of(before.view.metadata)
    if had.multi_host is None:
        return
    if labels.multi_host is None:
        yield Put(("metadata", "labels", MULTI_HOST), had.multi_host)
    if had.slice is not None and labels.slice is None:
        yield Put(("metadata", "labels", SLICE), had.slice)
    for path, field, anti in ((AFFINITY, "matchLabelKeys", False), (ANTI_AFFINITY, "mismatchLabelKeys", True)):
        there = _our_terms(now, field, anti=anti)
        for place, (_, term) in _our_terms(before, field, anti=anti).items():
            if place not in there:
                yield Append(path, term, key=("topologyKey", field))
            elif there[place][1] != term:
                yield Put((*path, there[place][0]), term)


def _our_terms(template: PodTemplate, field: str, *, anti: bool) -> dict[bytes, tuple[int, dict[str, Any]]]:
    """Terms that injection wrote, each with its index, by node label and label keys. No slice has more."""
    found: dict[bytes, tuple[int, dict[str, Any]]] = {}
    for index, term in enumerate(_listed(template, anti=anti)):
        if isinstance(term, dict) and field in term and _selects_slices(term.get("labelSelector")):
            found.setdefault(msgspec.json.encode((term.get("topologyKey"), term[field])), (index, term))
            if len(found) == _MAX_TERMS:
                break
    return found


def _selects_slices(selector: Any) -> bool:
    """Whether a selector is ours. The API server adds expressions to that of a Pod."""
    expressions = selector.get("matchExpressions") if isinstance(selector, dict) else None
    return isinstance(expressions, list) and OF_SLICES["matchExpressions"][0] in expressions[:1]


_MAX_TERMS: Final = 4

_PLACES: Final = frozenset([JOBSET_EXCLUSIVE, LWS_EXCLUSIVE, LWS_SUBGROUP_EXCLUSIVE, MULTI_HOST, SLICE])


def is_placement(edit: Edit) -> bool:
    """Whether an edit is about node pools of slices."""
    if isinstance(edit, Append):
        return "matchLabelKeys" in edit.value or "mismatchLabelKeys" in edit.value
    return edit.path[-1] in _PLACES


def without_placement(edits: Iterable[Edit]) -> list[Edit]:
    """The other edits."""
    return [edit for edit in edits if not is_placement(edit)]


def _why(_template: PodTemplate, resolution: Resolution) -> str:
    written = resolution.site.config.written_placement
    return f"one slice, one node pool, which no other slice shares (site config exclusivePlacement: {written})"


def _why_not(template: PodTemplate, resolution: Resolution) -> str:
    if not resolution.multi_host or resolution.placed_only:
        return ""
    config = resolution.site.config
    if config.placement != "affinity":
        return f"site config exclusivePlacement: {config.written_placement}"
    if chosen := choice(template, resolution):
        return f"chosen otherwise: {chosen}"
    if resolution.slice_keys is BY_POD:
        return "each Pod gets it at its own admission, where its slice is known"
    if not pool_label(resolution):
        return f"no label of node pools is known on platform {config.platform} (site config tpu.nodePoolLabel)"
    return "no label of its Pods says which slice they are in" if resolution.slice_keys is None else "already set"


NODE_POOL: Final = Rule("node pool of a slice", node_pool, _why, _why_not)
