"""The reviews that everything here is measured with: bodies as a real API server sent them, by name.

    body = load("jobset-pod")

`python -m benchmarks.record` made them. They are data: nothing here may change them, or results from before and
after could not be compared.
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
    """Keep a body; the same bytes make the same file."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json.gz").write_bytes(gzip.compress(body, mtime=0))


def object_of(body: bytes) -> dict[str, Any]:
    """The object under review, as plain JSON values."""
    found: dict[str, Any] = json.loads(body)["request"]["object"]
    return found
