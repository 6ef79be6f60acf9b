"""Which hardware family a resource, or an annotation, requests. Pure."""

from collections.abc import Iterable
from typing import Final, final

from webhook.core.schema.catalogue import AnyEntry, Devices, Tpu

TPU: Final = "tpu"
TPU_RESOURCE: Final = "google.com/tpu"


@final
class Families:
    """The resources and annotations that request the catalogue's hardware, with their families."""

    def __init__(self, entries: Iterable[AnyEntry]) -> None:
        self._resources: dict[str, str] = {TPU_RESOURCE: TPU}
        self._prefixes: dict[str, list[tuple[str, str]]] = {}  # by domain: few prefixes share one
        self.annotations: dict[str, str] = {}
        for entry in entries:
            if isinstance(entry, Tpu):
                self._add(TPU, (entry.legacy_resource, *entry.other_resources))
            elif isinstance(entry, Devices):
                parts = (entry.mig.resource + "*",) if entry.mig else ()
                self._add(entry.family, (entry.resource, *parts, *entry.other_resources))
                self.annotations.update(dict.fromkeys(entry.other_annotations, entry.family))

    def _add(self, family: str, patterns: Iterable[str]) -> None:
        for pattern in patterns:
            if pattern.endswith("*"):
                self._prefixes.setdefault(pattern.partition("/")[0], []).append((pattern[:-1], family))
            elif pattern:
                self._resources[pattern] = family

    def of_resource(self, resource: str) -> str:
        """The family; empty if the resource is not in the catalogue."""
        domain, slash, _ = resource.partition("/")
        if not slash:
            return ""
        found = self._resources.get(resource)
        if found is not None:
            return found
        for prefix, family in self._prefixes.get(domain, ()):
            if resource.startswith(prefix):
                return family
        return ""
