"""The rules, in the order of their edits in the patch. Of two edits of one place the first wins. Pure."""

from collections.abc import Iterator
from typing import Final

from webhook.core.messages import Warn
from webhook.core.patch import Edit
from webhook.core.resolution import Resolution
from webhook.core.rules.annotations import ACCELERATOR_ANNOTATIONS, PROVENANCE
from webhook.core.rules.environment import ENVIRONMENT, NETWORK
from webhook.core.rules.host import HOST
from webhook.core.rules.memory import SHARED_MEMORY
from webhook.core.rules.node_pool import NODE_POOL
from webhook.core.rules.nodes import NODE_SELECTOR, TOLERATIONS
from webhook.core.rules.placement import PLACEMENT_RULE
from webhook.core.rules.resources import PLACEHOLDERS, PRIVILEGED, RESOURCES
from webhook.core.rules.rule import Rule
from webhook.core.rules.scheduler import NEURON, SCHEDULER
from webhook.core.template import PodTemplate

RULES: Final[tuple[Rule, ...]] = (
    PROVENANCE,
    RESOURCES,
    PLACEHOLDERS,
    NODE_SELECTOR,
    TOLERATIONS,
    NODE_POOL,
    PLACEMENT_RULE,
    ACCELERATOR_ANNOTATIONS,
    ENVIRONMENT,
    NETWORK,
    SHARED_MEMORY,
    HOST,
    PRIVILEGED,
    NEURON,
    SCHEDULER,
)


def apply_rules(template: PodTemplate, resolution: Resolution) -> Iterator[Edit | Warn]:
    """All edits and warnings of one template."""
    for rule in RULES:
        yield from rule.apply(template, resolution)
