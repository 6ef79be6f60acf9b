"""The file that kubectl's client-side apply sent last, which it keeps in an annotation of the object. Pure."""

from typing import Any, Final

import msgspec

from webhook.core import limits

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Source: https://kubernetes.io/docs/reference/labels-annotations-taints/#kubectl-kubernetes-io-last-applied-configuration"""


def last_applied(text: object) -> Any:
    """The file as plain JSON values; None where it is not known."""
    try:
        # A longer one is no annotation that an API server stores.
        return msgspec.json.decode(text) if isinstance(text, str) and len(text) <= limits.LIST else None
    except (msgspec.DecodeError, RecursionError):
        return None
