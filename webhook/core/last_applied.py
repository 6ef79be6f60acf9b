"""The manifest of the last client-side `kubectl apply`, which kubectl keeps in an annotation. Pure."""

from typing import Any, Final

import msgspec

from webhook.core import limits

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Source: https://kubernetes.io/docs/reference/labels-annotations-taints/#kubectl-kubernetes-io-last-applied-configuration"""


def last_applied(text: object) -> Any:
    """The manifest as plain JSON values; None if there is none that can be read."""
    try:
        # An API server does not store longer annotations.
        return msgspec.json.decode(text) if isinstance(text, str) and len(text) <= limits.LIST else None
    except (msgspec.DecodeError, RecursionError):
        return None
