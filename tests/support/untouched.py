"""Which fields of an object injection may change; all others must stay as they were."""

import re
from collections.abc import Iterator
from typing import Any

_TEMPLATE = r"(/spec/.*template|/spec/.*Template|)"
_CONTAINER = _TEMPLATE + r"/spec/(containers|initContainers)/\d+"
OWNED = tuple(
    re.compile(pattern)
    for pattern in (
        r".*/metadata/annotations/.*",
        _TEMPLATE + r"/spec/nodeSelector/.*",
        _TEMPLATE + r"/spec/(tolerations|volumes)/\+",
        _TEMPLATE + r"/spec/tolerations/-",
        _TEMPLATE + r"/spec/affinity/nodeAffinity/required.*",
        _TEMPLATE + r"/spec/affinity/pod(Anti)?Affinity/.*\+",
        _TEMPLATE + r"/metadata/labels/accel\.io~1.*",
        _TEMPLATE + r"/metadata/labels/(kai\.scheduler|yunikorn\.apache\.org|kueue\.x-k8s\.io)~1queue.*",
        _TEMPLATE + r"/metadata/labels/quota\.scheduling\.koordinator\.sh~1name",
        r"/spec/jobTemplate/metadata/labels/kueue\.x-k8s\.io~1queue-name",
        _TEMPLATE + r"/spec/(schedulerName|dnsPolicy|runtimeClassName)",
        _CONTAINER + r"/resources/(limits|requests)/.*",
        _CONTAINER + r"/(env|volumeMounts)/\+",
        _CONTAINER + r"/env/LD_LIBRARY_PATH",
        _CONTAINER + r"/securityContext/privileged",
        r"(/spec/replicatedJobs/\d+/template|/spec/jobTemplate|)/spec/(parallelism|completions|completionMode)",
        r"/spec/replicatedJobs/\d+/groupName",
        r"/spec/leaderWorkerTemplate/size",
        r"/spec/(schedulerName|queue|minAvailable|minSuccess)",
        r"/spec/tasks/\d+/minAvailable",
        r"/spec/.*workerGroupSpecs/\d+/numOfHosts",
    )
)
_GROWING = frozenset(
    {
        "tolerations",
        "volumes",
        "env",
        "volumeMounts",
        "matchExpressions",
        "requiredDuringSchedulingIgnoredDuringExecution",
    }
)
"""Lists to which we add items. In all others, each item must stay unchanged at its index."""


def strangers(before: Any, after: Any, stored: Any = None) -> list[str]:
    """Paths that differ although we may not change them. Lists of named items are compared item by item.

    `stored`: on an update, the stored object. Its values may be restored, and may be removed where the new object still
    has them, since they may have been injected.
    """
    changed = [path for path in _changes(before, after, "") if not any(p.fullmatch(path) for p in OWNED)]
    return [path for path in changed if _at(stored, path) is None or not _was_stored(path, before, after, stored)]


def _was_stored(path: str, before: Any, after: Any, stored: Any) -> bool:
    """Whether the stored value was restored, or was removed, which we may do since it may have been injected."""
    return _at(stored, path) in (_at(before, path), _at(after, path))


def _at(value: Any, path: str) -> Any:
    """The value at a path of `_changes`; for a list that lost an item, the whole list."""
    for step in path.partition(": lost ")[0].split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            value = value[int(key)] if key.isdecimal() and int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def _changes(before: Any, after: Any, path: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            step = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
            if key not in before or (before[key] is None and isinstance(after.get(key), dict | list)):
                yield from _added(after[key], step)
            elif key not in after:
                yield step
            else:
                yield from _changes(before[key], after[key], step)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _list_changes(before, after, path)
    elif before != after or type(before) is not type(after):
        yield path


def _added(value: Any, path: str) -> Iterator[str]:
    """The leaves of a new value, so that a new parent is checked by its contents."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _added(inner, f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list) and value:
        yield f"{path}/+"
    else:
        yield path


def _list_changes(before: list[Any], after: list[Any], path: str) -> Iterator[str]:
    """Injected items may be anywhere; the user's stay, in order (except for the placeholder's toleration)."""
    if path.rpartition("/")[2] not in _GROWING:
        for index in range(max(len(before), len(after))):
            step = f"{path}/{index}"
            if index < len(before) and index < len(after):
                yield from _changes(before[index], after[index], step)
            else:
                yield step
        return
    rest = iter(enumerate(after))
    for old in before:
        if path.endswith("/tolerations") and str((old or {}).get("key", "")).startswith("accel.io/"):
            yield f"{path}/-"
            continue
        for _, new in rest:
            if new == old or (_same_name(old, new) and new.get("name") == "LD_LIBRARY_PATH"):
                break
            yield f"{path}/+"
        else:
            yield f"{path}: lost {old!r}"
            return
    for _ in rest:
        yield f"{path}/+"


def _same_name(old: Any, new: Any) -> bool:
    return isinstance(old, dict) and isinstance(new, dict) and old.get("name") == new.get("name")
