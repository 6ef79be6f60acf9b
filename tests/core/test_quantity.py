"""Kubernetes quantities as numbers."""

from decimal import Decimal

import pytest

from webhook.core.quantity import devices, parse


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4", 4),
        (4, 4),
        (0, 0),
        ("64Gi", 64 * 2**30),
        ("1k", 1000),
        ("1500m", Decimal("1.5")),
        ("1e3", 1000),
        ("+.5", Decimal("0.5")),
        ("-1", -1),
    ],
)
def test_parse(text: object, number: object) -> None:
    """All the spellings that the API server takes."""
    assert number == parse(text)


@pytest.mark.parametrize("text", ["", "four", "4 ", "4GI", "0x4", True, None, "1e9999", "٤", "--1", "1e", "1e3Gi"])
def test_parse_of_no_quantity(text: object) -> None:
    """What is no quantity is no number, and no exception."""
    assert parse(text) is None


@pytest.mark.parametrize(
    ("text", "count"), [("8", 8), (8, 8), ("8000m", 8), ("0.5", None), ("500m", None), ("x", None)]
)
def test_devices_are_whole(text: object, count: int | None) -> None:
    """A device cannot be divided."""
    assert count == devices(text)
