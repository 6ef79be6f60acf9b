"""Kinds that are checked at admission: Deployment, ReplicaSet, StatefulSet, CronJob. Their Pods or Jobs are injected.

Patching a Deployment's ReplicaSet makes the Deployment create ReplicaSets without end, so these are patched
only offline, where no Pod admission follows. Pure.
"""

from collections.abc import Callable, Iterator
from typing import Final

from webhook.kinds.job import hosts_hint, one_slice, with_hosts
from webhook.kinds.workload import Findings, Setting, Targets, Workload, apart, unindexed
from webhook.messages import Denied, Warn
from webhook.metadata import controller_of
from webhook.pod import NO_METADATA
from webhook.resolution import Place
from webhook.views.apps import NO_CRON_SPEC, App, CronJob
from webhook.views.job import NO_TEMPLATE


def places(app: App) -> Iterator[Place]:
    """spec.template. Of the object's own annotations nothing is carried to the Pods."""
    if app.spec is not None and app.spec.template is not None:
        template = app.spec.template
        yield Place(("spec", "template"), template, (apart(app.metadata), template.metadata or NO_METADATA))


def cron_places(cron: CronJob) -> Iterator[Place]:
    """spec.jobTemplate.spec.template."""
    job = (cron.spec or NO_CRON_SPEC).jobTemplate
    if job is not None and job.spec is not None and job.spec.template is not None:
        template = job.spec.template
        yield Place(
            path=("spec", "jobTemplate", "spec", "template"),
            template=template,
            levels=(apart(cron.metadata), job.metadata or NO_METADATA, template.metadata or NO_METADATA),
            hosts_hint=hosts_hint(job.spec),
        )


def skipped(app: App) -> str | None:
    """What another object controls was checked there, or its Pods will be injected."""
    return None if controller_of(app.metadata) is None else "owned"


def no_index(kind: str) -> Callable[[App, Targets, Setting], Findings]:
    """The findings of a kind whose Pods have no index."""

    def findings(_app: App, targets: Targets, _setting: Setting) -> Findings:
        """Hosts of a slice need an index that survives a restart."""
        for target in targets:
            hardware = target.resolution.accelerator
            if hardware.hosts > 1:
                where = target.resolution.ask.where
                raise Denied("no-stable-index", where=where, value=hardware.name, hosts=hardware.hosts, kind=kind)
        return ()

    return findings


def ordered(app: App, targets: Targets, _setting: Setting) -> Findings:
    """A StatefulSet has an index; whole slices of Pods that start together are the user's to see to."""
    for target in targets:
        hardware = target.resolution.accelerator
        if hardware.hosts == 1 or app.spec is None:
            continue
        replicas = 1 if app.spec.replicas is None else app.spec.replicas
        if replicas % hardware.hosts:
            yield Warn("replicas-not-slices", {"replicas": replicas, "type": hardware.name, "hosts": hardware.hosts})
        if app.spec.podManagementPolicy != "Parallel":
            yield Warn("not-parallel", {"type": hardware.name})


def cron_findings(cron: CronJob, targets: Targets, _setting: Setting) -> Findings:
    """The Job's own fields, as the Job will get them at its admission."""
    job = (cron.spec or NO_CRON_SPEC).jobTemplate or NO_TEMPLATE
    for target in targets:
        yield from one_slice(target, job.metadata, job.spec, ("spec", "jobTemplate"))


def cron_facts(_cron: CronJob, targets: Targets, _setting: Setting) -> Targets:
    """The hosts of each Job's slice, whose name is not known yet."""
    return [with_hosts(target, None) for target in targets]


DEPLOYMENT: Final = Workload(
    group="apps",
    kind="Deployment",
    plural="deployments",
    view=App,
    places=places,
    facts=unindexed,
    skipped=skipped,
    findings=no_index("Deployment"),
    patched=False,
)
REPLICASET: Final = Workload(
    group="apps",
    kind="ReplicaSet",
    plural="replicasets",
    view=App,
    places=places,
    facts=unindexed,
    skipped=skipped,
    findings=no_index("ReplicaSet"),
    patched=False,
)
STATEFULSET: Final = Workload(
    group="apps",
    kind="StatefulSet",
    plural="statefulsets",
    view=App,
    places=places,
    facts=unindexed,
    skipped=skipped,
    findings=ordered,
    patched=False,
)
CRONJOB: Final = Workload(
    group="batch",
    kind="CronJob",
    plural="cronjobs",
    view=CronJob,
    places=cron_places,
    facts=cron_facts,
    findings=cron_findings,
    patched=False,
)
