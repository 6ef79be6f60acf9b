"""A template's containers: all of them, and what one says of variables. Pure."""

from collections.abc import Iterable

from webhook.core.schema.pod import Container, PodSpec

Placed = tuple[str, int, Container]
"""A container, with the list that it stands in and its index there."""


def containers_of(spec: PodSpec | None) -> list[Placed]:
    """Every container, where it stands; `spec.containers` first."""
    placed: list[Placed] = []
    if spec is None:
        return placed
    if spec.containers:
        placed += [("containers", i, c) for i, c in enumerate(spec.containers) if c is not None]
    if spec.initContainers:
        placed += [("initContainers", i, c) for i, c in enumerate(spec.initContainers) if c is not None]
    return placed


def first_user_of(container: Container, names: Iterable[str]) -> int | None:
    """The index of the first variable that uses one of `names` as $(NAME): those must stand before it.

    Source: https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
    """
    for index, variable in enumerate(container.env or ()):
        value = variable and variable.value
        if value and "$(" in value and any(f"$({name})" in value for name in names):
            return index
    return None
