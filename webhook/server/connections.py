"""All open connections of one port: the limits of each and of all together, and which is closed when they are exceeded.

One sweep per second visits every connection; a timer per request would cost more than the request itself.
"""

from typing import TYPE_CHECKING

import msgspec

from webhook.server.request import Application, Refuse

if TYPE_CHECKING:
    from webhook.server.connection import Connection


class Limits(msgspec.Struct, frozen=True):
    """What one connection may use, and what all together may. Times are in seconds, sizes in bytes."""

    idle: float = 120.0
    """An API server keeps idle connections for 90 s and does not retry a POST on a connection that we close, so
    it must be the one that closes. A connection without a request yet is no different: Go opens some in
    reserve.
    Source: net/http DefaultTransport, IdleConnTimeout.
    """

    handshake: float = 5.0
    """Nobody waits longer for a TLS handshake: with our chart the API server gives the whole call 5 s."""

    shutdown_timeout: float = 2.0
    """How long a closing TLS connection may take to flush its data and exchange close_notify."""

    read: float = 10.0
    """From a request's first byte to its last. A review is written in one go."""

    answer: float = 30.0
    """From a request's last byte until its response has been read: the longest that an API server waits."""

    head: int = 64 * 1024
    """Request line and headers. An API server sends about 300."""

    body: int = 7 * 1024 * 1024
    """An API server accepts objects of up to 3 MiB, and a review can contain two, old and new.
    Source: sigs.k8s.io/controller-runtime v0.25.2 pkg/webhook/admission/http.go
    """

    request: int = 16 * 1024 * 1024
    """A whole request on the wire: twice the largest body, so that neither chunk framing nor trailers
    nor the rest of a refused body can be endless."""

    bodies: int = 1024
    """Bodies that may be partially read at once; one more is answered 429. One that arrives whole does not count."""

    half_read: int = 32 * 1024 * 1024
    """Partially read bodies of all connections together: four of the largest."""

    small: int = 64 * 1024
    """A body up to this size is exempt from `half_read`, so that large ones cannot keep it out."""

    unsent: int = 32 * 1024 * 1024
    """Responses of all connections that their clients do not read. Beyond it, the one that has waited longest is cut
    off."""

    poll_interval: float = 1.0
    """How often connections and watched files are checked: all times above may be exceeded by this much."""

    pipeline: int = 16
    """Requests that may arrive in one read. API servers do not pipeline."""

    arriving: int = 1000
    """Connections whose first TLS message is incomplete; one more closes the oldest."""

    handshakes: int = 400
    """Connections in the TLS handshake; one more closes the oldest. A genuine client finishes in milliseconds,
    and all API servers of a cluster together open some hundreds at once."""

    connections: int = 2000
    """One more closes the one that has been idle longest."""


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
        self.now = now  # our own seconds: the time of everything until the next sweep
        self._swept = now
        self.refuse = refuse
        self.names = names
        self.open: set[Connection] = set()
        self.waiting: dict[Connection, None] = {}  # those that do not read their response, the longest first
        self.closing = False  # every answer says `Connection: close`
        self.bodies = 0  # partially read
        self.half_read = 0  # bytes of them
        self.established = 0
        self.requests = 0

    def sweep(self, now: float) -> None:
        """Close what has taken too long. `now` is monotonic; time while we were suspended does not count."""
        self.now += min(now - self._swept, 2 * self.limits.poll_interval)
        self._swept = now
        for connection in list(self.open):
            connection.expire(self.now)

    def busy(self) -> int:
        """Connections with a request that has not been answered yet."""
        return sum(not connection.idle for connection in self.open)

    def close_idle(self) -> None:
        """Close those without a request; the others close after their response."""
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
        """Close the longest idle connection if there are too many, but not the newcomer."""
        if len(self.open) <= self.limits.connections:
            return
        # One that is closing has already made room.
        staying = [connection for connection in self.open if not connection.transport.is_closing()]
        if len(staying) <= self.limits.connections:
            return
        # By identity, not by age: until the next sweep the newcomer is as old as all that were used since the last one.
        idle = [connection for connection in staying if connection.idle and connection is not newcomer]
        if idle:
            oldest = min(idle, key=lambda connection: connection.since)
            self.refuse("too-many-connections", oldest.peer)
            oldest.transport.close()

    def relieve(self) -> None:
        """Cut off those that have not read a response for longest, until the others' responses fit into memory."""
        unsent = sum(connection.unsent for connection in self.waiting)
        while unsent > self.limits.unsent:
            oldest = next(iter(self.waiting))
            unsent -= oldest.unsent
            del self.waiting[oldest]
            self.refuse("slow-answer", oldest.peer)
            oldest.transport.abort()
