"""Which keys and values the API server accepts for labels, annotations, taints and resources. Pure.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
"""

import re
from typing import Final

from webhook.core.messages import quoted

LONGEST_NAME: Final = 63
LONGEST_PREFIX: Final = 253

_NAME: Final = re.compile(r"[A-Za-z0-9]++(?:[-_.]++[A-Za-z0-9]++)*+")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]++(?:-++[a-z0-9]++)*+(?:\.[a-z0-9]++(?:-++[a-z0-9]++)*+)*+")


def is_key(text: str) -> bool:
    """An optional DNS prefix of at most 253 characters and "/", then a name of at most 63."""
    prefix, slash, name = text.rpartition("/")
    return bool(name) and is_value(name) and (not slash or is_subdomain(prefix))


def is_value(text: str) -> bool:
    """Empty, or at most 63 letters, digits, "-", "_" and ".", a letter or digit at both ends."""
    return not text or (len(text) <= LONGEST_NAME and bool(_NAME.fullmatch(text)))


def is_subdomain(text: str) -> bool:
    """At most 253 lower-case letters, digits, "-" and "."."""
    return len(text) <= LONGEST_PREFIX and bool(_SUBDOMAIN.fullmatch(text))


def check_key(text: str, where: str) -> None:
    """Raises `ValueError` about `where` if `text` is not a key."""
    if not is_key(text):
        raise ValueError(f"{where}: {quoted(text)} is not a key, such as example.com/name")


def check_value(text: str, where: str) -> None:
    """Raises `ValueError` about `where` if `text` is not a label value."""
    if not is_value(text):
        raise ValueError(f'{where}: {quoted(text)} is not a label value (at most 63 letters, digits, "-", "_", ".")')
