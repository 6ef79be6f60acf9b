"""The reviews that are used in all measurements, by name: request bodies that a real API server sent.

    body = load("jobset-pod")

`python -m benchmarks.record` recorded them. If they change, earlier results cannot be compared with later ones.
"""

import gzip
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "reviews"
NAMES = ("jobset-pod", "plain-pod", "pod-20-containers", "jobset-1", "jobset-10", "jobset-50")


def load(name: str) -> bytes:
    """The body of a request to /mutate, byte for byte."""
    return gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes())


def save(name: str, body: bytes) -> None:
    """Store a body; equal bytes give an equal file."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json.gz").write_bytes(gzip.compress(body, mtime=0))


def object_of(body: bytes) -> dict[str, Any]:
    """The object under review, as plain JSON values."""
    found: dict[str, Any] = json.loads(body)["request"]["object"]
    return found
