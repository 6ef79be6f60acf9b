"""Kinds that are only validated at admission: Deployment, ReplicaSet, StatefulSet, CronJob. Their Pods or Jobs are
injected.

If a Deployment's ReplicaSet were patched, the Deployment would create ReplicaSets endlessly, so these are patched
only offline, where no Pod admission follows. Pure.
"""

from collections.abc import Callable, Iterator
from typing import Final, final

from webhook.core import slices
from webhook.core.kinds.job import hosts_hint, job_keys, named_hosts, one_slice, with_hosts
from webhook.core.kinds.kind import (
    Context,
    Findings,
    Kind,
    Target,
    Targets,
    host_names,
    inject_key_only,
    unindexed,
    worker_ids,
)
from webhook.core.messages import Denied, Warn
from webhook.core.patch import Path
from webhook.core.schema import apps as schema
from webhook.core.schema.apps import NO_CRON_SPEC, NO_SPEC, App
from webhook.core.schema.job import NO_TEMPLATE
from webhook.core.schema.pod import NO_METADATA
from webhook.core.slice_keys import BY_POD, SliceKeys, ours
from webhook.core.template import NOBODY, PodTemplate, controller_of


class Checked(Kind[App]):
    """What Deployments, ReplicaSets and StatefulSets have in common."""

    group = "apps"
    view = App
    pods: str = "distinct"
    decides_children = False
    child = True
    patched = False
    queued: Path | None = None
    reapply = "judged"

    def templates(self, app: App) -> Iterator[PodTemplate]:
        """spec.template. The object's own annotations are not copied to the Pods."""
        if app.spec is not None and app.spec.template is not None:
            template = app.spec.template
            levels = (inject_key_only(app.metadata), template.metadata or NO_METADATA)
            yield PodTemplate(("spec", "template"), template, levels, worker_ids_by=NOBODY)

    def resolve_group(self, _app: App, targets: Targets, _context: Context) -> Targets:
        """Their Pods have no index that a field can refer to."""
        return unindexed(targets)


class Unindexed(Checked):
    """What Deployments and ReplicaSets have in common: Pods that are all alike."""

    def object_edits(self, _app: App, targets: Targets, _context: Context) -> Findings:
        """Hosts of a slice need an index that survives a restart."""
        for target in targets:
            hardware = target.resolution.accelerator
            if hardware.hosts > 1:
                where, kind = target.resolution.request.where, self.kind
                raise Denied("no-stable-index", where=where, value=hardware.name, hosts=hardware.hosts, kind=kind)
        return ()


@final
class Deployment(Unindexed):
    """A Deployment."""

    kind = "Deployment"
    plural = "deployments"
    pods: str = ""


@final
class ReplicaSet(Unindexed):
    """A ReplicaSet."""

    kind = "ReplicaSet"
    plural = "replicasets"
    pods: str = "alike"

    def judged_before(self, app: App) -> bool:
        """A Deployment's: denying it would stop the rollout of one that is older than our installation."""
        return controller_of(app.metadata) is not None


