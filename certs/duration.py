"""Durations as people write them: `5s`, `2m`, `168h`, `7d`, `1h30m`. Pure."""

import re
from collections.abc import Iterator
from datetime import timedelta

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_PART = re.compile(r"(?P<number>[0-9]++(?:\.[0-9]++)?+)(?P<unit>[smhd])")


def parse(text: str) -> timedelta:
    """The duration that `text` means. ValueError if it is invalid, or too long for a date."""
    parts = list(_parts(text))
    if not parts or parts[-1].end() != len(text):
        raise ValueError(f"{text!r} is not a duration, such as 30s, 2m, 168h, 7d or 1h30m")
    try:
        return sum((timedelta(**{UNITS[part["unit"]]: float(part["number"])}) for part in parts), timedelta(0))
    except OverflowError:
        raise ValueError(f"{text!r} is too long") from None


def _parts(text: str) -> Iterator[re.Match[str]]:
    """The numbers at the beginning of a text, each with its unit."""
    at = 0
    while part := _PART.match(text, at):
        yield part
        at = part.end()


def spell(duration: timedelta) -> str:
    """The two largest units, as in `6d 23h`; the sign is dropped."""
    seconds = int(abs(duration).total_seconds())
    parts = ((seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
    first = next((place for place, (number, _) in enumerate(parts) if number), 3)
    return " ".join(f"{number}{unit}" for number, unit in parts[first : first + 2] if number) or "0s"
