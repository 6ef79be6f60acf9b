"""The webhook's messages to users: denials and warnings, as two tables.

A denial's code identifies it: as metric label, log field and anchor in docs/troubleshooting.md.
This module builds sentences; it decides nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, final

from webhook.errors import UserError, printable

LONGEST_VALUE: Final = 64
"""Characters of a user's own text in a message; the rest is cut off."""

LONGEST_PLACE: Final = 96
"""Characters of the name of an object's part before a denial: a fixed word, and a name in quotes."""

LONGEST_WARNING: Final = 120
"""Characters of one warning, prefix included. The API server truncates or drops longer ones.

Source: https://github.com/kubernetes/apiserver/blob/v0.37.2/pkg/endpoints/filters/warning.go
"""

DOCUMENTED: Final = "docs/troubleshooting.md"

DENIALS: Final[dict[str, str]] = {
    # type
    "unknown-type": "accel.io/type: {value} is not in the catalogue\nnearest: {nearest}",
    "ambiguous-type": "accel.io/type: {value} matches several accelerators\nchoose one of: {choices}",
    # topology
    "no-default-topology": "accel.io/type: {value} has no default topology\nset accel.io/topology to one of: {shapes}",
    "bad-topology": "{where}: {value} is not a topology of this generation\n"
    "valid: {dimensions} sizes, such as {example}",
    "impossible-topology": "{where}: {value} does not exist on {generation}\nnearest: {shapes}",
    "topology-mismatch": "{where}: {value} has {chips} chips, but the type has {wanted}\nvalid: {shapes}",
    "topology-without-tpu": "accel.io/topology: {value}, but {type} has no topology\nvalid: leave it out",
    # annotations
    "bad-value": "{where}: {value} is not valid\nvalid: {valid}",
    "placeholder-quantity": "{where}: {value} is not valid\nvalid: {valid}",
    "two-types": "{where} asks for {value}, but {other}\nlimits and annotations on one template must agree",
    "too-large": "{where} has {size}\nvalid: at most {limit}",
    "unreadable": "{where} has the wrong type: {value}\nvalid: the type in the kind's schema",
    "annotation-too-high": "{where} does not reach any Pod: it is not on the pod template\nput it at {path}",
    # containers and devices
    "unknown-container": "accel.io/container: no container is named {value}\nvalid: {names}",
    "no-containers": "the template has no container to give {value} to",
    "devices-conflict": "{where} asks for {value} x {resource}, but {type} {gives}\nvalid: {valid}",
    "count-conflict": "accel.io/count: {value} does not fit {type}\nvalid: {valid}",
    "too-many-devices": "{where}: {value} x {resource} is more than one node of {type} has\n"
    "valid: 1 to {limit} per Pod",
    "one-container": "accel.io/container: {value}: the chips of {type} cannot be divided among containers\n"
    "valid: one container (only tpu7x divides them)",
    "uneven-division": "accel.io/container: {value}: {chips} chips of {type} do not divide evenly\n"
    "valid: a number of containers that divides {chips}",
    "host-mode-devices": "{where} asks for {value}, but accel.io/mode: host provides devices without a resource\n"
    "valid: accel.io/mode: plugin, or no such resource",
    "writable-library": "{where} can write to {value}, which the site config provides read-only\n"
    "valid: readOnly: true, or no such mount",
    "mode-not-allowed": "accel.io/mode: {value} is not allowed for {type} in namespace {namespace}\n"
    "valid here: {valid}",
    "part-without-plugin": "accel.io/mode: {value}: the device files of a partition ({type}) differ from node to node\n"
    "valid: accel.io/mode: plugin",
    # placement
    "selector-conflict": "{where}: {value} conflicts with {source}, which needs {want}\nvalid: {want}, or leave it out",
    "namespace-not-allowed": "accel.io/placement: {value} is not allowed in namespace {namespace}\nvalid here: {valid}",
    "unknown-placement": "accel.io/placement: {value} is not defined\nvalid here: {valid}",
    "placement-conflict": "accel.io/placement: {value} sets nodeSelector {label} to {sets}, but {who} needs {want}\n"
    "choose another placement",
    # schedulers
    "scheduler-not-allowed": "accel.io/scheduler: {value} is not allowed\nvalid: {valid}",
    # workloads
    "hosts-conflict": "{where}: {value}, but {type} has {hosts} hosts\nvalid: {hosts}, or leave it out",
    "not-indexed": "{where}: {value}, but {type} has {hosts} hosts that need an index each\n"
    "valid: Indexed, or leave it out",
    "job-shrinks": "{where}: {value}: a slice of {type} cannot be smaller than its {hosts} hosts\n"
    "remove the annotation",
    "needs-service": "{where} is not set, and {type} needs its {hosts} hosts to find each other\n"
    "create a headless Service (clusterIP: None, selector {selector}) and set subdomain to its name",
    "no-stable-index": "{where}: {value} has {hosts} hosts, but the Pods of a {kind} have no stable index\n"
    "valid: an Indexed Job, JobSet, LeaderWorkerSet or StatefulSet, or a single-host type",
    "one-pod": "{where}: {value} has {hosts} hosts, but {what} is one Pod\nvalid: a single-host type",
    "one-for-all-tasks": "{where}: {value} in one task and {other} in another: a Job has only one\n"
    "give all tasks the same value",
    "group-size": "{where}: {value}, but {type} has {hosts} hosts ({leader})\nvalid: {valid}",
    "leader-alone": "{where}: {value} has {hosts} hosts, but a leader is one Pod and the workers are not in its slice\n"
    "put accel.io/type on the workerTemplate or on the LeaderWorkerSet, or choose a single-host type",
    "mixed-hosts": "{where}: {value}, but the workers of the same slice are {other}\n"
    "give both the same type and topology, or give the leader accel.io/type: none",
    "mixed-slices": "{where}: {value}, but the group's other slices are {other}\n"
    'give all the same type and topology, or a different groupName, or accel.io/multislice: "false"',
    "depends-on-slice": "{where}: {value} must complete first, but both are slices of one job\n"
    'give them different groupNames, or accel.io/multislice: "false"',
    "uncountable-slices": "{where}: the group {value} has members that are not TPU slices, so they cannot be counted\n"
    'give the TPU replicated jobs a groupName of their own, or accel.io/multislice: "false"',
    "hugepages-alone": "{where}: placement {value} gives it {resource}, and it asks for neither cpu nor memory\n"
    "valid: a request of cpu or memory beside it (the API server refuses hugepages alone), or another placement",
    "one-queue": "accel.io/queue: {value} in one template and {other} in another: the object has one\n"
    "give all templates the same",
    "no-hostnames": "spec.network.enableDNSHostnames: false, but the hosts of {value} find each other by name\n"
    "valid: true, or leave it out",
}
"""code -> at most two lines; `Denied` adds the third. `{value}` is always the user's text, quoted and cut."""

