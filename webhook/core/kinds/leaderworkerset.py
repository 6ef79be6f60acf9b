"""LeaderWorkerSet: groups of a leader and its workers; each group, or each subgroup, is one slice. Pure.

LeaderWorkerSet itself sets TPU_WORKER_ID and TPU_WORKER_HOSTNAMES in its Pods, from the chips that the leader and the
workers request, so both templates must request what they get, and sizes must match slices.
Source: https://github.com/kubernetes-sigs/lws/blob/v0.8.0/pkg/utils/accelerators/tpu.go
"""

from collections.abc import Callable, Iterator
from typing import Final, final

import msgspec

from webhook.core import annotations, quantity, scheduling
from webhook.core.catalogue.families import TPU_RESOURCE
from webhook.core.devices import asked_amounts
from webhook.core.kinds.kind import Context, Findings, Kind, Target, Targets, host_names
from webhook.core.messages import Denied, Warn, quoted
from webhook.core.patch import Edit, Path, Put, within
from webhook.core.resolution import stripped_view
from webhook.core.rules.node_pool import CHOICES, LWS_EXCLUSIVE, LWS_SUBGROUP_EXCLUSIVE, POOL_LABELS, node_pool
from webhook.core.rules.nodes import pinned
from webhook.core.scheduling import Scheduling
from webhook.core.schema import leaderworkerset as schema
from webhook.core.schema.leaderworkerset import LEADER_EXCLUDED, NO_GROUP, Group, LeaderWorkerSetSpec, SubGroupPolicy
from webhook.core.schema.pod import NO_METADATA, NO_SPEC, Metadata, Template
from webhook.core.slice_keys import GROUP, SUBGROUP, SliceKeys
from webhook.core.template import LEADER_WORKER_SET, PodTemplate, annotations_of, containers_of

NODE_POOL: Final = POOL_LABELS["gke"]
LEADER_REQUESTS: Final = "leaderworkerset.sigs.k8s.io/leader-requests-tpus"
LEADER, WORKER = "leaderTemplate", "workerTemplate"
ROOT: Final = ("spec", "leaderWorkerTemplate")


def group_of(lws: schema.LeaderWorkerSet) -> Group:
    """What each group is made of."""
    return (lws.spec and lws.spec.leaderWorkerTemplate) or NO_GROUP


def _hosts_hint(lws: schema.LeaderWorkerSet) -> int | None:
    """The Pods of one slice, if the user set a size above the API's default."""
    group = group_of(lws)
    if group.subGroupPolicy is not None:
        number = group.subGroupPolicy.subGroupSize
    else:
        number = group.size and group.size - (0 if _leader_asks(lws) else 1)
    return number if number and number > 1 else None


def _leader_asks(lws: schema.LeaderWorkerSet) -> bool:
    """Whether the leader's annotations and limits, before they are resolved, ask for devices at all."""
    template = group_of(lws).leaderTemplate
    if template is None:
        return True
    levels = [annotations.own(annotations_of(m)) for m in (lws.metadata, template.metadata)]
    type_name, _ = annotations.nearest_level(levels).get(annotations.TYPE, (annotations.NONE, 0))
    held = annotations.placeholders(containers_of(template.spec))
    return bool(held) or type_name.strip().lower() != annotations.NONE or _asks_by_hand(template)


def _asks_by_hand(template: Template) -> bool:
    """Whether any container requests TPU chips; LeaderWorkerSet considers init containers too."""
    for _, _, container in containers_of(template.spec):
        if any(quantity.devices(amount) != 0 for _, amount in asked_amounts(container, TPU_RESOURCE)):
            return True
    return False


def _slice(leader: Target | None, worker: Target | None) -> Target:
    """The workers' target, whose slice the group is; a leader with TPUs is a host of the same slice."""
    if worker is None or not worker.resolution.multi_host:
        assert leader is not None
        hardware = leader.resolution.accelerator
        raise Denied("leader-alone", where=LEADER, value=hardware.name, hosts=hardware.hosts)
    if leader is not None and leader.resolution.accelerator.slice is not None:
        one, other = leader.resolution.accelerator, worker.resolution.accelerator
        if one != other:
            raise Denied("mixed-hosts", where=LEADER, value=leader.described, other=quoted(worker.described))
    return worker


def _leader_holds(lws: schema.LeaderWorkerSet, leader: Target | None) -> bool:
    """Whether the leader is a host of the slice, by injection or by the user's own requests."""
    template = group_of(lws).leaderTemplate
    if template is None or (leader is not None and leader.resolution.accelerator.slice is not None):
        return True
    return _asks_by_hand(template)


