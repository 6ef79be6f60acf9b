"""Which other webhooks change Pods in the labelled namespaces. Pure.

Configurations are called in the order of their names; one with reinvocationPolicy Never does not see what comes
after it. Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#reinvocation-policy
"""

from collections.abc import Iterator

from webhook.check.facts import Configuration, Entry, Facts, Unread
from webhook.check.finding import Finding, ok, skipped, warning

HAMI = "vgpu.hami.io"
HAMI_FIX = "kubectl label namespace NAME hami.io/webhook=ignore, where GPUs must not be shared"
KNOWN = {
    HAMI: "HAMi: takes Pods with a GPU limit to its own scheduler, unless accel.io/scheduler names another",
    "kuberay-tpu-webhook": "KubeRay's TPU webhook: sets TPU_* in Ray's Pods, where we do not",
    "kueue": "Kueue: holds workloads back until their quota is free",
    "jobset": "JobSet: exclusive placement",
    "lws": "LeaderWorkerSet: TPU_* and exclusive placement of its Pods",
}
"""Part of the name of an entry, a Service or a configuration, and what its owner does."""


def others(facts: Facts) -> Finding:
    """Those that affect our injection."""
    found = facts.others
    if isinstance(found, Unread):
        return skipped(found)
    seen = list(_seen(found, facts))
    lines = [f"{c.metadata.name} ({e.name}){_known(c, e)}" for c, e in seen]
    if any(entry.name == HAMI for _, entry in seen):
        return warning("HAMi changes Pods in labelled namespaces too", HAMI_FIX, *lines)
    early = [f"{c.metadata.name} ({e.name})" for c, e in seen if _misses(c, e, facts)]
    if early:
        fix = "Install this release under a name that sorts before theirs: webhooks are called by name."
        message = "Kueue sees Pods before they have their devices, and treats different ones of a group as the same"
        return warning(message, fix, *early)
    if not seen:
        return ok("nothing else changes Pods or Jobs in labelled namespaces")
    return ok(f"{len(seen)} other entries change Pods or Jobs in labelled namespaces", *lines)


def _seen(found: tuple[Configuration, ...], facts: Facts) -> Iterator[tuple[Configuration, Entry]]:
    for configuration in sorted(found, key=lambda c: c.metadata.name):
        for entry in configuration.webhooks or ():
            if not (entry.sends("", "pods", "CREATE") or entry.sends("batch", "jobs", "CREATE")):
                continue
            if any(entry.sees({**n.labels, "kubernetes.io/metadata.name": n.name}) for n in facts.labelled):
                yield configuration, entry


def _names(configuration: Configuration, entry: Entry) -> str:
    service = entry.clientConfig.service
    return f"{configuration.metadata.name} {entry.name} {service.name if service else ''}"


def _known(configuration: Configuration, entry: Entry) -> str:
    names = _names(configuration, entry)
    return next((f": {what}" for part, what in KNOWN.items() if part in names), "")


def _misses(configuration: Configuration, entry: Entry, facts: Facts) -> bool:
    """Whether Kueue's entry for Pods comes before ours and is not called again.

    There it records the role of a Pod in its group, a hash of the Pod's requests; one request per role is counted.
    Everything else it counts later, from stored objects.
    Source: https://github.com/kubernetes-sigs/kueue/blob/v0.17.0/pkg/controller/jobs/pod/pod_webhook.go
    """
    before = configuration.metadata.name < facts.release.fullname and entry.reinvocationPolicy == "Never"
    return before and "kueue" in _names(configuration, entry) and entry.sends("", "pods", "CREATE")
