"""One HTTP/1.1 connection: bytes come in, whole requests go to an application of plain functions, its replies go out.

httptools parses; everything else is here, and all of it is bounded: against clients that send slowly, endlessly, too
much at once or nothing at all, and against those that do not read responses. What a request means is up to the
application.
"""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from time import perf_counter

import httptools

from webhook.server.connections import Connections
from webhook.server.request import TEXT, Head, Reply
from webhook.server.tls import names_of

SLICE = 64 * 1024
"""Bytes of a response that are passed to a transport at once. It reports that a client does not read only after the
fact, and then buffers up to twice as much: what the kernel did not accept, and the next slice, encrypted."""

_STATUS = {int(status): f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode() for status in HTTPStatus}

_CLOSE = b"connection: close\r\n"


class _Over(Exception):
    """Nothing more is read from this connection; the response has been sent."""


class Connection(asyncio.Protocol):
    """One client, from its first byte to the last of its responses."""

    transport: asyncio.Transport
    parser: httptools.HttpRequestParser
    head: Head

    def __init__(self, shared: Connections, peer: str = "", established: Callable[[], object] = lambda: None) -> None:
        self.shared = shared
        self.peer = peer
        self.established = established  # called when TLS, if any, has been negotiated
        self.since = shared.now  # when the current phase began: idle, reading or answering
        self.reading = False  # a request has begun and its last byte has not arrived
        self.in_head = False
        self.answered = False  # before the whole request has arrived
        self.taken = 0  # bytes of the current request, plus or minus others in the same read
        self.ahead = 0  # requests in the current read
        self.url = self.media = b""
        self.length = 0  # Content-Length
        self.expects = False  # "Expect: 100-continue"
        self.keep = True
        self.body: bytes | bytearray | None = None  # None while there is none to be read
        self.held = -1  # bytes of it that count as partially read; -1 while none do
        self.rest: memoryview | None = None  # of a response that the transport has not accepted yet
        self.paused = False
        self.close_then = False  # after the rest of the response

    @property
    def idle(self) -> bool:
        """No request is being read or answered."""
        return not self.reading and not self.paused

    @property
    def unsent(self) -> int:
        """Bytes of a response that are buffered for a client that does not read."""
        return 2 * SLICE + (len(self.rest) if self.rest is not None else 0)

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        shared = self.shared
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)
        self.since = shared.now
        shared.established += 1
        self.established()
        shared.open.add(self)
        if shared.names and not self._is_known():
            shared.refuse("client-name", self.peer)
            transport.abort()
            return
        # Pause at the first byte that the socket does not accept; the default is half a MiB.
        transport.set_write_buffer_limits(high=1, low=0)
        shared.make_room(self)

    def _is_known(self) -> bool:
        certificate: dict[str, object] | None = self.transport.get_extra_info("peercert")
        return bool(certificate and names_of(certificate) & self.shared.names)

    def connection_lost(self, _exc: Exception | None) -> None:
        self.shared.open.discard(self)
        self.shared.waiting.pop(self, None)
        if self.body is not None:
            self.shared.refuse("client-gone", self.peer)
        self._forget_body()
        self.rest = None
        del self.parser  # a reference cycle: it has our bound methods

    def data_received(self, data: bytes) -> None:
        self.ahead = 0
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return  # the response said that we close, and no other protocol is supported
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, _Over):
                return
            if isinstance(error, httptools.HttpParserCallbackError):
                raise  # a bug of ours
            self._turn_away(400, "not-http")
            return
        if self.reading:
            self._measure(len(data))

    def pause_writing(self) -> None:
        """The client does not read as fast as we send."""
        self.paused = True
        self.shared.waiting[self] = None
        self.shared.relieve()

    def resume_writing(self) -> None:
        """It has read everything."""
        self.paused = False
        self.shared.waiting.pop(self, None)
        self.since = self.shared.now
        self._push()

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        if self.transport.is_closing():
            raise _Over
        self.ahead += 1
        if self.ahead > self.shared.limits.pipeline or self.paused:
            self.shared.refuse("pipelined", self.peer)
            self.transport.abort()
            raise _Over
        self.since = self.shared.now
        self.reading = self.in_head = True
        self.answered = self.expects = False
        self.taken = self.length = 0
        self.url = self.media = b""

    def on_url(self, url: bytes) -> None:
        self.url = self.url + url if self.url else url

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers arrive here too; nothing reads them, and they must not become headers.
        if not self.in_head:
            return
        name = name.lower()
        if name == b"content-type":
            self.media = value
        elif name == b"content-length":
            self.length = int(value)
        elif name == b"expect":
            self.expects = value.lower() == b"100-continue"

    def on_headers_complete(self) -> None:
        self.in_head = False
        parser = self.parser
        is_http11 = parser.get_http_version() == "1.1"
        self.keep = is_http11 and parser.should_keep_alive() and not parser.should_upgrade()
        path, query = self._target()
        self.head = Head(parser.get_method(), path, query, self.media, perf_counter(), self.peer)
        reply = self.shared.app.early(self.head)
        if reply is not None:
            self._reply(reply)
        elif self.length > self.shared.limits.body:
            self._refuse_body(self._too_large())
        else:
            self.body = b""
            if self.expects and is_http11:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        if self.body is None:  # answered before it arrived
            return
        if not self.body:
            self.body = body
        else:
            # One buffer: the client chooses the chunks, and each bytes object costs 33 bytes more.
            if isinstance(self.body, bytes):
                self.body = bytearray(self.body)
            self.body += body
        if len(self.body) > self.shared.limits.body:
            self._refuse_body(self._too_large())

    def on_message_complete(self) -> None:
        self.reading = False
        self.since = self.shared.now
        if self.body is None:
            self.answered = False
            if self.shared.closing:
                self.transport.close()
            return
        body = bytes(self.body)
        self._forget_body()
        self._reply(self.shared.app.answer(self.head, body))
        self.answered = False

    # What follows from them.

    def _target(self) -> tuple[bytes, bytes]:
        """Path and query of the request target, which a proxy may send with scheme and host."""
        if self.url.startswith(b"/"):
            path, _, query = self.url.partition(b"?")
            return path, query
        try:
            url = httptools.parse_url(self.url)
        except httptools.HttpParserInvalidURLError:
            self._turn_away(400, "not-http")
            raise _Over from None
        return url.path or b"/", url.query or b""

    def _measure(self, received: int) -> None:
        """Enforce the limits on a request that is still arriving."""
        limits = self.shared.limits
        self.taken += received
        if self.in_head and self.taken > limits.head:
            self._turn_away(431, "head-too-large")
        elif self.taken > limits.request:
            self._turn_away(413, "request-too-large")
        elif self.body is not None:
            self._hold(len(self.body))

    def _hold(self, size: int) -> None:
        """Count a body as partially read, or refuse it."""
        shared = self.shared
        if self.held < 0:
            if shared.bodies >= shared.limits.bodies:
                self._refuse_body(self._busy())
                return
            shared.bodies += 1
            self.held = 0
        shared.half_read += size - self.held
        self.held = size
        if shared.half_read > shared.limits.half_read and size > shared.limits.small:
            self._refuse_body(self._busy())

    def _forget_body(self) -> None:
        self.body = None
        if self.held >= 0:
            self.shared.bodies -= 1
            self.shared.half_read -= self.held
            self.held = -1

    def _refuse_body(self, reply: Reply) -> None:
        """Answer now; the rest of the request is read and discarded."""
        self._forget_body()
        self._reply(reply)

    def _too_large(self) -> Reply:
        self.shared.refuse("too-large", self.peer)
        text = b"a request has at most %d bytes\n" % self.shared.limits.body
        return Reply(413, text, TEXT, close=True)

    def _busy(self) -> Reply:
        # The API server's client honours Retry-After and sends the review again, within the webhook's timeout.
        self.shared.refuse("busy", self.peer)
        return Reply(429, b"too many requests are being read; send it again\n", TEXT + b"retry-after: 1\r\n")

    def _reply(self, reply: Reply) -> None:
        close = reply.close or self.shared.closing or not self.keep
        self.shared.requests += 1
        self.answered = True
        length = b"content-length: %d\r\n" % len(reply.body)
        body = b"" if self.head.method == b"HEAD" else reply.body
        end = _CLOSE + b"\r\n" if close else b"\r\n"
        data = b"".join((_STATUS[reply.status], reply.headers, length, end, body))
        if len(data) > SLICE:
            self.rest, self.close_then = memoryview(data), close
            self._push()
            return
        self.transport.write(data)
        if close:
            self.transport.close()

    def _push(self) -> None:
        """Pass on as much of a response as the transport accepts."""
        while self.rest is not None and not self.paused:
            part, rest = self.rest[:SLICE], self.rest[SLICE:]
            self.rest = rest or None
            self.transport.write(part)
        if self.rest is None and (self.close_then or self.shared.closing):
            self.transport.close()

    def _turn_away(self, status: int, reason: str) -> None:
        """End an invalid request."""
        if self.transport.is_closing():  # the client has had its response and keeps sending
            self.transport.abort()
            return
        self.shared.refuse(reason, self.peer)
        self._forget_body()
        if not self.answered:
            self.transport.write(_STATUS[status] + _CLOSE + b"content-length: 0\r\n\r\n")
        self.transport.close()

    def expire(self, now: float) -> None:
        """Close this connection if its current phase has lasted too long."""
        age, limits = now - self.since, self.shared.limits
        if self.reading:
            if age > limits.read:
                self._turn_away(408, "slow-request")
        elif self.paused:
            if age > limits.answer:
                self.shared.refuse("slow-answer", self.peer)
                self.transport.abort()
        elif age > limits.idle:
            self.transport.close()
