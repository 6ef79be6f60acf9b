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


class Limits(NamedTuple):
    """How much one document may hold."""

    values: int
    """Keys and values, those that aliases stand for included."""
    aliased_values: int
    """Those that aliases stand for: each alias counts with all that it brings."""
    aliased_characters: int
    """Characters of what aliases stand for."""


ALIASED_TIMES: Final = 100
"""As many times what a document has of its own its aliases may stand for, once it is more than a little."""

FEW_VALUES, FEW_CHARACTERS = 1000, 3 * 1024 * 1024
"""A little: kubectl asks no questions below the one, and the other is the largest object that an API server takes."""

OF_MANIFEST: Final = Limits(values=4_000_000, aliased_values=1_200_000, aliased_characters=32 * 1024 * 1024)
"""A List of ten thousand Pods, as an API server lists them; and never less by aliases than kubectl reads.

Source: https://github.com/kubernetes-sigs/yaml/blob/742f5e6f/goyaml.v2/decode.go (allowedAliasRatio)
"""

OF_CONFIG: Final = Limits(values=250_000, aliased_values=100_000, aliased_characters=4 * CONFIG)
"""What `serve` can read beside its calls, in the memory that the chart gives it; a catalogue of 10,000 models fits."""

OF_RESULT: Final = Limits(2**63, 2**63, 2**63)
"""What injection makes of a document: there is a bound for what is injected into each of its objects."""
