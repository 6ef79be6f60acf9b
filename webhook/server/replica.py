"""The life of one replica: start, listen, watch, stop. Knows about sockets, signals and files, but not about Pods.

An off-the-shelf server closes its listener at the first signal; a webhook must keep accepting while API servers learn
that it is shutting down.
"""

import asyncio
import ctypes
import gc
import mmap
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

import msgspec
import uvloop

from webhook import __version__, load
from webhook.core.admission import Answer, admit
from webhook.core.site import Site
from webhook.errors import BadConfig, BadSetting, Unusable
from webhook.server.app import Webhook
from webhook.server.connections import Connections
from webhook.server.health import Health, Operations
from webhook.server.limits import Limits
from webhook.server.listener import Listener
from webhook.server.log import Log, configure
from webhook.server.metrics import Metrics, prepare
from webhook.server.probes import Probes
from webhook.server.refusals import Refusals
from webhook.server.settings import Settings
from webhook.server.tls import Certificate, Pem, build
from webhook.server.watch import CertificateFiles, SiteFile, StateFile
from webhook.server.watchdog import Watchdog

RECEIVE_BUFFER = 64 * 1024
"""Bytes that the kernel buffers for a connection before we read them, which is also the maximum of one read.
The default is megabytes, and then nothing would bound the memory of a thousand senders."""

SEND_BUFFER = 128 * 1024
"""Bytes of responses that the kernel buffers for a client that does not read. The default is megabytes, too."""

SPARE_HANDLES = 100
"""File handles reserved for files, probes and scrapes."""

SPARE_BYTES = 32 * 1024 * 1024
TRIM_SECONDS = 10.0
"""If the process has grown by more than the first since the start, freed memory is returned to the system, at most
this often. glibc by itself keeps what a thousand connections or a few large bodies used, in fragments, and puts the
next ones next to it."""

LIMITS = Limits()

Admit = Callable[[bytes, Site], Answer]


class Stop:
    """How a shutdown has been requested: not at all, gracefully, without the lame-duck time, or now."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()
        self.now = asyncio.Event()

    def in_order(self) -> None:
        """From the cluster (SIGTERM); the second time, at once."""
        if self.asked.is_set():
            self.now.set()
            self.hurried.set()
        self.asked.set()

    def without_lame_duck(self) -> None:
        """From a person (Ctrl-C), when not behind a Service; the second time, at once."""
        self.in_order()
        self.hurried.set()


class Addresses(msgspec.Struct, frozen=True):
    """Where a replica can be reached, once it is listening."""

    port: int
    metrics_port: int
    ca: bytes = b""  # PEM that verifies the certificate, if it is self-signed


class Replica:
    """One webhook server on one event loop."""

    def __init__(self, settings: Settings, log: Log, decide: Admit, limits: Limits) -> None:
        self._settings = settings
        self._log = log
        self._metrics = Metrics()
        self._health = Health()
        self._limits = limits = msgspec.structs.replace(limits, bodies=settings.max_bodies)
        names = frozenset(name for given in settings.client_names for name in given.split(",") if name)
        self._site = SiteFile(settings.config, _parser(settings.config), self._health, self._metrics, log, _now)
        self._state = StateFile(settings.state_file, self._health, self._metrics)
        self._listener: Listener | None = None
        self._files = CertificateFiles(
            settings.cert_file,
            settings.key_file,
            settings.client_ca_file,
            settings.tls_min_version,
            self._health,
            self._metrics,
            log,
            _now,
        )
        site = self._site
        self._refusals = Refusals(self._metrics, log)
        self._webhook = Webhook(lambda body: decide(body, site.site), self._metrics, log, self._refusals)
        self._connections = Connections(self._webhook, limits, time.monotonic(), self._refusals, names)
        self._watchdog = Watchdog(log, lambda: self._webhook.deciding, self._progress)

    async def run(
        self, stop: Stop, started: Callable[[Addresses], None] = lambda _: None, *, alone: bool = False
    ) -> int:
        """Serve until told to stop; `alone` if the process does nothing else.

        Returns 0 if every call was answered, 1 if some had to be cut off.
        """
        probes = self._start_probes()
        self._watchdog.start(deadly=alone)
        watcher = asyncio.create_task(self._watch())
        try:
            certificate, ca = await self._first_certificate(stop)
            if certificate is None:
                return 0
            listener = self._listen(certificate)
            addresses = Addresses(listener.port, probes.port, ca)
            self._log.info("serving", version=__version__, port=addresses.port, metrics_port=addresses.metrics_port)
            started(addresses)
            await asyncio.to_thread(prepare)
            if alone:
                settle()
            await stop.asked.wait()
            return await self._leave(listener, stop)
        finally:
            watcher.cancel()
            probes.stop()
            self._watchdog.stop()

    def _start_probes(self) -> Probes:
        operations = Operations(self._health, self._metrics, _now, self._watchdog)
        connections = Connections(operations, self._limits, time.monotonic(), lambda *_: None)
        bound = _bind(self._settings.host, self._settings.metrics_port)
        return Probes(bound, connections, self._watchdog.tick)

    def _progress(self) -> int:
        accepted = self._listener.accepted if self._listener is not None else 0
        return accepted + self._connections.established + self._connections.requests

    def _listen(self, certificate: Certificate) -> Listener:
        bound = _bind(self._settings.host, self._settings.port)
        self._listener = Listener(bound, certificate, self._connections)
        self._health.listening = True
        return self._listener

    async def _first_certificate(self, stop: Stop) -> tuple[Certificate | None, bytes]:
        """The serving certificate, and the CA of a self-signed one. Waits, since the files may be written
        after we start."""
        if self._settings.self_signed:
            pem, ca = self_signed(_now())
            pair = build(pem, _now(), self._settings.tls_min_version)
            self._health.certificate_not_after = pair.not_after
            self._metrics.certificate_not_after = pair.not_after.timestamp()
            return Certificate(pair), ca
        self._files.poll()
        while self._files.certificate is None and not stop.asked.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.asked.wait(), 0.1)
            self._files.poll()
        return self._files.certificate, b""

    async def _watch(self) -> None:
        """Periodically: expire connections, reload changed files, return memory."""
        usual, trimmed = _resident(), time.monotonic()
        while True:
            try:
                now = time.monotonic()
                self._sweep(now)
                if now - trimmed > TRIM_SECONDS and _resident() > usual + SPARE_BYTES:
                    trimmed = now
                    _give_memory_back()
                self._state.poll()
                if self._files.certificate is not None:
                    self._files.poll()
                await self._site.poll()
            except Exception as error:
                self._log.error("watching failed", problem=repr(error))
            await asyncio.sleep(self._limits.poll_interval)

    def _sweep(self, now: float) -> None:
        self._connections.sweep(now)
        self._refusals.flush()
        if self._listener is not None:
            self._listener.sweep()
            self._metrics.accepted = self._listener.accepted
            self._metrics.pending = self._listener.pending
        self._metrics.in_flight = self._connections.busy()
        self._metrics.connections = len(self._connections.open)
        self._metrics.established = self._connections.established

    async def _leave(self, listener: Listener, stop: Stop) -> int:
        """Become unready and answer with `Connection: close`; then stop accepting; then finish the calls in flight."""
        self._health.draining = True
        self._connections.closing = True
        self._log.info("stopping", lame_duck=self._settings.lame_duck)
        await _wait(stop.hurried, self._settings.lame_duck)
        listener.close()
        self._connections.close_idle()
        await _until(lambda: not self._connections.open, stop.now, self._settings.drain_timeout)
        cut = self._connections.abort()
        self._log.info("stopped", cut_off=cut)
        return 1 if cut else 0


def serve(settings: Settings, decide: Admit = admit) -> int:
    """Run one replica in this process until a signal; returns the exit code. Problems are logged."""
    log = configure(settings.log_level)
    try:
        replica = Replica(settings.check(), log, decide, _within(_raise_file_limit(), LIMITS))
        return uvloop.run(_with_signals(replica))
    except (BadSetting, Unusable, BadConfig, OSError) as error:
        log.error("cannot start", problem=str(error))
        return 1


@contextmanager
def running(
    settings: Settings, decide: Admit = admit, log: Log | None = None, limits: Limits = LIMITS
) -> Iterator[Addresses]:
    """One replica in a thread of this process, for the duration of a `with`: for experiments, demos and tests."""
    up = threading.Event()
    found: list[Addresses] = []
    replica = Replica(settings, log or configure(settings.log_level), decide, limits)
    loop = uvloop.new_event_loop()
    stop = Stop()

    def announce(addresses: Addresses) -> None:
        found.append(addresses)
        up.set()

    def work() -> None:
        try:
            loop.run_until_complete(replica.run(stop, announce))
        finally:
            up.set()
            loop.close()

    thread = threading.Thread(target=work, name="accel-webhook", daemon=True)
    thread.start()
    up.wait()
    if not found:
        raise RuntimeError("the webhook did not start; its log says why")
    try:
        yield found[0]
    finally:
        loop.call_soon_threadsafe(stop.without_lame_duck)
        thread.join()


def settle() -> None:
    """Exempt the objects of start-up, which live forever, from garbage collection, and keep it from running several
    times per review: reference counting frees what a review creates, so only connections and errors leave cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


