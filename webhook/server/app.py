"""The HTTPS port's one ASGI callable: `/mutate` first, and a FastAPI application for everything else.

`/mutate` comes first because a FastAPI route costs more than the work it would carry. FastAPI is imported by
the first request that is not for `/mutate`, which in a cluster nobody sends. This module counts and logs what
was decided; it decides nothing and knows nothing of TLS, files or signals.
"""

import asyncio
import logging
import re
import traceback
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from functools import lru_cache
from time import perf_counter
from typing import Any

from webhook import __version__
from webhook.admission import Answer
from webhook.server.log import Log
from webhook.server.metrics import Metrics

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

LARGEST_BODY = 7 * 1024 * 1024
"""Bytes. An API server takes objects of up to 3 MiB and a review can hold two, old and new.
Source: sigs.k8s.io/controller-runtime v0.25.2 pkg/webhook/admission/http.go
"""

MOST_BYTES = 32 * 1024 * 1024
"""Bytes of half-read bodies in memory at once: four of the largest."""

SMALL_BODY = 64 * 1024
"""Bytes. Bodies up to here do not count against `MOST_BYTES`, so that large ones cannot keep them out."""

_JSON = (b"content-type", b"application/json")
_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_CLOSE = (b"connection", b"close")

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


class Refused(Exception):
    """A request that is answered without a look at its review."""

    def __init__(self, status: int, reason: str, text: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason  # metric label
        self.text = text
        self.headers = headers


class Gone(Exception):
    """The client went away before its request was whole."""


class Webhook:
    """The ASGI application of the HTTPS port."""

    def __init__(self, admit: Callable[[bytes], Answer], metrics: Metrics, log: Log, *, max_bodies: int) -> None:
        self._admit = admit
        self._metrics = metrics
        self._log = log
        self._verbose = log.is_enabled_for(logging.DEBUG)
        self._max_bodies = max_bodies
        self._bodies = 0  # half read
        self._held = 0  # bytes of them
        self._others: Asgi | None = None

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        if scope["path"] == "/mutate":
            return self._mutate(scope, receive, send)
        return self._other(scope, receive, send)

    async def _mutate(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A server that waits for the whole of a request before it calls us says since when.
        started = scope.get("arrived") or perf_counter()
        metrics = self._metrics
        metrics.in_flight += 1
        try:
            _check_head(scope)
            message = await receive()
            body = await self._rest(message, receive) if message.get("more_body", True) else message["body"]
            _check_deadline(scope["query_string"], perf_counter() - started)
            answer = self._decide(body)
            await _send(send, answer.status, answer.body, _JSON if answer.status == 200 else _TEXT)
            metrics.decided(answer, perf_counter() - started, len(body))
            self._report(answer)
        except Refused as refused:
            metrics.refuse(refused.reason)
            await _send(send, refused.status, refused.text.encode() + b"\n", _TEXT, *refused.headers)
        except Gone:
            metrics.refuse("client-gone")
        finally:
            metrics.in_flight -= 1

    async def _rest(self, message: MutableMapping[str, Any], receive: Receive) -> bytes:
        """The whole of a body that did not come at once, within our limits."""
        if self._bodies >= self._max_bodies:
            raise _busy()
        parts: list[bytes] = []
        size = 0
        self._bodies += 1
        try:
            while True:
                if message["type"] == "http.disconnect":
                    raise Gone
                part = message["body"]
                parts.append(part)
                size += len(part)
                self._held += len(part)
                if size > LARGEST_BODY:
                    raise _too_large()
                if self._held > MOST_BYTES and size > SMALL_BODY:
                    raise _busy()
                if not message["more_body"]:
                    return b"".join(parts)
                message = await receive()
        finally:
            self._bodies -= 1
            self._held -= size

    def _decide(self, body: bytes) -> Answer:
        """`admit` catches what it can name; what escapes it is a defect of ours and answered as one."""
        try:
            return self._admit(body)
        except Exception:
            text = b"internal error; the webhook's log has the details\n"
            return Answer(500, text, "error", "unexpected", detail=traceback.format_exc())

    def _report(self, answer: Answer) -> None:
        if answer.outcome == "error":
            self._log.error("review failed", **_facts(answer), traceback=answer.detail)
        elif answer.outcome == "denied":
            self._log.info("denied", **_facts(answer), denial=answer.detail)
        elif answer.outcome == "bad-review":
            self._log.info("not a review", **_facts(answer), problem=answer.detail)
        elif self._verbose:  # or the facts of each review would be gathered for nobody
            self._log.debug(answer.outcome, **_facts(answer))

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._others is None:
            # In a thread: the import takes longer than a review may wait.
            self._others = await asyncio.to_thread(_others)
        await self._others(scope, receive, send)


def _check_head(scope: Scope) -> None:
    """Refuse what cannot be a review, by its method and headers."""
    if scope["method"] != "POST":
        raise Refused(405, "method", "only POST", (b"allow", b"POST"))
    media = b""
    for name, value in scope["headers"]:
        if name == b"content-type":
            media = value
        elif name == b"content-length" and int(value) > LARGEST_BODY:
            raise _too_large()
    if media != b"application/json" and media.partition(b";")[0].strip().lower() != b"application/json":
        raise Refused(415, "content-type", "the content type must be application/json")


def _check_deadline(query: bytes, waited: float) -> None:
    """Drop work that nobody awaits any more: the API server says in `?timeout=5s` how long it waits."""
    if query and waited > _deadline(query):
        raise Refused(504, "deadline", "the review came after the time that its timeout gives")


@lru_cache(maxsize=64)
def _deadline(query: bytes) -> float:
    """Seconds in the `timeout` of a query, as Go spells durations ("5s", "1m0s", "4.5s"); endless without
    one."""
    match = re.search(r"(?:^|&)timeout=((?:\d+(?:\.\d*)?(?:h|ms|m|us|µs|ns|s))+)(?:&|$)", query.decode("latin-1"))
    if not match:
        return float("inf")
    parts = re.findall(r"(\d+(?:\.\d*)?)(h|ms|m|us|µs|ns|s)", match[1])
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _too_large() -> Refused:
    return Refused(413, "too-large", f"a review has at most {LARGEST_BODY} bytes", _CLOSE)


def _busy() -> Refused:
    # The API server's client waits as it is told and sends the review again, within the webhook's timeout.
    return Refused(429, "busy", "too many reviews are being read; send it again", (b"retry-after", b"1"))


def _facts(answer: Answer) -> dict[str, Any]:
    return {
        "uid": answer.uid,
        "kind": answer.kind,
        "namespace": answer.namespace,
        "name": answer.name,
        "operation": answer.operation,
        "type": answer.type,
        "code": answer.code,
        "dry_run": answer.dry_run,
    }


async def _send(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


def _others() -> Asgi:
    """Everything that is not `/mutate`: what this is, and short answers for what it is not."""
    from fastapi import FastAPI, Request
    from fastapi.responses import JSONResponse

    app = FastAPI(title="accel-injector", version=__version__, openapi_url=None)

    @app.get("/")
    async def what_this_is() -> dict[str, str]:
        """For whoever opens the port in a browser."""
        return {
            "name": "accel-injector",
            "version": __version__,
            "webhook": "POST an admission.k8s.io/v1 AdmissionReview to /mutate",
        }

    @app.exception_handler(404)
    async def not_found(_request: Request, _error: Exception) -> JSONResponse:
        return JSONResponse({"detail": "not found; the webhook is /mutate"}, status_code=404)

    return app
