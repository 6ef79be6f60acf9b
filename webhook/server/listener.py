"""The HTTPS port's door: accepts connections, and counts those that have not finished TLS against limits of their own.

A handshake costs us 60 kB and its client nothing, so who does not get on with it must not keep others out: the oldest
makes room. What an event loop's own server does with a connection before its protocol hears of it cannot be bounded
from outside, hence `accept` here and `loop.connect_accepted_socket`. TLS begins once a client's first message has come
whole. Who sends nothing, or half of it, has a socket and nothing else, and does not compete with those who do.
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

RECORD_HEAD = 5
HANDSHAKE = 22
LONGEST_RECORD = 2**14
"""A TLS record begins with its type, two bytes of a version, and its length in two bytes; a ClientHello's type is 22.
Source: RFC 8446, 5.1
"""

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
        self._arriving: dict[socket.socket, _Pending] = {}  # before their first message is whole, the oldest first
        self._handshakes: dict[socket.socket, _Pending] = {}  # after it, the oldest first
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
        return len(self._arriving) + len(self._handshakes)

    def sweep(self) -> None:
        """Close what has not got through TLS in time."""
        last = self._connections.now - self._connections.limits.handshake
        for waiting in (self._arriving, self._handshakes):
            while waiting and next(iter(waiting.values())).since < last:
                self._drop(waiting, next(iter(waiting)))

    def close(self) -> None:
        """Accept nobody more, and let go of those who are not through TLS."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._bound)
        self._bound.close()
        for waiting in (self._arriving, self._handshakes):
            while waiting:
                self._drop(waiting, next(iter(waiting)))

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
        for waiting in (self._arriving, self._handshakes):
            for _ in range(min(BATCH, len(waiting))):
                self._drop(waiting, next(iter(waiting)))
        self._loop.remove_reader(self._bound)
        self._pause = self._loop.call_later(PAUSE_SECONDS, self._loop.add_reader, self._bound, self._accept)

    def _take(self, accepted: socket.socket, peer: str) -> None:
        accepted.setblocking(False)
        self._make_room(self._arriving, self._connections.limits.arriving)
        self._arriving[accepted] = _Pending(self._connections.now, peer)
        self._loop.add_reader(accepted, self._look, accepted)

    def _look(self, accepted: socket.socket) -> None:
        """More of its first message is there, or it left."""
        pending = self._arriving[accepted]
        try:
            start = accepted.recv(RECORD_HEAD + LONGEST_RECORD, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            start = b""
        wanted = _wanted(start)
        if not start:
            self._drop(self._arriving, accepted)
        elif pending.seen < len(start) < wanted:
            pending.seen = len(start)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)  # not to be called before
        else:  # it is whole, or no more will come of it
            self._begin(accepted)

    def _begin(self, accepted: socket.socket) -> None:
        self._loop.remove_reader(accepted)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        self._make_room(self._handshakes, self._connections.limits.handshakes)
        self._handshakes[accepted] = pending = self._arriving.pop(accepted)
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
                ssl_shutdown_timeout=limits.shutdown_timeout,
            )
        except OSError:
            pass  # no TLS, another's name, gone: counted as accepted and not as a handshake
        finally:
            through()

    def _make_room(self, waiting: dict[socket.socket, "_Pending"], limit: int) -> None:
        if len(waiting) >= limit:
            self._connections.refuse("half-open", next(iter(waiting.values())).peer)
            self._drop(waiting, next(iter(waiting)))

    def _drop(self, waiting: dict[socket.socket, "_Pending"], accepted: socket.socket) -> None:
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
        self.seen = 0  # bytes of its first message
        self.handshake: asyncio.Task[None] | None = None


def _wanted(start: bytes) -> int:
    """Bytes that a client's first message has, as far as they say; TLS may judge at once what is none."""
    if len(start) < RECORD_HEAD:
        return RECORD_HEAD
    length = int.from_bytes(start[3:RECORD_HEAD])
    return RECORD_HEAD + length if start[0] == HANDSHAKE and length <= LONGEST_RECORD else RECORD_HEAD


def _peer(address: tuple[str, int]) -> str:
    """Address and port as people write them; IPv4 has a prefix on a socket of both families."""
    host = address[0].removeprefix("::ffff:")
    return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