def self_signed(now: datetime) -> tuple[Pem, bytes]:
    """A certificate for this machine, created in memory, and the CA that a client must trust."""
    from certs import pki

    ca = pki.new_ca(now)
    leaf = pki.issue(ca, ("localhost", "127.0.0.1", "::1"), now, timedelta(days=365))
    return Pem(leaf.certificate, leaf.key), ca.certificate


async def _with_signals(replica: Replica) -> int:
    stop = Stop()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.in_order)
    loop.add_signal_handler(signal.SIGINT, stop.without_lame_duck)
    return await replica.run(stop, alone=True)


def _parser(path: str) -> Callable[[bytes], Site]:
    builtin = load.builtin()
    name = path or "defaults"
    return lambda data: Site.parse(data, name, builtin)


def _raise_file_limit() -> int:
    """Raise the limit of file handles to the system's maximum, which is returned; Go programs do the same at start."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


def _within(handles: int, limits: Limits) -> Limits:
    """Limits that leave file handles for everything else: each connection uses one."""
    wanted = limits.arriving + limits.handshakes + limits.connections
    share = min(1.0, (handles - SPARE_HANDLES) / wanted)
    return msgspec.structs.replace(
        limits,
        arriving=max(1, int(limits.arriving * share)),
        handshakes=max(1, int(limits.handshakes * share)),
        connections=max(1, int(limits.connections * share)),
    )


def _bind(host: str, port: int) -> socket.socket:
    """A socket on one address, or on all IPv4 and IPv6 addresses if none is given."""
    if host:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.create_server((host, port), family=family)
    elif socket.has_dualstack_ipv6():
        bound = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        bound = socket.create_server(("", port))
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    return bound


def _resident() -> int:
    """Resident memory of this process in bytes; 0 if the system does not say."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def _give_memory_back() -> None:
    """Takes a few milliseconds. Only glibc has and needs this."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _now() -> datetime:
    return datetime.now(UTC)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


async def _until(true: Callable[[], bool], event: asyncio.Event, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not true() and not event.is_set() and time.monotonic() < end:
        await _wait(event, 0.05)
