"""Every known kind, by API group and kind. CONTRIBUTING.md says what a new one needs besides its entry here. Pure."""

from typing import Any, Final

from webhook.core.kinds.apps import CRONJOB, DEPLOYMENT, REPLICASET, STATEFULSET
from webhook.core.kinds.job import JOB
from webhook.core.kinds.jobset import JOBSET
from webhook.core.kinds.kind import Kind
from webhook.core.kinds.kubeflow import MPIJOB, PYTORCHJOB, TFJOB
from webhook.core.kinds.leaderworkerset import LEADERWORKERSET
from webhook.core.kinds.pod import POD
from webhook.core.kinds.ray import RAYCLUSTER, RAYJOB, RAYSERVICE
from webhook.core.kinds.volcano import VOLCANOJOB

WORKLOADS: Final[dict[tuple[str, str], Kind[Any]]] = {
    (workload.group, workload.kind): workload
    for workload in (
        POD,
        JOB,
        JOBSET,
        VOLCANOJOB,
        LEADERWORKERSET,
        RAYCLUSTER,
        RAYJOB,
        RAYSERVICE,
        PYTORCHJOB,
        TFJOB,
        MPIJOB,
        CRONJOB,
        DEPLOYMENT,
        STATEFULSET,
        REPLICASET,
    )
}
