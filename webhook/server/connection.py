"""One HTTP/1.1 connection, made safe against those that send slowly, endlessly, or nothing at all.

uvicorn's protocol bounds neither the head of a request nor the time that any part of one may take. This adds
those bounds and nothing else; what a request means is the application's business.

One sweep a second looks at every connection; a timer per request would cost more than the request's own work.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from webhook.server.tls import names_of


class Limits(msgspec.Struct, frozen=True):
    """What one connection may take, and how many there may be. Times are in seconds, sizes in bytes."""

    idle: float = 120.0
    """An API server keeps idle connections for 90 s and does not repeat a POST that meets a closing one, so
    it must be the one that closes. A connection without a request yet is no different: Go opens some in
    reserve.
    Source: net/http DefaultTransport, IdleConnTimeout.
    """

    handshake: float = 5.0
    """A TLS handshake that takes longer is nobody's: the API server gives the whole call 5 s in our chart."""

    farewell: float = 2.0
    """How long a closing TLS connection may take to say goodbye."""

    read: float = 10.0
    """From a request's first byte to its last. A review is written in one go."""

    answer: float = 30.0
    """From a request's last byte to the answer's last: the longest that an API server waits."""

    head: int = 64 * 1024
    """Request line and headers. An API server sends about 300."""

    request: int = 16 * 1024 * 1024
    """A whole request on the wire: twice the largest body, so that neither the framing of chunks nor trailers
    nor a refused body that goes on coming can be endless."""

    look: float = 1.0
    """How often connections are looked at, and watched files: so much longer may all of the above take."""

    pipeline: int = 16
    """Requests sent ahead on one connection. API servers send none ahead."""

    connections: int = 2000
    """One more makes room by closing the one that has been idle longest."""


CLOSE = (b"connection", b"close")


class Connections(ServerState):
    """All open connections of one port, and what they share."""

    connections: set["Connection"]  # type: ignore[assignment]

    def __init__(
        self,
        limits: Limits,
        now: float,
        refuse: Callable[[str], None],
        names: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__()
        self.limits = limits
        self.now = now
        self.refuse = refuse
        self.names = names
        self.accepted = 0  # by the kernel; a TLS handshake may still fail
        self.established = 0

    def sweep(self, now: float) -> None:
        """Close what has taken too long. `now` is monotonic, and dates what happens until the next sweep."""
        self.now = now
        for connection in list(self.connections):
            connection.expire(now)

    def say_close(self) -> None:
        """From now on every answer says `Connection: close`."""
        self.default_headers = [CLOSE]

    def close_idle(self) -> None:
        """Close those without a request; the others close with their answer."""
        for connection in list(self.connections):
            connection.finish()

    def abort(self) -> int:
        """Cut everything off; returns how many requests were cut."""
        cut = 0
        for connection in list(self.connections):
            cut += not connection.idle
            connection.transport.abort()
        return cut

    def make_room(self, newcomer: "Connection") -> None:
        """Close the longest idle connection when there are too many, but not the one that it is for."""
        if len(self.connections) <= self.limits.connections:
            return
        # One that is saying goodbye has made its room already.
        staying = [connection for connection in self.connections if not connection.transport.is_closing()]
        if len(staying) <= self.limits.connections:
            return
        # By name, not by age: until the next sweep the newcomer is as old as all that were used since the last.
        idle = [connection for connection in staying if connection.idle and connection is not newcomer]
        if idle:
            self.refuse("too-many-connections")
            min(idle, key=lambda connection: connection.since).transport.close()


class Connection(HttpToolsProtocol):
    """uvicorn's protocol with bounds on size, depth and time."""

    def __init__(self, config: Config, state: Connections, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(config, state, {}, loop)
        self.shared = state
        state.accepted += 1
        self.since = state.now  # when the present phase began: idle, reading or answering
        self.reading = False  # a request has begun and its last byte has not come
        self.in_head = False
        self.taken = 0  # bytes of the present request, give or take what came in the same read

    @property
    def idle(self) -> bool:
        """No request is being read or answered."""
        return not self.reading and (self.cycle is None or self.cycle.response_complete)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.shared.established += 1
        self.since = self.shared.now
        if self.shared.names and not self._is_known(transport):
            self.shared.refuse("client-name")
            transport.abort()
            return
        self.shared.make_room(self)

    def _is_known(self, transport: asyncio.Transport) -> bool:
        peer: dict[str, Any] | None = transport.get_extra_info("peercert")
        return bool(peer and names_of(peer) & self.shared.names)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.reading:
            return
        self.taken += len(data)
        if self.in_head and self.taken > self.shared.limits.head:
            self._turn_away("431 Request Header Fields Too Large", "head-too-large")
        elif self.taken > self.shared.limits.request:
            self._turn_away("413 Content Too Large", "request-too-large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.begin()

    def begin(self) -> None:
        """A request's first byte is there."""
        self.since = self.shared.now
        self.reading = self.in_head = True
        self.taken = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers come this way too; nobody reads them, and they must not become headers.
        if not self.in_head:
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.in_head = False
        super().on_headers_complete()
        if len(self.pipeline) > self.shared.limits.pipeline:
            self.shared.refuse("pipelined")
            self.transport.abort()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.since = self.shared.now
        self.reading = False

    def on_response_complete(self) -> None:
        # Not uvicorn's: that one sets a timer for each idle connection, which the sweep does for all.
        self.shared.total_requests += 1
        if self.transport.is_closing():
            return
        if not self.reading:
            self.since = self.shared.now
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)

    def send_400_response(self, msg: str) -> None:
        self.shared.refuse("not-http")
        super().send_400_response(msg)

    def expire(self, now: float) -> None:
        """Close this connection when its present phase has lasted too long."""
        age = now - self.since
        if self.reading:
            if age > self.shared.limits.read:
                self._turn_away("408 Request Timeout", "slow-request")
        elif not self.idle:
            if age > self.shared.limits.answer:
                self.shared.refuse("slow-answer")
                self.transport.abort()
        elif age > self.shared.limits.idle:
            self.transport.close()

    def finish(self) -> None:
        """Close now when idle, else with the answer."""
        if self.idle:
            self.transport.close()
        elif self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False

    def _turn_away(self, status: str, reason: str) -> None:
        if self.transport.is_closing():  # told already, and does not take the hint
            self.transport.abort()
            return
        self.shared.refuse(reason)
        if self._unanswered():
            self.transport.write(f"HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".encode())
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def _unanswered(self) -> bool:
        """The request that is being read has no answer yet, and none before it waits for one."""
        if self.cycle is None:
            return True
        if self.in_head:
            return self.cycle.response_complete
        return not self.pipeline and not self.cycle.response_started
