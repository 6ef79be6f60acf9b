"""Every kind that we know, by API group and kind. A new kind is one entry here and one case folder. Pure."""

from webhook.kinds.apps import CRONJOB, DEPLOYMENT, REPLICASET, STATEFULSET
from webhook.kinds.job import JOB
from webhook.kinds.jobset import JOBSET
from webhook.kinds.pod import POD
from webhook.kinds.workload import Workload

WORKLOADS: dict[tuple[str, str], Workload] = {
    (workload.group, workload.kind): workload
    for workload in (
        POD,
        JOB,
        JOBSET,
        CRONJOB,
        DEPLOYMENT,
        STATEFULSET,
        REPLICASET,
    )
}
