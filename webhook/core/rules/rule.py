"""A rule: what it makes true of a pod template, and its reasons, beside each other. Pure."""

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
    """No reason, where nobody would ask for one."""
    return ""


@final
@dataclass(frozen=True)
class Rule:
    """One concern. Each rule sees the template as it came, never another's edits.

    `apply` gives edits and warnings, and raises `Denied` where a user's own value stands in the way; it writes nothing
    that is there already. Paths begin at the template: where that stands in its object is nothing to a rule.
    """

    subject: str  # what it is about, for people
    apply: Callable[[PodTemplate, Resolution], Found]
    why: Callable[[PodTemplate, Resolution], str]  # the reason for what it adds
    why_not: Callable[[PodTemplate, Resolution], str] = silent  # why it added nothing


def container_path(device_container: DeviceContainer) -> Path:
    """Where a container with devices stands in its template."""
    return ("spec", device_container.list_name, device_container.index)
