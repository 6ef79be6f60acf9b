"""The HTTPS port's door: accepts connections, and counts those that have not finished TLS against limits of their own.

A handshake costs us 60 kB and its client nothing, so who does not get on with it must not keep others out: the oldest
makes room. What an event loop's own server does with a connection before its protocol hears of it cannot be bounded
from outside, hence `accept` here and `loop.connect_accepted_socket`. TLS begins with a client's first byte; one that
sends none has a socket and nothing else, and does not compete with those that do.
"""

import asyncio
import socket

from webhook.server.connection import Connection
from webhook.server.connections import Connections
from webhook.server.tls import Certificate

BACKLOG = 2048
"""Connections that the kernel completes for us while we are busy: a burst of pods opens one each."""

BATCH = 64
"""Connections that are accepted before others get their turn."""

PAUSE_SECONDS = 0.1
"""After the system had no file handle or memory for one more: trying at once would keep a core busy until it has."""


class Listener:
    """One listening socket on a running event loop."""

    def __init__(
        self,
        bound: socket.socket,
        certificate: Certificate,
        connections: Connections,
    ) -> None:
        bound.setblocking(False)
        bound.listen(BACKLOG)
        self._bound = bound
        self._certificate = certificate
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._silent: dict[socket.socket, _Pending] = {}  # those who have sent nothing, the oldest first
        self._handshakes: dict[socket.socket, _Pending] = {}  # those who have, the oldest first
        self._pause: asyncio.TimerHandle | None = None
        self.accepted = 0
        self._loop.add_reader(bound, self._accept)

    @property
    def port(self) -> int:
        """The one that was asked for, or that the system chose."""
        port: int = self._bound.getsockname()[1]
        return port

    @property
    def pending(self) -> int:
        """Connections that have not finished TLS."""
        return len(self._silent) + len(self._handshakes)

    def sweep(self, now: float) -> None:
        """Close what has not got through TLS in time."""
        last = now - self._connections.limits.handshake
        for waiting in (self._silent, self._handshakes):
            while waiting and next(iter(waiting.values())).since < last:
                self._drop_oldest(waiting)

    def close(self) -> None:
        """Accept nobody more, and let go of those who are not through TLS."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._bound)
        self._bound.close()
        for waiting in (self._silent, self._handshakes):
            while waiting:
                self._drop_oldest(waiting)

    def _accept(self) -> None:
        for _ in range(BATCH):
            try:
                accepted, address = self._bound.accept()
            except (BlockingIOError, ConnectionAbortedError):  # no more of them, or this one left already
                return
            except OSError as error:
                self._wait_a_little(error)
                return
            self.accepted += 1
            self._take(accepted, _peer(address))

    def _wait_a_little(self, error: OSError) -> None:
        """The system has nothing left for another connection: give some back, and try again later."""
        self._connections.refuse("accept-failed", problem=error.strerror or str(error))
        for waiting in (self._silent, self._handshakes):
            for _ in range(min(BATCH, len(waiting))):
                self._drop_oldest(waiting)
        self._loop.remove_reader(self._bound)
        self._pause = self._loop.call_later(PAUSE_SECONDS, self._loop.add_reader, self._bound, self._accept)

    def _take(self, accepted: socket.socket, peer: str) -> None:
        accepted.setblocking(False)
        self._make_room(self._silent, self._connections.limits.silent)
        self._silent[accepted] = _Pending(self._connections.now, peer)
        self._loop.add_reader(accepted, self._begin, accepted)

    def _begin(self, accepted: socket.socket) -> None:
        """Its first byte is there."""
        self._loop.remove_reader(accepted)
        self._make_room(self._handshakes, self._connections.limits.handshakes)
        self._handshakes[accepted] = pending = self._silent.pop(accepted)
        pending.handshake = self._loop.create_task(self._shake_hands(accepted, pending.peer))

    async def _shake_hands(self, accepted: socket.socket, peer: str) -> None:
        limits = self._connections.limits

        def through() -> None:
            self._handshakes.pop(accepted, None)

        try:
            await self._loop.connect_accepted_socket(
                lambda: Connection(self._connections, peer, through),
                accepted,
                ssl=self._certificate.context,
                ssl_handshake_timeout=limits.handshake,
                ssl_shutdown_timeout=limits.shutdown,
            )
        except OSError:
            pass  # no TLS, another's name, gone: counted as accepted and not as a handshake
        finally:
            through()

    def _make_room(self, waiting: dict[socket.socket, "_Pending"], limit: int) -> None:
        if len(waiting) >= limit:
            self._connections.refuse("half-open", next(iter(waiting.values())).peer)
            self._drop_oldest(waiting)

    def _drop_oldest(self, waiting: dict[socket.socket, "_Pending"]) -> None:
        accepted = next(iter(waiting))
        handshake = waiting.pop(accepted).handshake
        if handshake is None:
            self._loop.remove_reader(accepted)
        else:
            handshake.cancel()
        accepted.close()  # or, where a transport has it, as soon as that lets go of it


class _Pending:
    """A connection that has not finished TLS."""

    def __init__(self, since: float, peer: str) -> None:
        self.since = since
        self.peer = peer
        self.handshake: asyncio.Task[None] | None = None  # None before its first byte


def _peer(address: tuple[str, int]) -> str:
    """Address and port as people write them; IPv4 has a prefix on a socket of both families."""
    host = address[0].removeprefix("::ffff:")
    return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
