"""Annotations that are added to the template: from outer levels, what was injected, what the hardware needs. Pure."""

from typing import Final

from webhook.core import annotations
from webhook.core.patch import Put
from webhook.core.resolution import Resolution
from webhook.core.rules.rule import Found, Rule
from webhook.core.template import PodTemplate


def provenance(template: PodTemplate, resolution: Resolution) -> Found:
    """Annotations of outer levels, so that the Pods have them too; and what was injected, for people to read.

    In mode host no resource shows which containers were chosen, and another webhook may still put one before them.
    """
    have, asked = template.annotations, resolution.request
    added = [(key, value) for key, value in asked.outer if have.get(key) is None]
    if asked.mode == "host" and not asked.containers:
        added.append((annotations.CONTAINER, ",".join([h.container.name or "" for h in resolution.device_containers])))
    added.append((annotations.INJECTED, resolution.accelerator.name))
    return [Put(("metadata", "annotations", key), value) for key, value in added]


def accelerator_annotations(template: PodTemplate, resolution: Resolution) -> Found:
    """Annotations that the hardware itself needs (the legacy TPU Node's software version)."""
    wanted = resolution.accelerator.annotations
    if not wanted:
        return ()
    have = template.annotations
    return [Put(("metadata", "annotations", key), value) for key, value in wanted if have.get(key) is None]


def _copied(_template: PodTemplate, _resolution: Resolution) -> str:
    return "copied: Pods inherit annotations only from their template"


def _needed(_template: PodTemplate, _resolution: Resolution) -> str:
    return "site config tpu.legacyVersion"


PROVENANCE: Final = Rule("annotations", provenance, _copied)
ACCELERATOR_ANNOTATIONS: Final = Rule("annotations of the hardware", accelerator_annotations, _needed)
