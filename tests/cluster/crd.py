"""CustomResourceDefinitions of kinds whose controllers are not there."""

from typing import Any

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
"""A schema that every object fits."""


def crd(api_version: str, kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The definition of a kind that is served in one version, with this schema."""
    group, version = api_version.split("/")
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
