"""The loop of `accel certs run`: read, take the next step, write what `serve` reads, wait for a change.

It carries out what `rotation` decides and adds nothing to it. An error is logged, counted, written to the state
and retried later: no fault of the API server or the network, and nobody's edits, end the process.
"""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from certs import directory, pki, rotation, state
from certs.api import ApiError, Clock, Conflict, Unreachable, now
from certs.metrics import Metrics
from certs.rotation import DropOld, IssueLeaf, Keep, NewCA, Policy, Promote, PublishBundle, View
from certs.state import State
from certs.store import Reading, Store

# So that a fight over caBundle does not become a busy loop.
PAUSE = timedelta(milliseconds=100)
BACKOFF_FIRST, BACKOFF_MAX = timedelta(milliseconds=250), timedelta(seconds=30)
EVENTS = {
    NewCA: "CA created",
    PublishBundle: "caBundle written",
    IssueLeaf: "leaf issued",
    Promote: "upcoming CA signs now",
    DropOld: "old CAs dropped",
}
MAX_STEPS = 20  # a pass needs at most six; more means that somebody reverts what we do


@dataclass
class Loop:
    """One running replica: the only mutable object here."""

    store: Store
    policy: Policy
    folder: Path
    poll: timedelta
    log: Any
    metrics: Metrics = field(default_factory=Metrics)
    clock: Clock = now
    _view: View | None = None
    _reading: Reading | None = None
    _written: dict[str, bytes] = field(default_factory=dict)
    _failures: int = 0
    _turned: float = field(default_factory=time.monotonic)
    _changed: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Never returns; a signal's exception ends it."""
        self._watch("secret", self.store.watch_secret)
        self._watch("webhook configuration", self.store.watch_configuration)
        while True:
            self._turned = time.monotonic()
            self._changed.clear()
            wait = self.turn()
            time.sleep(PAUSE.total_seconds())
            self._changed.wait(max(wait - PAUSE, timedelta(0)).total_seconds())

    def alive(self) -> bool:
        """Whether the loop ran recently; waiting for its next turn is not a stall."""
        return time.monotonic() - self._turned < 120 + 2 * self.poll.total_seconds()

    def turn(self) -> timedelta:
        """One pass: all steps that can be done now. Returns how long to wait unless something changes."""
        try:
            until = self._steps()
            self._failures = 0
            self._publish("")
        except Exception as error:
            # Whatever it is: a restarted process would hit it again, and could not renew its leaf.
            return self._failed(error)
        return min(max(until - self._now(), timedelta(0)), self.poll)

    def _now(self) -> datetime:
        """Our clock, but never ahead of the API server's: it is the API server that verifies what we issue.

        A replica whose clock is days ahead would otherwise give all replicas a CA that is not yet valid.
        """
        return self.clock() - self.store.clock_ahead

    def _steps(self) -> datetime:
        for _ in range(MAX_STEPS):
            view = self._read()
            action = rotation.decide(view, self._now(), self.policy)
            if isinstance(action, Keep):
                return action.until
            self._do(action, view)
        raise ApiError(0, "something reverts every change to the Secret or to caBundle: find out what writes them")

    def _read(self) -> View:
        """The cluster's current state. If it cannot be read, the leaf is renewed from what was last known."""
        leaf = self._view.leaf if self._view else directory.leaf(self.folder)
        try:
            self._reading = self.store.read()
        except ApiError:
            self._alone()
            raise
        fresh = View(self._reading.keyring, self._reading.entries, leaf)
        self._view = replace(fresh, settled=rotation.settled(self._view, fresh, self._now()))
        return self._view

    def _alone(self) -> None:
        """Cut off: we do not see what others do meanwhile, so the overlap starts again."""
        if self._view is None:
            return
        self._view = replace(self._view, settled=None)
        action = rotation.decide(self._view, self._now(), self.policy)
        if isinstance(action, IssueLeaf):
            self._do(action, self._view)

    def _do(self, action: NewCA | PublishBundle | IssueLeaf | Promote | DropOld, view: View) -> None:
        """Take one step. Raises ApiError or OSError."""
        match action:
            case IssueLeaf(issuer):
                leaf = pki.issue(issuer, self.policy.names, self._now(), self.policy.leaf_lifetime)
                self._view = replace(view, leaf=leaf)
                self._publish("")
            case PublishBundle(bundle):
                self.store.write_bundle(self._known(), bundle)
            case NewCA() | Promote() | DropOld():
                ring = rotation.changed(view.keyring, action, self._now(), self.policy)
                self.store.write_keyring(self._known(), ring)
        self.metrics.steps.labels(type(action).__name__).inc()
        self.log.info(EVENTS[type(action)], **_facts(action, self._view or view))

    def _known(self) -> Reading:
        if self._reading is None:
            raise ApiError(0, "nothing has been read yet")
        return self._reading

    def _publish(self, problem: str) -> None:
        """Write the directory if something changed."""
        if self._view is None:
            self._publish_unread(problem)
            return
        current = state.describe(self._view, self._now(), problem)
        self.metrics.show(current, self.store.clock_ahead)
        files = {directory.STATE: state.to_json(current), directory.BUNDLE: self._view.keyring.bundle()}
        if self._view.leaf:
            files |= {directory.CERTIFICATE: self._view.leaf.certificate, directory.KEY: self._view.leaf.key}
        self._write(files)

    def _publish_unread(self, problem: str) -> None:
        """Nothing has been read yet. A leaf from before a restart keeps serving, with its state; else say why not."""
        if directory.leaf(self.folder) is None:
            self._write({directory.STATE: state.to_json(State(problem=problem))})

    def _write(self, files: dict[str, bytes]) -> None:
        if files != self._written:
            directory.write(self.folder, files)
            self._written = files

    def _failed(self, error: Exception) -> timedelta:
        """Log and record it; returns how long to wait: longer each time, with jitter."""
        if isinstance(error, Conflict):
            # Another replica was first: read again at once.
            self.metrics.failures.labels("conflict").inc()
            return timedelta(seconds=random.uniform(0.0, 0.3))  # noqa: S311 - jitter, not security
        self._failures += 1
        self.metrics.failures.labels(_kind(error)).inc()
        backoff = min(BACKOFF_FIRST * (1 << min(self._failures - 1, 10)), BACKOFF_MAX)
        wait = min(backoff * random.uniform(0.5, 1.0), self.poll)  # noqa: S311
        seconds = round(wait.total_seconds(), 1)
        if _kind(error) == "unexpected":
            self.log.error("failed unexpectedly", retry_in_seconds=seconds, exc_info=error)
        else:
            self.log.warning("failed", problem=str(error), retry_in_seconds=seconds)
        self._publish_if_possible(str(error) or type(error).__name__)
        return wait

    def _publish_if_possible(self, problem: str) -> None:
        try:
            self._publish(problem)
        except Exception as error:
            self.log.error("state not written", problem=str(error))

    def _watch(self, what: str, watch: Callable[[Callable[[], None]], None]) -> None:
        """Wake the loop at every change, from a daemon thread. Polling continues as well."""

        def work() -> None:
            failures = 0
            while True:
                try:
                    watch(self._changed.set)
                    failures = 0
                except Exception as error:  # the thread must survive it, whatever it is
                    failures += 1
                    if failures == 1:
                        self.log.warning("watch failed; polling instead", what=what, problem=str(error))
                time.sleep(min(2.0**failures / 2, 30.0) * random.uniform(0.5, 1.0))  # noqa: S311

        threading.Thread(target=work, name=f"watch {what}", daemon=True).start()


def _kind(error: Exception) -> str:
    match error:
        case Unreachable():
            return "unreachable"
        case ApiError():
            return "refused"
        case OSError():
            return "file"
    return "unexpected"


def _facts(action: object, view: View) -> dict[str, object]:
    """What the log line of a step contains; never a key."""
    match action:
        case IssueLeaf(issuer):
            end = pki.not_after(view.leaf.certificate).isoformat() if view.leaf else ""
            return {"not_after": end, "ca": pki.name_of(issuer.certificate)}
        case PublishBundle(bundle):
            names = [pki.name_of(ca) for ca in pki.split(bundle)]
            return {"entries": [n for n, found in view.entries.items() if found != bundle], "bundle": names}
        case NewCA(adopted):
            return {"adopted": [pki.name_of(ca) for ca in adopted]}
        case DropOld(certificates):
            return {"dropped": [pki.name_of(ca) for ca in certificates]}
        case Promote() if view.keyring.upcoming:
            return {"ca": pki.name_of(view.keyring.upcoming.certificate)}
    return {}
