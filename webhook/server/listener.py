"""Accepts connections on the HTTPS port, with separate limits for those that have not finished TLS.

A handshake costs us 60 kB and its client nothing, so clients that do not complete it must not keep others out: the
oldest is closed to make room. What an event loop's own server does with a connection before its protocol is called
cannot be bounded from outside, hence `accept` here and `loop.connect_accepted_socket`. TLS begins once a client's first
message is complete. A client that sends nothing, or half of it, uses only a socket, and does not compete with the rest.
"""

import asyncio
import socket

from webhook.server.connection import Connection
from webhook.server.connections import Connections
from webhook.server.tls import Certificate

BACKLOG = 2048
"""Connections that the kernel completes for us while we are busy: a burst of Pods opens one each."""

BATCH = 64
"""Connections that are accepted at once before other events are handled."""

RECORD_HEAD = 5
HANDSHAKE = 22
LONGEST_RECORD = 2**14
"""A TLS record begins with its type, two bytes of a version, and its length in two bytes; a ClientHello's type is 22.
Source: RFC 8446, 5.1
"""

PAUSE_SECONDS = 0.1
"""Before accepting again when the system is out of file handles or memory: retrying at once would busy-loop."""


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
        self._arriving: dict[socket.socket, _Pending] = {}  # before their first message is complete, oldest first
        self._handshakes: dict[socket.socket, _Pending] = {}  # after it, oldest first
        self._pause: asyncio.TimerHandle | None = None
        self.accepted = 0
        self._loop.add_reader(bound, self._accept)

    @property
    def port(self) -> int:
        """The configured port, or the one that the system chose."""
        port: int = self._bound.getsockname()[1]
        return port

    @property
    def pending(self) -> int:
        """Connections that have not finished TLS."""
        return len(self._arriving) + len(self._handshakes)

    def sweep(self) -> None:
        """Close connections that have not finished TLS in time."""
        last = self._connections.now - self._connections.limits.handshake
        for waiting in (self._arriving, self._handshakes):
            while waiting and next(iter(waiting.values())).since < last:
                self._drop(waiting, next(iter(waiting)))

    def close(self) -> None:
        """Stop accepting, and close connections that have not finished TLS."""
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
            except (BlockingIOError, ConnectionAbortedError):  # no more of them, or this one is gone already
                return
            except OSError as error:
                self._back_off(error)
                return
            self.accepted += 1
            self._take(accepted, _peer(address))

    def _back_off(self, error: OSError) -> None:
        """The system has no resources for another connection: release some, and try again later."""
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
        self._loop.add_reader(accepted, self._peek, accepted)

    def _peek(self, accepted: socket.socket) -> None:
        """More of the first message has arrived, or the client has gone."""
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
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)  # do not call again before that
        else:  # it is complete, or will never be
            self._begin(accepted)

    def _begin(self, accepted: socket.socket) -> None:
        self._loop.remove_reader(accepted)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        self._make_room(self._handshakes, self._connections.limits.handshakes)
        self._handshakes[accepted] = pending = self._arriving.pop(accepted)
        pending.handshake = self._loop.create_task(self._handshake(accepted, pending.peer))

    async def _handshake(self, accepted: socket.socket, peer: str) -> None:
        limits = self._connections.limits

        def done() -> None:
            self._handshakes.pop(accepted, None)

        try:
            await self._loop.connect_accepted_socket(
                lambda: Connection(self._connections, peer, done),
                accepted,
                ssl=self._certificate.context,
                ssl_handshake_timeout=limits.handshake,
                ssl_shutdown_timeout=limits.shutdown_timeout,
            )
        except OSError:
            pass  # not TLS, certificate rejected, client gone: counted as accepted but not as a handshake
        finally:
            done()

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
        accepted.close()  # if a transport owns it, as soon as that releases it


class _Pending:
    """A connection that has not finished TLS."""

    def __init__(self, since: float, peer: str) -> None:
        self.since = since
        self.peer = peer
        self.seen = 0  # bytes of its first message
        self.handshake: asyncio.Task[None] | None = None


def _wanted(start: bytes) -> int:
    """The length of a client's first message, as far as is known; what is not a ClientHello goes to TLS at once."""
    if len(start) < RECORD_HEAD:
        return RECORD_HEAD
    length = int.from_bytes(start[3:RECORD_HEAD])
    return RECORD_HEAD + length if start[0] == HANDSHAKE and length <= LONGEST_RECORD else RECORD_HEAD


def _peer(address: tuple[str, int]) -> str:
    """Address and port in the usual notation; IPv4 addresses have a prefix on a dual-stack socket."""
    host = address[0].removeprefix("::ffff:")
    return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