def _sizes(group: Group, whole: Target, leader_holds: bool) -> Iterator[Edit]:
    """One slice per group, or per subgroup; and one more Pod if the leader is not a host."""
    hosts, extra = whole.resolution.accelerator.hosts, 0 if leader_holds else 1
    if group.subGroupPolicy is not None:
        yield from _subgroup_sizes(group, group.subGroupPolicy, whole, leader_holds)
    elif group.size in (None, 1):
        yield Put((*ROOT, "size"), hosts + extra)
    elif group.size != hosts + extra:
        raise _wrong_size("size", group.size, whole, leader_holds, f"{hosts + extra}, or leave it out")


def _subgroup_sizes(group: Group, policy: SubGroupPolicy, whole: Target, leader_holds: bool) -> Iterator[Edit]:
    hosts, extra = whole.resolution.accelerator.hosts, 0 if leader_holds else 1
    if policy.subGroupSize is None:
        yield Put((*ROOT, "subGroupPolicy", "subGroupSize"), hosts)
    elif policy.subGroupSize != hosts:
        raise _wrong_size("subGroupPolicy.subGroupSize", policy.subGroupSize, whole, leader_holds, str(hosts))
    if group.leader_excluded and leader_holds:
        valid = "LeaderWorker, or a leader without TPUs"
        raise _wrong_size("subGroupPolicy.subGroupPolicyType", LEADER_EXCLUDED, whole, leader_holds, valid)
    pods = (1 if group.size is None else group.size) - extra
    if pods < hosts or pods % hosts:
        valid = f"a multiple of {hosts}" + (", and 1 for the leader" if extra else "")
        raise _wrong_size("size", 1 if group.size is None else group.size, whole, leader_holds, valid)


def _wrong_size(field: str, value: object, whole: Target, leader_holds: bool, valid: str) -> Denied:
    hardware = whole.resolution.accelerator
    leader = "the leader is one of them" if leader_holds else "the leader has no TPUs"
    where = ".".join((*ROOT, field))
    return Denied(
        "group-size", where=where, value=value, type=hardware.name, hosts=hardware.hosts, leader=leader, valid=valid
    )


def _leader_id(group: Group) -> Iterator[Edit]:
    """A leader in a subgroup is worker -1 unless its own Pod has the annotation that its workers' Pods get.

    Source: https://github.com/kubernetes-sigs/lws/blob/v0.8.0/pkg/utils/accelerators/tpu.go (addTPUVariablesSubGroup)
    """
    if group.subGroupPolicy is None or group.leader_excluded:
        return
    role = WORKER if group.leaderTemplate is None else LEADER
    template = getattr(group, role)
    if not annotations_of(template.metadata).get(LEADER_REQUESTS):
        yield Put((*ROOT, role, "metadata", "annotations", LEADER_REQUESTS), "true")


def _placement(lws: schema.LeaderWorkerSet, targets: Targets, leader_holds: bool, context: Context) -> Findings:
    """LeaderWorkerSet's exclusive placement, if the site config wants it. A leader in a (sub)group pins it to the
    leader's own pool, so it must be a TPU pool. A set that was created with it has it until its type changes.

    Source: https://github.com/kubernetes-sigs/lws/blob/v0.8.0/pkg/controllers/pod_controller.go
    """
    config, wanted = context.site.config, context.stored or context.site.config.placement == "jobset"
    if config.platform != "gke" or not wanted or _placement_chosen(lws, targets):
        return
    group = group_of(lws)
    if not leader_holds and not group.leader_excluded:
        if not context.stored:
            yield Warn("leader-no-pool")
        return
    key = LWS_EXCLUSIVE if group.subGroupPolicy is None else LWS_SUBGROUP_EXCLUSIVE
    yield Put(("metadata", "annotations", key), NODE_POOL)


def _placement_chosen(lws: schema.LeaderWorkerSet, targets: Targets) -> bool:
    """Whether the user, Kueue or Volcano (whose gang would wait for workers that wait for the leader) decides."""
    everywhere = [annotations_of(lws.metadata), *(target.template.annotations for target in targets)]
    if any(a.get(key) for a in everywhere for key in CHOICES):
        return True
    return any(t.resolution.scheduling.volcano or t.resolution.formed or pinned(t.template, NODE_POOL) for t in targets)


def _leader_by_hand(lws: schema.LeaderWorkerSet, leader: Target | None, worker: Target | None) -> Findings:
    """A leader that requests the chips itself is a host of its workers' slice: it belongs in their node pool."""
    template = group_of(lws).leaderTemplate
    if leader is not None or template is None or worker is None or not _asks_by_hand(template):
        return
    place = PodTemplate((*ROOT, LEADER), template, (lws.metadata or NO_METADATA, template.metadata or NO_METADATA))
    for found in node_pool(place, worker.resolution):
        if not isinstance(found, Warn):
            yield from within(place.path, [found])