WARNINGS: Final[dict[str, str]] = {
    "unknown-key": "unknown annotation {key}; did you mean {nearest}?",
    "unknown-keys": "and {number} more unknown accel.io/ annotations",
    "no-type": "{key} has no effect without accel.io/type",
    "inject-false-not-pods": "accel.io/inject here does not cover the Pods: put it on the pod template",
    "one-of-hosts": "{type} has {hosts} hosts; this Pod is one of them and gets one host's share",
    "skipped": "left alone: {why}",
    "unknown-kind": "kind {kind} is not known to accel-injector: left alone",
    "scheduler-kept": "schedulerName {name} is kept; accel.io/scheduler {wanted} has no effect",
    "scheduler-kueue": "managed by Kueue: accel.io/scheduler {wanted} has no effect",
    "queue-unused": "accel.io/queue has no effect: the site config knows no queues of {name}",
    "no-subdomain": "no subdomain: the hosts of {type} need a headless Service to find each other",
    "replicas-not-slices": "{replicas} replicas are not a whole number of {type} slices ({hosts} hosts each)",
    "tpu-scheduler-kept": "schedulerName {name} is kept; it must place TPU Pods without waiting for the others",
    "gang-off": "minAvailable is 0: TPU Pods start as nodes become available, without Volcano's gang scheduling",
    "no-worker-ids": "nothing sets {variables} here: the Pods of {type} must do it",
    "leader-no-pool": "the leader has no TPUs, so nothing keeps a slice's workers in one node pool",
    "slices-unlabelled": "no label says which Pods are one slice of {type}: they may land in several node pools",
    "no-pool-label": "{type}: no node-pool label is known on {platform}; see tpu.nodePoolLabel in the site config",
    "ordinals-not-slices": "ordinals.start {start}: slices of {type} are counted from 0, {hosts} hosts each",
    "not-parallel": "podManagementPolicy is not Parallel: the hosts of {type} would wait for each other",
    "privileged": "container {name} is privileged: it sees every device of its node",
    "devices-closed": "container {name}: device files usually cannot be opened without privileged: true",
    "host-path-policy": "hostPath volumes: PodSecurity baseline and restricted refuse this Pod",
    "library-path-kept": "container {name}: LD_LIBRARY_PATH is kept (valueFrom or envFrom); it needs {ours}",
    "old-kept": "{what} cannot change: the stored value is kept; delete and recreate",
    "never-injected": "created without injection, which cannot be added now; delete and recreate",
    "multislice-unused": "accel.io/multislice has no effect: {why}",
    "replicas-are-slices": "{name}: {replicas} replicas are {replicas} slices of {hosts} hosts; one slice: replicas: 1",
    "type-kept": "a changed accelerator reaches the Pods of a {kind} only when it is created again",
    "type-shadowed": "{where}: {near} of an earlier injection wins over {outer} in {place}; remove it there",
    "unread-key": "{key} in {place} has no effect: {why}",
    "own-devices": "no {resource} added: the Pod asks for {names} itself",
    "claims-unknown": '{resource} added beside claim {names}; if it is the devices: accel.io/count: "0"',
    "zero-replaced": "container {name}: {resource}: 0 is replaced by {count}",
    "count-zero-unused": "{key} has no effect: with accel.io/count 0 no container gets devices",
    "not-detected": "no host profile for the devices: {why}",
    "update-not-understood": "left as it was: {why}",
    "not-pinned": "no node label of {type} is known on {platform}: any node with {resource} will do",
    "neuron-part": "{count} Neuron devices or cores need the Neuron scheduler extension to be contiguous",
    "hugepages-alone": "container {name} gets {resource} and has neither cpu nor memory: such Pods are refused",
    "queue-by-hand": "a {kind} itself is never changed: set {key} on it yourself",
    "divided-worker-ids": "TPU_WORKER_ID of containers that divide {type} is set only when each Pod is admitted",
    "min-success": "minSuccess {number}: the Job has {replicas} Pods, and ends by the success of {number}",
    "slices-autoscaled": "{name}: MEGASCALE_NUM_SLICES stays {number} when the autoscaler changes the replicas",
    "launcher-blind": "{name}: its operator hides NVIDIA GPUs from a launcher without runLauncherAsWorker: true",
    "resized": "{field} {number}: {type} has {hosts} hosts, and its programs wait for all of them",
    "long-host-name": "names of Pods and hosts made from {name} have {length} characters; DNS allows {limit}",
    "dotted-host-name": "{name} has a dot, but host names made from it must be single DNS labels",
    "repeated-process-id": "JAX_PROCESS_ID repeats in each slice: without it JAX counts by MEGASCALE_SLICE_ID",
}
"""code -> one sentence, without the prefix."""

