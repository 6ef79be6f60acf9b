"""Whether a stored object is what was sent, except for API defaults."""

from typing import Any

from webhook.core.quantity import parse

GROWING = ("tolerations", "volumes", "volumeMounts", "labelSelector/matchExpressions")
"""Lists to which the API server adds items: default tolerations, the service account's token, the values of a Pod's
own labels for `matchLabelKeys`."""


def missing(expected: Any, stored: Any, path: str = "") -> list[str]:
    """Paths of `expected` that are missing or different in `stored`; additional fields in `stored` are API defaults."""
    if expected in (None, "") or path.rpartition("/")[2] in ("futureField", "newThing", "x", "managedFields"):
        return []  # null and "" count as absent, and the API server drops fields that it does not know
    if isinstance(expected, dict):
        found = stored if isinstance(stored, dict) else {}
        return [p for key, value in expected.items() for p in missing(value, found.get(key), f"{path}/{key}")]
    if isinstance(expected, list):
        return _list(expected, stored if isinstance(stored, list) else [], path)
    return [] if same(expected, stored) else [f"{path}: {expected!r}, stored {stored!r}"]


def _list(expected: list[Any], stored: list[Any], path: str) -> list[str]:
    if path.endswith(GROWING):
        return [f"{path}: lost {e!r}" for e in expected if not any(missing(e, s, "") == [] for s in stored)]
    if len(expected) != len(stored):
        return [f"{path}: {len(expected)} items, stored {len(stored)}"]
    pairs = enumerate(zip(expected, stored, strict=True))
    return [p for index, (e, s) in pairs for p in missing(e, s, f"{path}/{index}")]


def same(expected: Any, stored: Any) -> bool:
    """Whether they are equal, or the same quantity in another notation."""
    return bool(expected == stored or (parse(expected) is not None and parse(expected) == parse(stored)))


def meaning(value: Any) -> Any:
    """A stored value without empty objects, which JobSet's webhook adds on CREATE and no client sends again."""
    if isinstance(value, dict):
        return {key: meaning(inner) for key, inner in value.items() if inner != {}}
    return [meaning(inner) for inner in value] if isinstance(value, list) else value
