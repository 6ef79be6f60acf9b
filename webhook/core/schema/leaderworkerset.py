"""The parts of a LeaderWorkerSet that we look at. A typed view, nothing else."""

from webhook.core.schema.pod import Metadata, Name, Number, Template, View

LEADER_EXCLUDED = "LeaderExcluded"
"""The leader is in no subgroup.

Source: https://github.com/kubernetes-sigs/lws/blob/v0.8.0/api/leaderworkerset/v1/leaderworkerset_types.go
"""


class SubGroupPolicy(View, frozen=True, gc=False):
    subGroupPolicyType: Name | None = None
    subGroupSize: Number | None = None


class Group(View, frozen=True, gc=False):
    leaderTemplate: Template | None = None
    workerTemplate: Template | None = None
    size: Number | None = None
    subGroupPolicy: SubGroupPolicy | None = None

    @property
    def leader_excluded(self) -> bool:
        """Whether the leader is outside the subgroups."""
        return self.subGroupPolicy is not None and self.subGroupPolicy.subGroupPolicyType == LEADER_EXCLUDED


class LeaderWorkerSetSpec(View, frozen=True, gc=False):
    leaderWorkerTemplate: Group | None = None


class LeaderWorkerSet(View, frozen=True, gc=False):
    metadata: Metadata | None = None
    spec: LeaderWorkerSetSpec | None = None


NO_GROUP = Group()
