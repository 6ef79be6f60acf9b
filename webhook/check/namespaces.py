"""Which namespaces are injected, and whether their PodSecurity level allows host profiles. Pure."""

from collections.abc import Iterator

from webhook.check.facts import OPT_IN, OPTED_IN, Facts, Unread
from webhook.check.finding import Finding, ok, pointless, skipped, warning
from webhook.core.site import Profile, Site, matches

ENFORCE = "pod-security.kubernetes.io/enforce"
STRICT = ("baseline", "restricted")
"""Levels that refuse hostPath volumes and privileged containers.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""


def labelled(facts: Facts) -> Finding:
    """At least one namespace has opted in, and every label has an effect."""
    found = facts.namespaces
    if isinstance(found, Unread):
        return skipped(found)
    names = [namespace.name for namespace in facts.labelled]
    ineffective = [f"{n.name} is labelled but never injected" for n in found if n.opted_in and n.name in facts.never]
    ineffective += [f'{n.name} has {OPT_IN}="{n.labels[OPT_IN]}", not "{OPTED_IN}"' for n in found if not n.opted_in]
    if ineffective:
        message = f"{len(names)} namespaces are injected; in {len(ineffective)} the label has no effect"
        return warning(message, f"kubectl label namespace NAME {OPT_IN}- (or ={OPTED_IN} --overwrite)", *ineffective)
    if not names:
        return warning(
            "no namespace has opted in: nothing is injected", f"kubectl label namespace NAME {OPT_IN}={OPTED_IN}"
        )
    return ok(f"{len(names)} injected: {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}")


def pod_security(facts: Facts) -> Finding:
    """No namespace may use a host profile whose Pods its PodSecurity level refuses."""
    if isinstance(facts.namespaces, Unread):
        return skipped(facts.namespaces)
    if not isinstance(facts.site, Site):
        return skipped(facts.site) if isinstance(facts.site, Unread) else pointless("there is no site config to read")
    refused = tuple(_refused(facts, facts.site))
    if not refused:
        return ok("no PodSecurity level refuses a host profile")
    fix = f"kubectl label namespace NAME {ENFORCE}=privileged --overwrite, or remove NAME from the profile's namespaces"
    return warning("PodSecurity refuses what a host profile adds", fix, *refused)


def _refused(facts: Facts, site: Site) -> Iterator[str]:
    for namespace in facts.labelled:
        level = namespace.labels.get(ENFORCE, "")
        if level not in STRICT:
            continue
        for profile in site.profiles:
            if _mounts(profile) and matches(namespace.name, profile.namespaces):
                yield f"{namespace.name} enforces {level}; host profile {profile.name} needs {_mounts(profile)}"


def _mounts(profile: Profile) -> str:
    """What Pods with this profile first get from the node; empty if only variables."""
    paths = [d.path for d in (*profile.devices, *profile.optional_devices)] + [p.host_path for p in profile.libraries]
    return paths[0] if paths else ("a privileged container" if profile.privileged else "")
