"""An injection end to end, as a dry run. Pure."""

from webhook.check.facts import DryRun, Facts, Unread
from webhook.check.finding import Finding, failed, ok, pointless, skipped, warning
from webhook.core.annotations import TYPE

REASONS = (
    (("x509", "tls:", "certificate"), "The check ca-bundle says what to do."),
    (("no endpoints", "connection refused", "not found"), "The checks deployment and endpoints say what to do."),
    (
        ("deadline exceeded", "timeout", "no route"),
        "The control plane cannot reach the Pods: open its firewall to the webhook's port (GKE private clusters), "
        "or set hostNetwork: true (EKS with another network plugin).",
    ),
)
"""Words in the API server's message, and what to do."""


def dry_run(facts: Facts) -> Finding:
    """A Pod that asks for an accelerator comes back with its devices."""
    found = facts.dry_run
    if isinstance(found, Unread):
        return skipped(found)
    if found is None:
        return pointless("needs a labelled namespace")
    asked = f"{TYPE}: {found.type} in {found.namespace}"
    if found.injected and found.limits:
        return ok(f"{asked} came back with {', '.join(f'{key}: {amount}' for key, amount in found.limits)}")
    if found.status == 201:
        fix = "No replica answered and failurePolicy is Ignore, or the entry pods.accel.io is missing or was edited."
        return failed(f"{asked} came back without devices", fix)
    if found.uncalled:
        return failed(f"the API server cannot call the webhook: {found.message}", _fix(found))
    if found.denied:
        return warning(f"the webhook answers, but refuses {asked}: {found.message}", "See docs/troubleshooting.md")
    others = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    fix = f"kubectl -n {found.namespace} get quota,limitrange; kubectl get {others}"
    return warning(f"something else refuses {asked}: {found.message}", fix)


def _fix(found: DryRun) -> str:
    message = found.message.lower()
    return next((fix for words, fix in REASONS if any(word in message for word in words)), REASONS[2][1])
