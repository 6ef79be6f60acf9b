"""Every kind that we know, by API group and kind. A new kind is one entry here and one case folder. Pure."""

from typing import Any, Final

from webhook.kinds.apps import CRONJOB, DEPLOYMENT, REPLICASET, STATEFULSET
from webhook.kinds.job import JOB
from webhook.kinds.jobset import JOBSET
from webhook.kinds.kubeflow import MPIJOB, PYTORCHJOB, TFJOB
from webhook.kinds.leaderworkerset import LEADERWORKERSET
from webhook.kinds.pod import POD
from webhook.kinds.ray import RAYCLUSTER, RAYJOB, RAYSERVICE
from webhook.kinds.volcano import VOLCANOJOB
from webhook.kinds.workload import Kind

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
