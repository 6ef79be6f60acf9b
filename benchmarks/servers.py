"""The servers that are compared, and how each one is started.

with Servers(directory, ca) as servers:
    ours = servers.start("accel", core=0)
    ours.url, ours.ca, ours.process.pid
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks import machine, programs
from tests.cluster.process import Process, answers, free_port, listening, wait_for
from tests.cluster.tinyca import TinyCA

START_SECONDS = 60
NAMES = ("accel", "floor", "read", "go", "textbook")
TITLES = {
    "accel": "accel-injector",
    "floor": "constant answer, our server (c)",
    "read": "reads and writes, decides nothing (f)",
    "go": "Go, controller-runtime (a)",
    "textbook": "FastAPI, deepcopy, jsonpatch (b)",
    "jobset": "JobSet's own pod webhook (e)",
    "cel": "CEL MutatingAdmissionPolicy (d)",
    "none": "no webhook",
}


@dataclass
class Server:
    """A running server. `ca`: the PEM file with which its certificate for `host` is verified."""

    name: str
    process: Process
    port: int
    ca: Path
    host: str = "localhost"
    path: str = "/mutate"
    metrics_port: int = 0
    ready_seconds: float = 0.0  # from the start of its process until it is ready

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}{self.path}"


class Servers:
    """Starts servers with certificates of one CA, and stops them."""

    def __init__(self, directory: Path, ca: TinyCA, *names: str) -> None:
        self._directory = directory
        self._running: list[Server] = []
        directory.mkdir(parents=True, exist_ok=True)
        pair = ca.server("localhost", *names)
        for file, content in (("tls.crt", pair.certificate), ("tls.key", pair.key), ("ca.crt", ca.certificate)):
            (directory / file).write_bytes(content)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for server in self._running:
            server.process.stop()

    def start(self, name: str, core: int | None = None, env: Mapping[str, str] | None = None) -> Server:
        """Start one of NAMES, on a core and in an environment if given, and wait until it is ready."""
        port, metrics_port = free_port(), free_port()
        command = self._command(name, port, metrics_port)
        began = time.monotonic()
        with machine.pinned(core) if core is not None else nullcontext():
            process = Process(name, command, self._directory / f"{name}.log", env)
        server = Server(name, process, port, self._directory / "ca.crt", metrics_port=metrics_port)
        self._running.append(server)
        wait_for(f"{name} to be ready", self._ready(server), START_SECONDS, [process])
        server.ready_seconds = time.monotonic() - began
        return server

    def stop(self, server: Server) -> None:
        server.process.stop()
        self._running.remove(server)

    def _ready(self, server: Server) -> Callable[[], bool]:
        if server.name in ("accel", "floor", "read"):
            return lambda: answers(f"http://127.0.0.1:{server.metrics_port}/readyz") and listening(server.port)
        return lambda: listening(server.port)

    def _command(self, name: str, port: int, metrics_port: int) -> list[str]:
        files = [f"--cert-file={self._directory / 'tls.crt'}", f"--key-file={self._directory / 'tls.key'}"]
        python = [sys.executable, "-m"]
        if name == "accel":
            accel = str(Path(sys.executable).with_name("accel"))
            ports = [f"--port={port}", f"--metrics-port={metrics_port}", "--lame-duck=0"]
            return [accel, "serve", "--host=127.0.0.1", *ports, *files]
        if name in ("floor", "read"):
            ports = [f"--port={port}", f"--metrics-port={metrics_port}"]
            read = ["--read"] if name == "read" else []
            return [*python, "benchmarks.peers.floor", "--review=jobset-pod", *read, *ports, *files]
        if name == "textbook":
            return [*python, "benchmarks.peers.textbook", f"--port={port}", *files]
        return [str(programs.ensure("peer")), f"--port={port}", f"--certs={self._directory}"]


def of_jobset(configurations: list[dict[str, Any]], process: Process, ca: Path) -> Server:
    """JobSet's controller manager as a server, at the URL of its own webhook for Pods."""
    for configuration in configurations:
        for entry in configuration["webhooks"]:
            if any("pods" in rule["resources"] for rule in entry["rules"]):
                address, _, path = entry["clientConfig"]["url"].removeprefix("https://").partition("/")
                return Server("jobset", process, int(address.rpartition(":")[2]), ca, path=f"/{path}")
    raise LookupError(f"no entry for pods in {json.dumps(configurations)[:200]}")
