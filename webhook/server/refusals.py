"""Rejected clients are counted, and logged at most once a second, so that nobody can fill the log."""

import time

from webhook.server.log import Log
from webhook.server.metrics import Metrics

QUIET_SECONDS = 1.0
"""Between two lines. The next one says how many were left out."""


class Refusals:
    """All refusals of one replica; for its event loop only."""

    def __init__(self, metrics: Metrics, log: Log) -> None:
        self._metrics = metrics
        self._log = log
        self._again = 0.0  # `time.monotonic` when the next line may be written
        self._left_out = 0
        self._latest: dict[str, str] = {}

    def __call__(self, reason: str, peer: str = "", problem: str = "") -> None:
        """`reason` is a metric label, from a closed set; `peer` and `problem` are for people."""
        self._metrics.refuse(reason)
        self.say(reason, peer, problem)

    def say(self, reason: str, peer: str = "", problem: str = "") -> None:
        """The same, for what is counted elsewhere."""
        facts = {"reason": reason, "peer": peer, "problem": problem}
        self._latest = {name: value for name, value in facts.items() if value}
        if time.monotonic() < self._again:
            self._left_out += 1
        else:
            self._write()

    def flush(self) -> None:
        """Log what was left out, once a line may be written."""
        if self._left_out and time.monotonic() >= self._again:
            self._left_out -= 1
            self._write()

    def _write(self) -> None:
        self._log.info("turned away", **self._latest, left_out=self._left_out)
        self._left_out = 0
        self._again = time.monotonic() + QUIET_SECONDS
