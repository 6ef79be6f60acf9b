"""The API server itself. Pure."""

import re

from webhook.check.facts import Facts, Unread
from webhook.check.finding import Finding, failed, ok

OLDEST = (1, 31)
"""The first version that has matchLabelKeys in pod affinity without a feature gate: an older one drops the field in
silence, and then the affinity of one slice is for all slices of the namespace.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#matchlabelkeys
"""


def api_server(facts: Facts) -> Finding:
    """It responds, accepts our credentials, and is new enough."""
    found = facts.version
    if isinstance(found, Unread):
        return _no_answer(found)
    match = re.match(r"v?(\d+)\.(\d+)", found)
    if match is None or (int(match[1]), int(match[2])) >= OLDEST:
        return ok(f"responds, version {found or 'unknown'}")
    needed = ".".join(map(str, OLDEST))
    return failed(
        f"version {found} drops matchLabelKeys of pod affinities", f"Upgrade the cluster to {needed} or newer."
    )


def _no_answer(found: Unread) -> Finding:
    if found.status in (401, 403):
        return failed(f"does not accept your credentials: {found.why}", "Log in again; see kubectl auth whoami")
    fix = "Compare with kubectl version; --kubeconfig and --context choose another cluster."
    return failed(f"cannot be reached: {found.why}", fix)
