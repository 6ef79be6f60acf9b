"""How much of a file is read: the bounds of manifests and of site configs.

An API server bounds one object, at 3 MiB; a manifest holds many. What it would take is never refused here, and
memory stays in proportion to what is read: aliases, which make much of little, are counted as often as they are used.
"""

from typing import Final, NamedTuple

MANIFESTS: Final = 128 * 1024 * 1024
"""Bytes of all the files that one command reads."""

CONFIG: Final = 1024 * 1024
"""Bytes of a site config, which is a key of a ConfigMap.

Source: https://kubernetes.io/docs/concepts/configuration/configmap/
"""

LEVELS: Final = 200
"""Collections inside one another. The deepest that is published, JobSet's CustomResourceDefinition, has 38.

Source: https://github.com/kubernetes-sigs/jobset/blob/v0.11.1/config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml
"""


class Expanded(NamedTuple):
    """How much one document may hold, with its aliases written out."""

    values: int
    """Keys and values."""
    characters: int
    """Characters of them together."""


OF_MANIFEST: Final = Expanded(4_000_000, MANIFESTS)
"""A List of ten thousand Pods, as an API server lists them."""

OF_CONFIG: Final = Expanded(250_000, 4 * CONFIG)
"""What `serve` can read beside its calls, in the memory that the chart gives it; a catalogue of 10,000 models fits."""

OF_RESULT: Final = Expanded(2**63, 2**63)
"""What injection makes of a document: there is a bound for what is injected into each of its objects."""
