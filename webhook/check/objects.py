"""Objects that ask for an accelerator but were not injected. Pure."""

from webhook.check.facts import Asking, Facts, Unread
from webhook.check.finding import Finding, ok, skipped, warning


def injected(facts: Facts) -> Finding:
    """Everything that asks in a labelled namespace has been injected."""
    if isinstance(facts.namespaces, Unread):
        return skipped(facts.namespaces)
    asking = facts.asking
    without = list(dict.fromkeys(_line(a.where, a.refused) for a in asking.items if not a.injected))
    if without:
        fix = (
            "Delete and recreate them: objects from before the label, or that failurePolicy Ignore let pass, are never "
            "changed. kubectl -n NAMESPACE replace --force -f FILE"
        )
        return warning(f"{len(without)} objects ask for an accelerator and were not injected", fix, *without)
    if asking.unread and not asking.items:
        return skipped(asking.unread[0])
    return ok(f"{len(asking.items)} templates ask for an accelerator, all are injected", *_limits(asking))


def agreeing(facts: Facts) -> Finding:
    """What was injected has what its words mean: an update that nobody saw leaves the old type's fields behind."""
    if isinstance(facts.namespaces, Unread):
        return skipped(facts.namespaces)
    asking = facts.asking
    differing = list(dict.fromkeys(_line(a.where, a.disagrees) for a in asking.items if a.injected and a.disagrees))
    if differing:
        fix = (
            "Apply the file again: kubectl apply -f FILE. What cannot change (Pods, Jobs, JobSets) is created anew: "
            "kubectl -n NAMESPACE replace --force -f FILE"
        )
        return warning(f"{len(differing)} objects have other fields than their annotations mean", fix, *differing)
    if asking.unread and not asking.items:
        return skipped(asking.unread[0])
    return ok("what was injected has what its annotations mean")


def _line(where: str, refused: str) -> str:
    return f"{where}: {refused}" if refused else where


def _limits(asking: Asking) -> tuple[str, ...]:
    """What was not checked."""
    unread = [f"not read: {u.needs}" for u in asking.unread]
    return (*unread, *(f"not read: {text}" for text in asking.left_out))
