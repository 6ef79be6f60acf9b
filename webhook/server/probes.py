"""The plain-HTTP port on its own thread and event loop, so that it answers while the other loop is stalled."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable

import uvloop

from webhook.server.connection import Connection
from webhook.server.connections import Connections
from webhook.server.watchdog import BEAT_SECONDS


class Probes:
    """One listening socket. `tick` is called on its thread, every `BEAT_SECONDS`."""

    def __init__(self, bound: socket.socket, connections: Connections, tick: Callable[[], None]) -> None:
        self.port: int = bound.getsockname()[1]
        self._bound = bound
        self._connections = connections
        self._tick = tick
        self._loop = uvloop.new_event_loop()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="accel-probes", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop answering."""
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await self._loop.create_server(lambda: Connection(self._connections), sock=self._bound)
        self._beat()
        await self._stopped.wait()
        server.close()
        self._connections.abort()

    def _beat(self) -> None:
        self._loop.call_later(BEAT_SECONDS, self._beat)
        self._tick()
        self._connections.sweep(time.monotonic())
