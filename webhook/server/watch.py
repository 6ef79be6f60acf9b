"""Files that others replace while we serve: the certificate, the site config, the state of `accel certs run`.

Each is read about once a second and compared byte by byte. That costs microseconds, and unlike change events
or modification times it misses nothing: a kubelet swaps a symlink two directories up, others write in
place. Invalid contents are refused, logged once and counted, and the last good ones stay in use.
"""

import asyncio
import hashlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from webhook.core.site import Site
from webhook.errors import BadConfig, BadPair, Unusable
from webhook.server.health import Health
from webhook.server.log import Log
from webhook.server.metrics import Metrics
from webhook.server.tls import Certificate, Pair, Pem, build

Clock = Callable[[], datetime]


def read(path: str) -> bytes:
    """The file's content; raises `Unusable`."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Unusable(f"{path}: {error.strerror or error}") from None


class CertificateFiles:
    """Certificate, key and, if configured, the client CA: they are loaded together."""

    def __init__(
        self,
        cert: str,
        key: str,
        client_ca: str,
        minimum: str,
        health: Health,
        metrics: Metrics,
        log: Log,
        clock: Clock,
    ) -> None:
        self._paths = (cert, key, client_ca)
        self._minimum = minimum
        self._health = health
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._used: Pem | None = None
        self._doubt = ""  # what was wrong at the last poll
        self._problem = ""  # what was wrong twice in a row, and logged
        self.certificate: Certificate | None = None

    def poll(self) -> None:
        """Use the current files, if they are new and good.

        Bad ones are refused if they were bad in the same way the last time: files that are being
        replaced, or are half-written, get that long to become complete.
        """
        doubt = ""
        try:
            pem = self._read()
            if pem != self._used:
                self._use(build(pem, self._clock(), self._minimum))
            self._used, self._problem = pem, ""
        except (Unusable, BadPair) as error:
            doubt = str(error)
            if doubt == self._doubt:
                self._refuse(doubt)
        self._doubt = doubt

    def _read(self) -> Pem:
        cert, key, client_ca = self._paths
        return Pem(read(cert), read(key), read(client_ca) if client_ca else b"")

    def _use(self, pair: Pair) -> None:
        if self.certificate is None:
            self.certificate = Certificate(pair)
        else:
            self.certificate.use(pair)
        self._health.certificate_not_after = pair.not_after
        self._metrics.certificate_not_after = pair.not_after.timestamp()
        self._metrics.certificate_reloads["success"] += 1
        self._log.info("certificate in use", sha256=pair.sha256, names=pair.names, not_after=pair.not_after.isoformat())

    def _refuse(self, problem: str) -> None:
        if problem == self._problem:
            return
        self._problem = problem
        self._metrics.certificate_reloads["failure"] += 1
        effect = "the old one stays in use" if self.certificate else "waiting for a usable one"
        self._log.error("certificate refused", problem=problem, effect=effect)


class SiteFile:
    """The site config."""

    def __init__(
        self,
        path: str,
        parse: Callable[[bytes], Site],
        health: Health,
        metrics: Metrics,
        log: Log,
        clock: Clock,
    ) -> None:
        self._path = path
        self._parse = parse
        self._health = health
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._used = b""
        self._tried = b""  # what was parsed last, good or bad
        self._problem = ""
        self.site = self._first()

    def _first(self) -> Site:
        """The config to start with; raises `Unusable` or `BadConfig`, since there is no last good one yet."""
        self._used = read(self._path) if self._path else b""
        site = self._parse(self._used)
        self._loaded()
        return site

    async def poll(self) -> None:
        """Use the current file, if it is new and good. Parsed in a thread: a large one takes long."""
        if not self._path:
            return
        try:
            data = read(self._path)
            if data == self._used:
                self._recovered()
            elif data != self._tried:
                self._tried = data
                self.site = await asyncio.to_thread(self._parse, data)
                self._used = data
                self._metrics.config_reloads["success"] += 1
                self._loaded()
        except (Unusable, BadConfig) as error:
            self._refuse(str(error))

    def _recovered(self) -> None:
        self._problem = ""
        self._tried = self._used
        self._metrics.config_intact = True

    def _loaded(self) -> None:
        self._recovered()
        self._health.config_loaded = True
        self._metrics.config_sha256 = hashlib.sha256(self._used).hexdigest()[:12]
        self._metrics.config_loaded_at = self._clock().timestamp()
        self._log.info("site config in use", path=self._path or "defaults", sha256=self._metrics.config_sha256)

    def _refuse(self, problem: str) -> None:
        self._metrics.config_intact = False
        if problem == self._problem:
            return
        self._problem = problem
        self._metrics.config_reloads["failure"] += 1
        self._log.error("site config refused", problem=problem, effect="the old one stays in use")


class CertsState(msgspec.Struct, frozen=True):
    """What `accel certs run` reports."""

    ready: bool  # our CA is in every entry of the webhook configuration
    problem: str = ""  # why not, in a sentence


class StateFile:
    """The last known state of `accel certs run`: a missing or broken file changes nothing."""

    def __init__(self, path: str, health: Health, metrics: Metrics) -> None:
        self._path = path
        self._health = health
        self._metrics = metrics
        if path:
            health.state_problem = f"{path}: not written yet"
            metrics.ca_bundle_matches = False

    def poll(self) -> None:
        """Update from the file."""
        if not self._path:
            return
        try:
            state = msgspec.json.decode(read(self._path), type=CertsState)
        except (Unusable, msgspec.MsgspecError):
            return
        self._metrics.ca_bundle_matches = state.ready
        self._health.state_problem = (
            "" if state.ready else (state.problem or "the API server does not trust our CA yet")
        )
