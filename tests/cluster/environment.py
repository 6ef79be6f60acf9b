"""A container's environment as its kubelet would make it: fieldRefs looked up, $(NAME) expanded in order.

Source: https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
"""

import re
from collections.abc import Mapping
from typing import Any

_FIELD = re.compile(r"metadata\.(annotations|labels)\['([^']+)'\]")
_USE = re.compile(r"\$(\$|\(([^)]+)\))")


def environment(pod: Mapping[str, Any], container: int = 0) -> dict[str, str]:
    """Name -> value."""
    found: dict[str, str] = {}
    for variable in pod["spec"]["containers"][container].get("env", []):
        source = variable.get("valueFrom")
        found[variable["name"]] = _expanded(variable.get("value", ""), found) if source is None else _field(pod, source)
    return found


def _field(pod: Mapping[str, Any], source: Mapping[str, Any]) -> str:
    path = source["fieldRef"]["fieldPath"]
    match = _FIELD.fullmatch(path)
    if match is None:
        raise AssertionError(f"the tests know no field {path}")
    value: str = pod["metadata"].get(match[1], {}).get(match[2], "")
    return value


def _expanded(text: str, known: Mapping[str, str]) -> str:
    """$(NAME) of a variable before it; others, and $$, stay as kubelet leaves them."""
    return _USE.sub(lambda m: "$" if m[1] == "$" else known.get(m[2], m[0]), text)
