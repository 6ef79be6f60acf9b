"""A Service without a kube-proxy: one loopback port in front of those pods that are ready.

    python -m tests.cluster.relay PORT FILE

FILE (.json) is a JSON list of {"port": ..., "ready": URL}; it is read again all the time, and the ports that are ready
stand in FILE with .ready for .json. A new connection goes to the next backend whose URL answered 200 a moment ago, and
stays there, as connections through a Service do. It must not look into what it passes on.
"""

import asyncio
import contextlib
import itertools
import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

POLL_SECONDS = 0.25  # how long a backend that went unready may still get connections; kube-proxies take longer
TIMEOUT_SECONDS = 1.0


class Half(asyncio.Protocol):
    """One side of a connection; what it reads, the other writes."""

    def __init__(self) -> None:
        self.other: Half | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert self.other is not None
        assert self.other.transport is not None
        self.other.transport.write(data)

    def eof_received(self) -> bool:
        if self.other and self.other.transport and self.other.transport.can_write_eof():
            self.other.transport.write_eof()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        if self.other and self.other.transport:
            self.other.transport.close() if error is None else self.other.transport.abort()

    def pause_writing(self) -> None:
        if self.other and self.other.transport:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other and self.other.transport:
            self.other.transport.resume_reading()


class Accepted(Half):
    """The caller's side: it reads nothing before there is a backend to pass it to."""

    def __init__(self, relay: "Relay") -> None:
        super().__init__()
        self.relay = relay

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        self.transport.pause_reading()
        task = asyncio.get_running_loop().create_task(self.relay.join(self))
        self.relay.tasks.add(task)
        task.add_done_callback(self.relay.tasks.discard)


class Relay:
    """The backends that are ready, in turn."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.ready: list[int] = []
        self.turns = itertools.count()
        self.tasks: set[asyncio.Task[None]] = set()

    async def join(self, caller: Accepted) -> None:
        """Connect the caller to a backend; without one, reset it, as a Service without endpoints refuses."""
        assert caller.transport is not None
        for _ in self.ready[:]:
            port = self.ready[next(self.turns) % len(self.ready)]
            with contextlib.suppress(OSError):
                _, backend = await asyncio.get_running_loop().create_connection(Half, "127.0.0.1", port)
                caller.other, backend.other = backend, caller
                caller.transport.resume_reading()
                return
        caller.transport.abort()

    async def poll(self) -> None:
        while True:
            backends = json.loads(self.file.read_text())
            answers = await asyncio.gather(*(is_ready(backend["ready"]) for backend in backends))
            self.ready = [b["port"] for b, ready in zip(backends, answers, strict=True) if ready]
            new = self.file.with_suffix(".new-ready")
            new.write_text(json.dumps(self.ready))
            new.replace(self.file.with_suffix(".ready"))
            await asyncio.sleep(POLL_SECONDS)


async def is_ready(url: str) -> bool:
    """Whether a loopback URL answers 200 in time."""
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            try:
                writer.write(f"GET {parts.path} HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n".encode())
                return (await reader.readline()).split(b" ")[1:2] == [b"200"]
            finally:
                writer.close()
    except OSError:  # TimeoutError is one
        return False


async def main(port: int, file: Path) -> None:
    relay = Relay(file)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Accepted(relay), "127.0.0.1", port, backlog=1024)
    async with server:
        await relay.poll()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), Path(sys.argv[2])))
