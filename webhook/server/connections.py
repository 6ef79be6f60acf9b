"""All open connections of one port, and which of them is closed when together they exceed a limit.

One sweep per second visits every connection; a timer per request would cost more than the request itself.
"""

from typing import TYPE_CHECKING

from webhook.server.limits import Limits
from webhook.server.request import Application, Refuse

if TYPE_CHECKING:
    from webhook.server.connection import Connection


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
