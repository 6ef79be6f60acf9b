"""A rule: what it injects into a pod template, next to its reasons. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import final

from webhook.core.devices import DeviceContainer
from webhook.core.messages import Warn
from webhook.core.patch import Edit, Path
from webhook.core.resolution import Resolution
from webhook.core.template import PodTemplate

Found = Iterable[Edit | Warn]


def silent(_template: PodTemplate, _resolution: Resolution) -> str:
    """No reason, where none is needed."""
    return ""


@final
@dataclass(frozen=True)
class Rule:
    """One concern. Each rule sees the original template, never another rule's edits.

    `apply` gives edits and warnings, and raises `Denied` if a user's own value conflicts; it writes nothing
    that is already set. Paths are relative to the template: a rule does not know where that is in its object.
    """

    subject: str  # what it is about, for people
    apply: Callable[[PodTemplate, Resolution], Found]
    why: Callable[[PodTemplate, Resolution], str]  # the reason for what it adds
    why_not: Callable[[PodTemplate, Resolution], str] = silent  # why it added nothing


def container_path(device_container: DeviceContainer) -> Path:
    """The path of a container with devices in its template."""
    return ("spec", device_container.list_name, device_container.index)
