"""A replica in its own process: with a replaced `decide` function, or as the real program `accel serve`."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from certs import directory, pki
from tests.support.checkout import ACCEL, ROOT
from webhook.server.replica import Addresses

CA = pki.new_ca(datetime.now(UTC))

PROGRAM = """
import sys
from {module} import {decide}
from webhook.server.replica import serve
from webhook.server.settings import Settings
sys.exit(serve(Settings(host="127.0.0.1", port=0, metrics_port=0, **{more!r}), {decide}))
"""


def until(true: Callable[[], object], seconds: float = 30) -> None:
    """Wait until a condition is true, which must happen in time."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.05)


def issue(folder: Path) -> pki.KeyPair:
    """Writes a new key pair to `folder`, as `certs run` and kubelets do."""
    pair = pki.issue(CA, ("localhost", "127.0.0.1"), datetime.now(UTC))
    directory.write(folder, {"tls.crt": pair.certificate, "tls.key": pair.key})
    return pair


def peak_memory(pid: int) -> int:
    """The peak resident memory of a process, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM"))


class Process:
    """A program that logs like a replica."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=ROOT)
        self.lines: list[dict[str, object]] = []
        self.rest: list[bytes] = []  # lines that are not JSON
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.startswith(b"{"):
                self.lines.append(json.loads(line))
            else:
                self.rest.append(line)

    def logged(self, message: str) -> dict[str, object]:
        """Waits for the log line with this message, and returns it."""
        until(lambda: any(line["message"] == message for line in self.lines))
        return next(line for line in self.lines if line["message"] == message)

    def at(self) -> Addresses:
        line = self.logged("serving")
        return Addresses(int(str(line["port"])), int(str(line["metrics_port"])), CA.certificate)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def exit_code(self) -> int:
        code = self._process.wait(60)
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()
        return code

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        if not self.ended:
            self._process.kill()
        self.exit_code()


def replica(decide: str = "tests.support.client:allow", **settings: object) -> Process:
    """A replica with this `decide` function, given as module:name."""
    module, _, name = decide.partition(":")
    return Process(sys.executable, "-c", PROGRAM.format(module=module, decide=name, more=settings))


def process(folder: Path, decide: str = "tests.support.client:allow", **settings: object) -> Process:
    """The same, with a certificate from `CA` in `folder`."""
    issue(folder)
    return replica(decide, cert_file=str(folder / "tls.crt"), key_file=str(folder / "tls.key"), **settings)


@contextmanager
def accel_serve(folder: Path) -> Iterator[tuple[Addresses, int]]:
    """`accel serve` with a certificate from `CA`: addresses and process id. It must still run when the block ends."""
    issue(folder)
    flags = ["--host=127.0.0.1", "--port=0", "--metrics-port=0", "--lame-duck=0"]
    flags += [f"--cert-file={folder / 'tls.crt'}", f"--key-file={folder / 'tls.key'}"]
    with Process(ACCEL, "serve", *flags) as running:
        yield running.at(), running.pid
        assert not running.ended, running.lines
