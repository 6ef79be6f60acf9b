"""A Service without a kube-proxy: one loopback port in front of those pods that are ready.

    relay.py PORT FILE [DELAY]

FILE (.json) is a JSON list of {"port": ..., "ready": URL}; it is read again all the time, and the ports that are
ready stand in FILE with .ready for .json. A new connection goes to the next backend whose URL answered 200 a moment
ago, and stays there, as connections through a Service do. DELAY is how many seconds what it passes on takes, either
way; 0 without it. It must not look into what it passes on.
"""

import asyncio
import contextlib
import itertools
import json
import sys
from asyncio import StreamReader, StreamWriter
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

POLL_SECONDS = 0.25  # how long a backend that went unready may still get connections; kube-proxies take longer
TIMEOUT_SECONDS = 1.0
CHUNK_BYTES = 1 << 16


class Relay:
    """The backends that are ready, in turn."""

    def __init__(self, file: Path, delay: float) -> None:
        self.file = file
        self.delay = delay
        self.ready: list[int] = []
        self.turns = itertools.count()

    async def accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Pass a connection on; without a backend, reset it, as a Service without endpoints refuses it."""
        backend = await self.connect()
        if backend is None:
            writer.transport.abort()
            return
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(copy(reader, backend[1], self.delay))
                both.create_task(copy(backend[0], writer, self.delay))
        except* OSError:
            for side in (writer, backend[1]):
                side.transport.abort()

    async def connect(self) -> tuple[StreamReader, StreamWriter] | None:
        """A connection to the next backend. One that is gone is not made up for: no Service does that either."""
        if not self.ready:
            return None
        port = self.ready[next(self.turns) % len(self.ready)]
        with contextlib.suppress(OSError):
            return await asyncio.open_connection("127.0.0.1", port)
        return None

    async def poll(self) -> None:
        """Find out all the time who is ready."""
        while True:
            backends = json.loads(self.file.read_text())
            answers = await asyncio.gather(*(is_ready(backend["ready"]) for backend in backends))
            self.ready = [b["port"] for b, ready in zip(backends, answers, strict=True) if ready]
            new = self.file.with_suffix(".new-ready")
            new.write_text(json.dumps(self.ready))
            new.replace(self.file.with_suffix(".ready"))
            await asyncio.sleep(POLL_SECONDS)


async def copy(reader: StreamReader, writer: StreamWriter, delay: float) -> None:
    """One direction, to its end, which is as late as what came before it."""
    while data := await reader.read(CHUNK_BYTES):
        await asyncio.sleep(delay)
        writer.write(data)
        await writer.drain()
    await asyncio.sleep(delay)
    writer.close()


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


async def main(port: int, file: Path, delay: float) -> None:
    """Serve until killed."""
    relay = Relay(file, delay)
    async with await asyncio.start_server(relay.accept, "127.0.0.1", port, backlog=1024):
        await relay.poll()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), Path(sys.argv[2]), float(*sys.argv[3:])))
