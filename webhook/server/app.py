"""What the HTTPS port does with requests: `POST /mutate` is decided, everything else gets a short response.

It counts and logs decisions; it decides nothing itself and knows nothing about sockets, TLS, files or signals.
"""

import logging
import re
import traceback
from collections.abc import Callable
from functools import lru_cache
from time import perf_counter
from typing import Any

import msgspec

from webhook import __version__
from webhook.core import limits
from webhook.core.admission import Answer
from webhook.server.log import Log, cut
from webhook.server.metrics import Metrics
from webhook.server.refusals import Refusals
from webhook.server.request import JSON, TEXT, Head, Reply

LONGEST_QUERY = 256
"""Bytes of a query that are parsed. An API server sends `timeout=5s`."""

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


class Webhook:
    """The application of the HTTPS port."""

    def __init__(self, admit: Callable[[bytes], Answer], metrics: Metrics, log: Log, refusals: Refusals) -> None:
        self._admit = admit
        self._metrics = metrics
        self._log = log
        self._refusals = refusals
        self.deciding: bytes | None = None  # for the watchdog
        self._verbose = log.is_enabled_for(logging.DEBUG)

    def early(self, head: Head) -> Reply | None:
        """A request that cannot be a review, by its path, method or type, is answered without reading its body."""
        if head.path != b"/mutate":
            return _other(head)
        if head.method != b"POST":
            return self._turned_away(head, 405, "method", "only POST", b"allow: POST\r\n")
        if head.media != b"application/json" and not _is_json(head.media):
            return self._turned_away(head, 415, "content-type", "the content type must be application/json")
        return None

    def answer(self, head: Head, body: bytes) -> Reply:
        """Decide a review, unless nobody waits for it any more: the API server sends its timeout, `?timeout=5s`."""
        if head.query and perf_counter() - head.arrived > _deadline(head.query[:LONGEST_QUERY]):
            return self._turned_away(head, 504, "deadline", "the review arrived after its timeout")
        answer = self._decide(body)
        self._metrics.decided(answer, perf_counter() - head.arrived, len(body))
        self._report(answer, head.peer)
        return Reply(answer.status, answer.body, JSON if answer.status == 200 else TEXT)

    def _turned_away(self, head: Head, status: int, reason: str, text: str, headers: bytes = b"") -> Reply:
        self._refusals(reason, head.peer)
        return Reply(status, text.encode() + b"\n", TEXT + headers)

    def _decide(self, body: bytes) -> Answer:
        """`admit` handles known errors; anything else is a bug of ours, and answered as such."""
        self.deciding = body
        try:
            return self._admit(body)
        except Exception:
            text = b"internal error; the webhook's log has the details\n"
            return Answer(500, text, "error", "unexpected", detail=traceback.format_exc())
        finally:
            self.deciding = None

    def _report(self, answer: Answer, peer: str) -> None:
        if answer.outcome == "error":
            self._log.error("review failed", **_facts(answer), traceback=answer.detail)
        elif answer.outcome == "denied":
            self._log.info("denied", **_facts(answer), denial=answer.detail)
        elif answer.outcome == "bad-review":
            self._refusals.say(answer.outcome, peer, answer.body.decode(errors="replace"))
        elif self._verbose:  # or the facts of each review would be gathered for nobody
            self._log.debug(answer.outcome, **_facts(answer))


def _is_json(media: bytes) -> bool:
    return media.partition(b";")[0].strip().lower() == b"application/json"


@lru_cache(maxsize=64)
def _deadline(query: bytes) -> float:
    """Seconds in the `timeout` of a query, a Go duration ("5s", "1m0s", "4.5s"); infinite without one."""
    for field in query.decode("latin-1").split("&"):
        name, _, value = field.partition("=")
        if name == "timeout":
            return _seconds(value)
    return float("inf")


_PART = re.compile(r"(?P<number>[0-9]++(?:\.[0-9]*+)?+)(?P<unit>h|ms?+|us|µs|ns|s)")


def _seconds(text: str) -> float:
    """A duration; infinite if invalid."""
    seconds, at = 0.0, 0
    while part := _PART.match(text, at):
        seconds += float(part["number"]) * _UNITS[part["unit"]]
        at = part.end()
    return seconds if at and at == len(text) else float("inf")


def _other(head: Head) -> Reply:
    """For people who open the port in a browser, and misdirected clients."""
    if head.path != b"/":
        return Reply(404, _json({"detail": "not found; the webhook is /mutate"}))
    if head.method not in (b"GET", b"HEAD"):
        return Reply(405, _json({"detail": "only GET"}), JSON + b"allow: GET, HEAD\r\n")
    webhook = "POST an admission.k8s.io/v1 AdmissionReview to /mutate"
    return Reply(200, _json({"name": "accel-injector", "version": __version__, "webhook": webhook}))


def _json(value: dict[str, str]) -> bytes:
    return msgspec.json.encode(value)


def _facts(answer: Answer) -> dict[str, Any]:
    return {
        "uid": cut(answer.uid, limits.NAME),
        "kind": answer.kind,
        "namespace": cut(answer.namespace, limits.LABEL_VALUE),
        "name": cut(answer.name, limits.NAME),
        "operation": answer.operation,
        "type": answer.type,
        "code": answer.code,
        "dry_run": answer.dry_run,
    }
