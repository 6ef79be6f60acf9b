"""Mutated AdmissionReviews: each gets an answer that may be, within a bound of time per byte, and memory stays flat."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support import mutants
from tests.support.case import site
from webhook.core import limits
from webhook.core.admission import admit

SECONDS = 0.02
SECONDS_PER_BYTE = 4e-6
"""Processor time that one review may take, on a slow machine without the core compiled: ten times what is usual."""
BEST_OF = 5
LARGEST = 1_000_000
"""Bytes to which a review is blown up, now and then."""
MAX_GROWTH = 16 * 1024 * 1024
"""Bytes that the process may have more after the second half of the inputs than after the first."""


def inputs(seed: int, count: int) -> Iterator[bytes]:
    """Mutants, some of them with one part many times as large."""
    chance = random.Random(seed)
    for body in mutants.mutants(seed, count):
        yield mutants.inflated(body, chance, LARGEST) if chance.random() < 0.03 else body


def run(count: int, seed: int) -> list[str]:
    """What is wrong with the answers to `count` inputs; prints what they were."""
    ours, seen, wrong = site(None), Counter[str](), list[str]()
    peak, half = 0.0, 0
    for number, body in enumerate(inputs(seed, count)):
        start = time.process_time()
        answer = admit(body, ours)
        spent = time.process_time() - start
        seen[answer.outcome] += 1
        allowed = SECONDS + SECONDS_PER_BYTE * len(body)
        if spent > allowed:
            spent = min(spent, *(_again(body, ours) for _ in range(BEST_OF)))
        peak = max(peak, spent / allowed)
        problems = mutants.problems(body, answer.status, answer.body)
        if spent > allowed:
            problems.append(f"{spent:.3f} s for {len(body)} bytes")
        if len(answer.body) > limits.ANSWER:
            problems.append(f"an answer of {len(answer.body)} bytes")
        wrong += [f"{problem}: {body[:2000]!r}" for problem in problems]
        if number == count // 2:
            half = resident()
    growth = resident() - half
    if growth > MAX_GROWTH:
        wrong.append(f"{growth >> 20} MiB more than at half the inputs")
    print(
        f"{count} reviews, seed {seed}: {dict(seen)}; {len(wrong)} wrong; "
        f"at most {peak:.0%} of the time allowed; {growth >> 10} KiB more memory over the second half"
    )
    return wrong


def _again(body: bytes, ours: Any) -> float:
    start = time.process_time()
    admit(body, ours)
    return time.process_time() - start


def resident() -> int:
    """Bytes of memory that this process holds; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    except OSError:
        return 0
