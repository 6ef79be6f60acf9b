"""Kubernetes quantities: "4", "64Gi", "1500m", 4. Pure.

Grammar: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

import re
from decimal import Decimal, InvalidOperation
from typing import Final

from webhook.core import limits

_SUFFIXES: Final = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_NUMBER: Final = r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)"  # possessive: there is one way to read a number
_QUANTITY: Final = re.compile(rf"({_NUMBER}[eE][+-]?[0-9]{{1,3}})|({_NUMBER})([numkMGTPE]|[KMGTPE]i)?")
"""An exponent or a suffix, not both."""


def parse(quantity: object) -> Decimal | None:
    """The number that a quantity means; None if it is not one, or is unreasonably long."""
    if isinstance(quantity, bool):
        return None
    if isinstance(quantity, int):
        return Decimal(quantity)
    text = str(quantity)
    match = _QUANTITY.fullmatch(text) if len(text) <= limits.QUANTITY else None
    if match is None:
        return None
    try:
        return Decimal(match[1] or match[2]) * _SUFFIXES[match[3] or ""]
    except InvalidOperation:
        return None


def is_positive(quantity: object) -> bool:
    """Whether it is a quantity greater than zero."""
    number = parse(quantity)
    return number is not None and number > 0


def devices(quantity: object) -> int | None:
    """An integer number of devices; None if the quantity is not one (devices cannot be divided).

    Source: https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources
    """
    if type(quantity) is str and quantity.isascii() and quantity.isdecimal() and len(quantity) < 10:
        return int(quantity)  # the usual spelling
    number = parse(quantity)
    if number is None or number != number.to_integral_value():
        return None
    return int(number)
