"""The webhook configuration: does it exist, is it as the chart renders it, who changed it. Pure.

It is checked by what every entry must have, not against a rendering, which would need the values and the permissions
of whoever installed it. Who changed a field comes from the API server's own record, managedFields.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from webhook.check.facts import NAME_LABEL, OPT_IN, OPTED_IN, Configuration, Entry, Facts, Release, Unread
from webhook.check.finding import Finding, failed, ok, pointless, skipped, warning
from webhook.core.kinds.kind import Kind
from webhook.core.kinds.registry import WORKLOADS
from webhook.core.site import Site

ABSENT = "the webhook configuration is missing"
IGNORING = (".reapply.accel.io", "detect.accel.io")
"""Entries for stored objects, or objects without annotations: they never refuse anything."""


def present(facts: Facts) -> Finding:
    """Every entry that the chart renders, as it renders it."""
    found, release = facts.configuration, facts.release
    if isinstance(found, Unread):
        return skipped(found)
    if found is None:
        return _absent(facts)
    problems = tuple(_problems(found, facts))
    if problems:
        message = f"MutatingWebhookConfiguration {release.fullname} is not as the chart renders it"
        return failed(message, _restore(release), *problems)
    entries = found.webhooks or []
    policy = next((e.failurePolicy for e in entries if not e.name.endswith(IGNORING)), "")
    more = [f"another release: {r.name} in {r.namespace}" for r in facts.releases if r != release]
    return ok(f"{len(entries)} entries, failurePolicy {policy} for annotated objects{_meaning(policy)}", *more)


def edits(facts: Facts) -> Finding:
    """Fields of the configuration that were last written by somebody other than its installer."""
    found = facts.configuration
    if isinstance(found, Unread):
        return skipped(found)
    if found is None:
        return pointless(ABSENT)
    written = tuple(_foreign(found))
    if written:
        fix = f"If that was not intended: {_restore(facts.release)}"
        return warning("fields were written by somebody other than the installer", fix, *written)
    return ok("no field was changed since it was installed")


def _absent(facts: Facts) -> Finding:
    release = facts.release
    message = f"there is no MutatingWebhookConfiguration {release.fullname}: nothing is injected"
    others = () if isinstance(facts.others, Unread) else facts.others
    ours = [c for c in others if (c.metadata.labels or {}).get("app.kubernetes.io/name") == "accel-injector"]
    if not ours:
        return failed(message, f"Install the chart: helm upgrade --install {release.name} -n {release.namespace} CHART")
    name = (ours[0].metadata.labels or {}).get("app.kubernetes.io/instance", ours[0].metadata.name)
    space = next((e.clientConfig.service.namespace for e in ours[0].webhooks or () if e.clientConfig.service), "")
    return failed(message, f"Another release exists: accel check --release {name} --namespace {space}")


def _restore(release: Release) -> str:
    return f"helm upgrade {release.name} CHART -n {release.namespace} --reuse-values --force-conflicts"


def _meaning(policy: str) -> str:
    return "" if policy == "Fail" else ": while no replica answers, they are created without their accelerator"


def _problems(configuration: Configuration, facts: Facts) -> Iterator[str]:
    entries = configuration.webhooks or []
    for workload in WORKLOADS.values():
        yield from _missing(entries, workload)
    if isinstance(facts.site, Site) and facts.site.detect and not _named(entries, "detect.accel.io"):
        yield "detect.accel.io is missing, though the site config detects resources"
    asked = [e for e in entries if not e.name.endswith(IGNORING)]
    if len({e.failurePolicy for e in asked}) > 1:
        yield "failurePolicy differs: " + ", ".join(_by_policy(asked))
    for entry in entries:
        yield from (f"{entry.name}: {problem}" for problem in _entry(entry, facts.release))


def _missing(entries: list[Entry], workload: Kind[Any]) -> Iterator[str]:
    end = "pods.accel.io" if workload.kind == "Pod" else ".workloads.accel.io"
    wanted = [(end, "CREATE")] + ([(".reapply.accel.io", "UPDATE")] if workload.reapply else [])
    for name, operation in wanted:
        if not any(e.sends(workload.group, workload.plural, operation) for e in _named(entries, name)):
            resource = ".".join(filter(None, (workload.plural, workload.group)))
            yield f"no entry {name} sends {operation} of {resource}"


def _named(entries: list[Entry], end: str) -> list[Entry]:
    return [entry for entry in entries if entry.name.endswith(end)]


def _by_policy(entries: list[Entry]) -> Iterator[str]:
    counted = Counter(entry.failurePolicy for entry in entries)
    usual = counted.most_common(1)[0][0]
    yield from (f"{e.name} has {e.failurePolicy}" for e in entries if e.failurePolicy != usual)
    yield f"the others {usual}"


def _entry(entry: Entry, release: Release) -> Iterator[str]:
    """What is wrong with one entry."""
    service = entry.clientConfig.service
    if service is None or (service.name, service.namespace) != (release.fullname, release.namespace):
        yield f"does not call Service {release.namespace}/{release.fullname}"
    elif service.path != "/mutate":
        yield f"calls the path {service.path}, not /mutate"
    if entry.name.endswith(IGNORING) and entry.failurePolicy != "Ignore":
        yield f"failurePolicy {entry.failurePolicy} refuses objects without annotations; it must be Ignore"
    if not entry.matchConditions:
        yield "no matchConditions: objects without annotations are sent too"
    if entry.reinvocationPolicy != "IfNeeded":
        yield f"reinvocationPolicy {entry.reinvocationPolicy}: containers that others add later are not injected"
    if entry.matchPolicy != "Equivalent":
        yield f"matchPolicy {entry.matchPolicy}, not Equivalent"
    if entry.sideEffects != "None":
        yield f"sideEffects {entry.sideEffects}, not None"
    if entry.objectSelector and (entry.objectSelector.matchLabels or entry.objectSelector.matchExpressions):
        yield "an objectSelector excludes objects"
    yield from _selection(entry, release)


def _selection(entry: Entry, release: Release) -> Iterator[str]:
    """Which namespaces are selected, tested with the labels that a namespace would have."""
    if entry.sees({NAME_LABEL: "any"}):
        yield f"namespaceSelector does not require {OPT_IN}={OPTED_IN}"
    sent = [name for name in release.never if entry.sees({NAME_LABEL: name, OPT_IN: OPTED_IN})]
    if sent:
        yield f"namespaceSelector does not exclude {', '.join(sent)}"


def _foreign(configuration: Configuration) -> Iterator[str]:
    """`pods.accel.io: failurePolicy, by kubectl-edit`: fields not owned by the main manager of the entries."""
    owners: dict[tuple[str, str], set[str]] = {}
    for record in configuration.metadata.managedFields or ():
        for place in _places(record.get("fieldsV1")):
            owners.setdefault(place, set()).add(str(record.get("manager", "unknown")))
    if not owners:
        return
    installer = Counter(name for names in owners.values() for name in names).most_common(1)[0][0]
    fields: dict[tuple[str, str], set[str]] = {}
    for (entry, path), names in owners.items():
        if installer not in names:
            fields.setdefault((entry, path.partition(".")[0]), set()).update(names)
    for (entry, field), names in sorted(fields.items()):
        yield f"{entry}: {field}, by {', '.join(sorted(names))}"


def _places(fields: Any) -> Iterator[tuple[str, str]]:
    """(entry, field path) of everything that one manager owns, except caBundle, which others own on purpose."""
    entries = fields.get("f:webhooks") if isinstance(fields, dict) else None
    for key, owned in (entries or {}).items():
        if key.startswith("k:") and isinstance(owned, dict):
            name = str(json.loads(key[2:]).get("name", ""))
            yield from ((name, path) for path in _leaves(owned) if path != "clientConfig.caBundle")


def _leaves(fields: dict[str, Any], within: str = "") -> Iterator[str]:
    for key, below in fields.items():
        if key == ".":
            continue
        path = f"{within}.{key.removeprefix('f:')}" if within else key.removeprefix("f:")
        if below:
            yield from _leaves(below, path)
        else:
            yield path
