"""All checks, in the order in which they are shown. Pure. A new check is one function and one line here."""

from collections.abc import Callable

import msgspec

from webhook.check import (
    certificates,
    configuration,
    injection,
    injectors,
    namespaces,
    nodes,
    objects,
    replicas,
    server,
)
from webhook.check.facts import Facts
from webhook.check.finding import Finding


class Check(msgspec.Struct, frozen=True):
    """A check's name in the output, which is stable, and its function."""

    name: str
    judge: Callable[[Facts], Finding]


CHECKS = (
    Check("api-server", server.api_server),
    Check("configuration", configuration.present),
    Check("configuration-edits", configuration.edits),
    Check("deployment", replicas.deployment),
    Check("endpoints", replicas.endpoints),
    Check("site-config", replicas.site_config),
    Check("ca-bundle", certificates.ca_bundle),
    Check("expiry", certificates.expiry),
    Check("namespaces", namespaces.labelled),
    Check("dry-run", injection.dry_run),
    Check("objects", objects.injected),
    Check("agreement", objects.agreeing),
    Check("nodes", nodes.capacity),
    Check("injectors", injectors.others),
    Check("pod-security", namespaces.pod_security),
)

Judged = tuple[tuple[str, Finding], ...]


def judge(facts: Facts) -> Judged:
    """Every check's finding, by name; only the first if there is no version: then nothing else was read."""
    checks = CHECKS if isinstance(facts.version, str) else CHECKS[:1]
    return tuple((check.name, check.judge(facts)) for check in checks)
