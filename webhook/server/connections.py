"""All open connections of one port: what each may take, what all of them may, and who has to go when it is too much.

One sweep a second looks at every connection; a timer per request would cost more than the request's own work.
"""

from typing import TYPE_CHECKING

import msgspec

from webhook.server.request import Application, Refuse

if TYPE_CHECKING:
    from webhook.server.connection import Connection


class Limits(msgspec.Struct, frozen=True):
    """What one connection may take, and what all of them may. Times are in seconds, sizes in bytes."""

    idle: float = 120.0
    """An API server keeps idle connections for 90 s and does not repeat a POST that meets a closing one, so
    it must be the one that closes. A connection without a request yet is no different: Go opens some in
    reserve.
    Source: net/http DefaultTransport, IdleConnTimeout.
    """

    handshake: float = 5.0
    """A TLS handshake that takes longer is nobody's: the API server gives the whole call 5 s in our chart."""

    shutdown_timeout: float = 2.0
    """How long a closing TLS connection may take to flush what it was sent and to say goodbye."""

    read: float = 10.0
    """From a request's first byte to its last. A review is written in one go."""

    answer: float = 30.0
    """From a request's last byte until its answer has been taken: the longest that an API server waits."""

    head: int = 64 * 1024
    """Request line and headers. An API server sends about 300."""

    body: int = 7 * 1024 * 1024
    """An API server takes objects of up to 3 MiB and a review can hold two, old and new.
    Source: sigs.k8s.io/controller-runtime v0.25.2 pkg/webhook/admission/http.go
    """

    request: int = 16 * 1024 * 1024
    """A whole request on the wire: twice the largest body, so that neither the framing of chunks nor trailers
    nor a refused body that goes on coming can be endless."""

    bodies: int = 1024
    """Bodies that may be half read at once; one more is answered 429. One that came whole does not count."""

    half_read: int = 32 * 1024 * 1024
    """Half-read bodies of all connections together: four of the largest."""

    small: int = 64 * 1024
    """A body up to here is not held against `half_read`, so that large ones cannot keep it out."""

    unsent: int = 32 * 1024 * 1024
    """Answers of all connections that their clients do not take. Over it, who has waited longest is cut off."""

    poll_interval: float = 1.0
    """How often connections are looked at, and watched files: so much longer may all of the above take."""

    pipeline: int = 16
    """Requests that may come in one read. API servers send none ahead of an answer."""

    arriving: int = 1000
    """Connections whose first TLS message has not come whole; one more closes the oldest."""

    handshakes: int = 400
    """Connections in the middle of TLS; one more closes the oldest. A client that means it is through in milliseconds,
    and all API servers of a cluster together open some hundreds at once."""

    connections: int = 2000
    """One more makes room by closing the one that has been idle longest."""


class Connections:
    """All open connections of one port, and what they share."""

    def __init__(
        self,
        app: Application,
        limits: Limits,
        now: float,
        refuse: Refuse,
        names: frozenset[str] = frozenset(),
    ) -> None:
        self.app = app
        self.limits = limits
        self.now = now  # seconds of ours, which dates what happens until the next sweep
        self._swept = now
        self.refuse = refuse
        self.names = names
        self.open: set[Connection] = set()
        self.waiting: dict[Connection, None] = {}  # those that do not take their answer, the longest first
        self.closing = False  # every answer says `Connection: close`
        self.bodies = 0  # half read
        self.half_read = 0  # bytes of them
        self.established = 0
        self.requests = 0

    def sweep(self, now: float) -> None:
        """Close what has taken too long. `now` is monotonic; what we slept through is held against nobody."""
        self.now += min(now - self._swept, 2 * self.limits.poll_interval)
        self._swept = now
        for connection in list(self.open):
            connection.expire(self.now)

    def busy(self) -> int:
        """Connections with a request that has no answer yet."""
        return sum(not connection.idle for connection in self.open)

    def close_idle(self) -> None:
        """Close those without a request; the others close with their answer."""
        self.closing = True
        for connection in list(self.open):
            if connection.idle:
                connection.transport.close()

    def abort(self) -> int:
        """Cut everything off; returns how many requests were cut."""
        cut = self.busy()
        for connection in list(self.open):
            connection.transport.abort()
        return cut

    def make_room(self, newcomer: "Connection") -> None:
        """Close the longest idle connection when there are too many, but not the one that it is for."""
        if len(self.open) <= self.limits.connections:
            return
        # One that is saying goodbye has made its room already.
        staying = [connection for connection in self.open if not connection.transport.is_closing()]
        if len(staying) <= self.limits.connections:
            return
        # By name, not by age: until the next sweep the newcomer is as old as all that were used since the last.
        idle = [connection for connection in staying if connection.idle and connection is not newcomer]
        if idle:
            oldest = min(idle, key=lambda connection: connection.since)
            self.refuse("too-many-connections", oldest.peer)
            oldest.transport.close()

    def relieve(self) -> None:
        """Cut off who has not taken an answer for longest, until the others' answers fit into memory."""
        unsent = sum(connection.unsent for connection in self.waiting)
        while unsent > self.limits.unsent:
            oldest = next(iter(self.waiting))
            unsent -= oldest.unsent
            del self.waiting[oldest]
            self.refuse("slow-answer", oldest.peer)
            oldest.transport.abort()