FORBIDDEN: Final = frozenset({"namespace-not-allowed", "scheduler-not-allowed", "mode-not-allowed"})
"""Denials that are an admin's policy (403 Forbidden), not a mistake in the object (422 Invalid)."""


def quoted(value: object) -> str:
    """A user's text made safe for one line: printable, at most `LONGEST_VALUE` characters, in double quotes."""
    text = str(value)
    shown = printable(text[:LONGEST_VALUE])
    return f'"{shown}…"' if len(text) > LONGEST_VALUE else f'"{shown}"'


@final
@dataclass(init=False)
class Warn:
    """A warning for the client, by its code."""

    code: str
    facts: Mapping[str, object]

    def __init__(self, code: str, facts: Mapping[str, object] = MappingProxyType({})) -> None:
        self.code = code
        self.facts = facts

    def text(self) -> str:
        """One line, prefixed, at most `LONGEST_WARNING` characters."""
        sentence = "accel.io: " + WARNINGS[self.code].format(**self.facts)
        line = printable(sentence)
        return line if len(line) <= LONGEST_WARNING else line[: LONGEST_WARNING - 1] + "…"


class Denied(UserError):
    """The object cannot be admitted as it is written; `message` says why and what would be valid.

    `value` is quoted here; the other facts are made printable, and callers truncate those that are the user's own text.
    """

    def __init__(self, code: str, *, value: object = "", **facts: object) -> None:
        self.code = code
        self.reason = "Forbidden" if code in FORBIDDEN else "Invalid"
        shown = {name: printable(fact) for name, fact in facts.items()}
        sentence = DENIALS[code].format(value=quoted(value), **shown)
        self.message = f"{sentence}\nsee {DOCUMENTED}#{code}"
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message

    def within(self, name: str) -> "Denied":
        """The same denial, naming the part of the object that it is about."""
        if name:
            self.message = f"{printable(name)[:LONGEST_PLACE]}: {self.message}"
        return self
