"""Measures `admit` of any tree: run as a program with the tree's root as PYTHONPATH.

    python -P probe.py BATCHES NAME=FILE ...

For each review in FILE, microseconds of CPU time per call: the minimum of the batches, which alternate, since other
processes can only make a batch slower. It depends only on where the tree has `admit` and the loading of a site, and
imports nothing from this tree.
"""

import gc
import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

PLACES = (("webhook.core.admission", "webhook.load"), ("webhook.admission", "webhook.config"))
"""The modules of `admit` and `load`: now, and before `webhook.core` existed."""

BATCH_SECONDS = 0.01


def batch(work: Callable[[], object], count: int) -> float:
    calls = range(count)
    began = time.thread_time()
    for _ in calls:
        work()
    return (time.thread_time() - began) / count


def enough(work: Callable[[], object]) -> int:
    """The number of calls in a batch. Finding it also warms up caches."""
    count = 1
    while batch(work, count) * count < BATCH_SECONDS / 2:
        count *= 2
    return count


def main(batches: int, bodies: dict[str, bytes]) -> None:
    core, files = PLACES[0] if importlib.util.find_spec("webhook.load") else PLACES[1]
    admission = importlib.import_module(core)
    site = importlib.import_module(files).load()
    works = {name: lambda body=body: admission.admit(body, site) for name, body in bodies.items()}
    lengths = {name: len(work().body) for name, work in works.items()}
    counts = {name: enough(work) for name, work in works.items()}
    gc.collect()
    gc.freeze()  # as `accel serve` does once it is ready
    found = [(name, batch(work, counts[name])) for _ in range(batches) for name, work in works.items()]
    result = {
        "file": admission.__file__,
        "lengths": lengths,
        "microseconds": {name: min(spent for n, spent in found if n == name) * 1e6 for name in works},
        "cpu_seconds": time.process_time(),
    }
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    files = (argument.partition("=") for argument in sys.argv[2:])
    main(int(sys.argv[1]), {name: Path(file).read_bytes() for name, _, file in files})
