"""Limits on files: manifests and site configs.

An API server limits one object to 3 MiB; a manifest contains many. What it would accept is never refused here, and
memory stays proportional to what is read: aliases, which expand a little text to a lot, count each time they are used.

The limits of an object are in `core/limits.py`, those of a connection in `server/limits.py`.
"""

from typing import Final, NamedTuple

MANIFESTS: Final = 128 * 1024 * 1024
"""Bytes of all the files that one command reads."""

CONFIG: Final = 1024 * 1024
"""Bytes of a site config, which is a key of a ConfigMap.

Source: https://kubernetes.io/docs/concepts/configuration/configmap/
"""

LEVELS: Final = 200
"""Nested collections. The deepest published manifest, JobSet's CustomResourceDefinition, has 38.

Source: https://github.com/kubernetes-sigs/jobset/blob/v0.11.1/config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml
"""


class Limits(NamedTuple):
    """Limits of one document."""

    values: int
    """Keys and values, including those that aliases stand for."""
    aliased_values: int
    """Those that aliases stand for: each alias counts with all its contents."""
    aliased_characters: int
    """Characters of what aliases stand for."""


ALIASED_TIMES: Final = 100
"""Aliases may stand for this many times what a document contains itself, beyond a small allowance."""

FEW_VALUES, FEW_CHARACTERS = 1000, 3 * 1024 * 1024
"""That allowance: kubectl does not check below the first, and the second is the largest object of an API server."""

OF_MANIFEST: Final = Limits(values=4_000_000, aliased_values=1_200_000, aliased_characters=32 * 1024 * 1024)
"""A List of ten thousand Pods, as returned by an API server; and for aliases never less than kubectl allows.

Source: https://github.com/kubernetes-sigs/yaml/blob/742f5e6f/goyaml.v2/decode.go (allowedAliasRatio)
"""

OF_CONFIG: Final = Limits(values=250_000, aliased_values=100_000, aliased_characters=4 * CONFIG)
"""What `serve` can read during calls within the chart's memory limit; a catalogue of 10,000 models fits."""

OF_RESULT: Final = Limits(2**63, 2**63, 2**63)
"""The result of injection: what is injected into each of its objects has its own limit."""