@final
class StatefulSet(Checked):
    """A StatefulSet."""

    kind = "StatefulSet"
    plural = "statefulsets"

    def resolve_group(self, app: App, targets: Targets, _context: Context) -> Targets:
        """If the Pods are one slice, a Pod's index is its host's."""
        return [_with_hosts(app, target) for target in unindexed(targets)]

    def slice_keys(self, app: App, _targets: Targets, context: Context) -> Callable[[Target], SliceKeys | None]:
        """A Pod's index says its slice, when the Pod is admitted; of a set that is one slice, its name."""
        name, pods = (app.metadata or NO_METADATA).name or "", (app.spec or NO_SPEC).pods
        if not context.offline:
            return lambda _target: BY_POD
        one = ours(slices.nth_slice(f"{context.namespace}.{name}", 0)) if name else None
        return lambda target: one if pods == target.resolution.accelerator.hosts else None

    def object_edits(self, app: App, targets: Targets, _context: Context) -> Findings:
        """A StatefulSet has an index; the user must ensure whole slices of Pods that start together."""
        spec = app.spec or NO_SPEC
        for target in targets:
            hardware = target.resolution.accelerator
            if hardware.hosts == 1:
                continue
            if spec.pods % hardware.hosts:
                yield Warn(
                    "replicas-not-slices", {"replicas": spec.pods, "type": hardware.name, "hosts": hardware.hosts}
                )
            if (start := _start(spec)) % hardware.hosts:
                yield Warn("ordinals-not-slices", {"start": start, "type": hardware.name, "hosts": hardware.hosts})
            if spec.podManagementPolicy != "Parallel":
                yield Warn("not-parallel", {"type": hardware.name})
            yield from host_names(app.metadata, max(spec.pods - 1, 0))
        yield from worker_ids(targets)


def _start(spec: schema.AppSpec) -> int:
    """The first Pod's index."""
    return (spec.ordinals and spec.ordinals.start) or 0


def _with_hosts(app: App, target: Target) -> Target:
    """The target with its host names, if the Pods from index 0 on are exactly the hosts of one slice."""
    spec, name, resolution = app.spec or NO_SPEC, (app.metadata or NO_METADATA).name, target.resolution
    if resolution.worker is None or not name or not spec.serviceName or _start(spec):
        return target
    if not resolution.multi_host or spec.pods != resolution.accelerator.hosts:
        return target
    worker = slices.stateful_worker(name, spec.serviceName)
    return Target(target.template, resolution.with_slices_and_worker(resolution.slices, worker))


MINUTE: Final = "12345678"
"""A CronJob's Jobs are named after their scheduled minute.

Source: https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/controller/cronjob/utils.go
"""


@final
class CronJob(Kind[schema.CronJob]):
    """A CronJob."""

    group = "batch"
    kind = "CronJob"
    plural = "cronjobs"
    view = schema.CronJob
    pods = ""
    decides_children = False
    patched = False
    queued: Path | None = ("spec", "jobTemplate", "metadata")
    reapply = "judged"

    def templates(self, cron: schema.CronJob) -> Iterator[PodTemplate]:
        """spec.jobTemplate.spec.template."""
        job = (cron.spec or NO_CRON_SPEC).jobTemplate
        if job is not None and job.spec is not None and job.spec.template is not None:
            template = job.spec.template
            yield PodTemplate(
                path=("spec", "jobTemplate", "spec", "template"),
                view=template,
                levels=(inject_key_only(cron.metadata), job.metadata or NO_METADATA, template.metadata or NO_METADATA),
                hosts_hint=hosts_hint(job.spec),
            )

    def resolve_group(self, _cron: schema.CronJob, targets: Targets, _context: Context) -> Targets:
        """The hosts of each Job's slice, whose name is not known yet."""
        return [with_hosts(target, None) for target in targets]

    def slice_keys(
        self, cron: schema.CronJob, _targets: Targets, _context: Context
    ) -> Callable[[Target], SliceKeys | None]:
        """Each of its Jobs is a slice."""
        keys = job_keys(((cron.spec or NO_CRON_SPEC).jobTemplate or NO_TEMPLATE).spec)
        return lambda _target: keys

    def object_edits(self, cron: schema.CronJob, targets: Targets, _context: Context) -> Findings:
        """The Job's own fields, as the Job gets them at its admission."""
        job = (cron.spec or NO_CRON_SPEC).jobTemplate or NO_TEMPLATE
        for target in targets:
            yield from one_slice(target, job.metadata, job.spec, ("spec", "jobTemplate"))
            yield from named_hosts(target, cron.metadata, MINUTE)


DEPLOYMENT: Final = Deployment()
REPLICASET: Final = ReplicaSet()
STATEFULSET: Final = StatefulSet()
CRONJOB: Final = CronJob()
