"""Objects that ask for an accelerator but were not injected. Pure."""

from webhook.check.facts import Asking, Facts, Unread
from webhook.check.finding import Finding, ok, skipped, warning


def injected(facts: Facts) -> Finding:
    """Every template in a labelled namespace that asks for an accelerator has been injected."""
    asking = facts.asking
    fix = (
        "Delete and recreate them: objects from before the label, or that failurePolicy Ignore let pass, are never "
        "changed. kubectl -n NAMESPACE replace --force -f FILE"
    )
    passed = ok(f"{len(asking.items)} templates ask for an accelerator, all are injected", *_limits(asking))
    lines = [_line(a.where, a.refused) for a in asking.items if not a.injected]
    return _judged(facts, lines, "ask for an accelerator and were not injected", fix, passed)


def agreeing(facts: Facts) -> Finding:
    """The fields of injected templates are what their annotations mean.

    An update while no replica answers leaves the old type's fields behind.
    """
    fix = (
        "Apply the file again: kubectl apply -f FILE. What cannot change (Pods, Jobs, JobSets) is created anew: "
        "kubectl -n NAMESPACE replace --force -f FILE"
    )
    passed = ok("what was injected has what its annotations mean")
    lines = [_line(a.where, a.disagrees) for a in facts.asking.items if a.injected and a.disagrees]
    return _judged(facts, lines, "have other fields than their annotations mean", fix, passed)


def _judged(facts: Facts, lines: list[str], problem: str, fix: str, passed: Finding) -> Finding:
    """A warning with `lines`, one per object that has the problem; `passed` if there are none."""
    if isinstance(facts.namespaces, Unread):
        return skipped(facts.namespaces)
    if lines:
        lines = list(dict.fromkeys(lines))
        return warning(f"{len(lines)} objects {problem}", fix, *lines)
    if facts.asking.unread and not facts.asking.items:
        return skipped(facts.asking.unread[0])
    return passed


def _line(where: str, refused: str) -> str:
    return f"{where}: {refused}" if refused else where


def _limits(asking: Asking) -> tuple[str, ...]:
    """What was not checked."""
    unread = [f"not read: {u.needs}" for u in asking.unread]
    return (*unread, *(f"not read: {text}" for text in asking.left_out))
