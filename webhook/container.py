"""A template's containers: all of them, and what one says of variables. Pure."""

from collections.abc import Iterable, Iterator

from webhook.pod import Container, PodSpec


def containers_of(spec: PodSpec | None) -> Iterator[tuple[str, int, Container]]:
    """Every container with the list it stands in and its index there; `spec.containers` first."""
    if spec is None:
        return
    for index, container in enumerate(spec.containers or ()):
        if container is not None:
            yield "containers", index, container
    for index, container in enumerate(spec.initContainers or ()):
        if container is not None:
            yield "initContainers", index, container


def first_user_of(container: Container, names: Iterable[str]) -> int | None:
    """The index of the first variable that uses one of `names` as $(NAME): those must stand before it.

    Source: https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
    """
    for index, variable in enumerate(container.env or ()):
        value = variable and variable.value
        if value and "$(" in value and any(f"$({name})" in value for name in names):
            return index
    return None