def _schedulers(lws: schema.LeaderWorkerSet, leader: Target | None, worker: Target | None) -> Iterator[Edit]:
    """A gang is leader and workers, so a leader without devices goes to the workers' scheduler. LeaderWorkerSet's
    own Volcano support takes the queue from the set.

    Source: https://github.com/kubernetes-sigs/lws/blob/v0.8.0/pkg/schedulerprovider/volcano_provider.go
    """
    decided = next((t.resolution.scheduling for t in (worker, leader) if t is not None), scheduling.UNTOUCHED)
    if decided.name in (None, scheduling.DEFAULT):
        return
    template = group_of(lws).leaderTemplate
    if leader is None and template is not None and scheduling.unset((template.spec or NO_SPEC).schedulerName):
        yield Put((*ROOT, LEADER, "spec", "schedulerName"), decided.name)
        yield from _queue(template.metadata, (*ROOT, LEADER, "metadata"), decided, of_set=False)
    yield from _queue(lws.metadata, ("metadata",), decided, of_set=True)


def _queue(metadata: Metadata | None, path: Path, decided: Scheduling, *, of_set: bool) -> Iterator[Edit]:
    """The queue of a scheduler that reads it from Pods, or Volcano's, which is read from the set."""
    key, queue = decided.key, decided.queue
    if key is None or queue is None or key.where == "workload" or decided.volcano != of_set:
        return
    if not scheduling.queue_chosen(metadata, key):
        yield scheduling.queue_edit(path, queue, key)


@final
class LeaderWorkerSet(Kind[schema.LeaderWorkerSet]):
    """A LeaderWorkerSet."""

    group = "leaderworkerset.x-k8s.io"
    kind = "LeaderWorkerSet"
    plural = "leaderworkersets"
    view = schema.LeaderWorkerSet
    pods = ""
    decides_children = True
    reapply = "mutable"
    held_by_kueue = True

    def templates(self, lws: schema.LeaderWorkerSet) -> Iterator[PodTemplate]:
        """leaderTemplate, if there is one (else workerTemplate is also the leader's), and workerTemplate."""
        group = group_of(lws)
        for role in (LEADER, WORKER):
            template = getattr(group, role)
            if template is not None:
                yield PodTemplate(
                    path=(*ROOT, role),
                    view=template,
                    levels=(lws.metadata or NO_METADATA, template.metadata or NO_METADATA),
                    name=role,
                    hosts_hint=_hosts_hint(lws),
                    worker_ids_by=LEADER_WORKER_SET,
                )

    def object_edits(self, lws: schema.LeaderWorkerSet, targets: Targets, context: Context) -> Findings:
        """Sizes, where slices go, and the leader's scheduler."""
        by_role = {target.template.name: target for target in targets}
        leader, worker = by_role.get(LEADER), by_role.get(WORKER)
        holds = _leader_holds(lws, leader)
        yield from _schedulers(lws, leader, worker)
        if any(t.resolution.multi_host for t in targets):
            yield from _sizes(group_of(lws), _slice(leader, worker), holds)
            yield from _placement(lws, targets, holds, context)
            yield from _leader_by_hand(lws, leader, worker)
            yield from host_names(lws.metadata, 0, _slice(leader, worker).resolution.accelerator.hosts - 1)
        if holds and any(t.resolution.accelerator.slice is not None for t in targets):
            yield from _leader_id(group_of(lws))

    def slice_keys(
        self, lws: schema.LeaderWorkerSet, _targets: Targets, _context: Context
    ) -> Callable[[Target], SliceKeys | None]:
        """Each group, or each subgroup, is a slice."""
        keys = GROUP if group_of(lws).subGroupPolicy is None else SUBGROUP
        return lambda _target: keys

    def hints(self, _lws: schema.LeaderWorkerSet) -> tuple[Path, ...]:
        """A size may be a number of hosts, or one more."""
        return ((*ROOT, "size"),)

    def stripped(self, lws: schema.LeaderWorkerSet) -> schema.LeaderWorkerSet:
        """The set without anything that injection writes."""
        group = group_of(lws)
        templates = {
            role: stripped_view(template) for role in (LEADER, WORKER) if (template := getattr(group, role)) is not None
        }
        # With subgroups we never set the size.
        size = None if group.subGroupPolicy is None else group.size
        return schema.LeaderWorkerSet(spec=LeaderWorkerSetSpec(msgspec.structs.replace(group, size=size, **templates)))


LEADERWORKERSET: Final = LeaderWorkerSet()
