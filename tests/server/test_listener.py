"""Connections that have not finished TLS: how many there may be, who has to go, and what they may cost."""

import resource
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.client import LOCAL, allow, call, connect, probe, rejected, trust
from tests.support.good_calls import GoodCalls
from tests.support.process import CA, accel_serve, peak_memory, process, until
from tests.support.recorder import Recorder
from webhook.server import replica
from webhook.server.limits import Limits
from webhook.server.replica import Addresses, running

MANY = 8000
MAX_MIB = 128  # of the process, at any moment of such an attack


def hello() -> bytes:
    """The first thing that a TLS client says."""
    outgoing = ssl.MemoryBIO()
    client = trust(CA.certificate).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


HELLO = hello()
HALF = {"nothing": b"", "one byte": HELLO[:1], "half a ClientHello": HELLO[: len(HELLO) // 2]}
SENT = {**HALF, "all of it": HELLO}


@contextmanager
def handles(wanted: int) -> Iterator[None]:
    """So many file handles for this process, while the block lasts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"this system gives a process {hard} file handles, and the test needs {wanted}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def half_open(at: Addresses, count: int, sent: bytes, stack: ExitStack) -> list[socket.socket]:
    """Connections that do not get on."""
    found = []
    for _ in range(count):
        found.append(stack.enter_context(socket.create_connection(("127.0.0.1", at.port), timeout=30)))
        if sent:
            found[-1].sendall(sent)
    return found


@pytest.mark.parametrize("sent", HALF.values(), ids=HALF.keys())
def test_eight_thousand_half_open_connections(tmp_path: Path, sent: bytes) -> None:
    """While they come and while they stand, each good call on `accel serve` is answered, and memory is bounded."""
    if not Path("/proc/self/status").exists():
        pytest.skip("this system has no /proc to read the most memory from")
    with handles(MANY + 500), accel_serve(tmp_path) as (at, pid), ExitStack() as stack:
        with GoodCalls(at) as good:
            half_open(at, MANY, sent, stack)
            answered = good.answered
            until(lambda: good.answered > answered + 5 or good.failed)
        print(f"{MANY} connections: {good.answered} good calls, {len(good.failed)} failed; {peak_memory(pid)} MiB")
        assert good.failed == []
        assert rejected(at)["half-open"] > MANY // 2
        assert peak_memory(pid) < MAX_MIB


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT.keys())
def test_the_oldest_makes_room(sent: bytes) -> None:
    """One too many closes the first, whatever it has sent, and no other."""
    with running(LOCAL, allow, Recorder(), Limits(arriving=3, handshakes=3)) as at, ExitStack() as stack:
        first, *others = half_open(at, 4, sent, stack)
        until_closed(first)
        for connection in others:
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                until_closed(connection)
        assert rejected(at)["half-open"] == 1
        assert call(at)[0] == 200


def until_closed(connection: socket.socket) -> None:
    """Or the test fails, since its timeout is no ConnectionError."""
    with suppress(ConnectionError):
        while connection.recv(4096):
            pass


def test_half_open_connections_keep_no_handshake_out() -> None:
    """Those who have not sent a whole ClientHello do not compete with those who have, nor the other way round."""
    with running(LOCAL, allow, Recorder(), Limits(arriving=2, handshakes=2)) as at, ExitStack() as stack:
        waiting = half_open(at, 2, HELLO, stack)
        for connection in waiting:
            assert connection.recv(1)  # its handshake has begun
        half_open(at, 20, HELLO[:100], stack)
        until(lambda: rejected(at).get("half-open") == 18)
        assert call(at)[0] == 200  # by which the oldest of each kind had to go
        until_closed(waiting[0])
        until(lambda: rejected(at)["half-open"] == 20)


@pytest.mark.parametrize("size", [1, 4, 5, 6, 100])
def test_a_first_message_in_pieces(size: int) -> None:
    """However a ClientHello is cut, TLS begins with all of it."""
    with running(LOCAL, allow, Recorder()) as at:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = trust(at.ca).wrap_bio(incoming, outgoing, server_hostname="localhost")
        with socket.create_connection(("127.0.0.1", at.port), timeout=30) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with pytest.raises(ssl.SSLWantReadError):
                client.do_handshake()
            first = outgoing.read()
            for start in range(0, len(first), size) if size > 1 else (*range(10), 10):
                end = len(first) if size == 1 and start == 10 else start + size
                plain.sendall(first[start:end])
                time.sleep(0.01)
            while not _finished(client):
                received = plain.recv(65536)
                assert received, "closed in the middle of a handshake"
                incoming.write(received)
            assert client.version() == "TLSv1.3"


def _finished(client: ssl.SSLObject) -> bool:
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def test_whoever_leaves_in_the_middle() -> None:
    """Whether it had said something or not, nothing of it stays."""
    with running(LOCAL, allow, Recorder()) as at:
        for sent in SENT.values():
            with socket.create_connection(("127.0.0.1", at.port), timeout=30) as plain:
                plain.sendall(sent)
                time.sleep(0.05)
                plain.shutdown(socket.SHUT_WR)
                until_closed(plain)
        assert "accel_webhook_connections_pending 0.0" in metrics_after_a_sweep(at)
        assert call(at)[0] == 200


def test_whoever_is_through_is_not_pending() -> None:
    """Connections that have finished TLS do not count, however many others come and go."""
    with running(LOCAL, allow, Recorder(), Limits(arriving=3, handshakes=3)) as at, ExitStack() as stack:
        established = [stack.enter_context(connect(at)) for _ in range(6)]
        half_open(at, 20, b"", stack)
        until(lambda: rejected(at).get("half-open", 0) == 17)
        for connection in established:
            connection.settimeout(0.1)
            with pytest.raises(TimeoutError):
                connection.recv(1)
        assert "accel_webhook_connections 6.0" in metrics_after_a_sweep(at)


def metrics_after_a_sweep(at: Addresses) -> str:
    time.sleep(1.2)
    return probe(at, "/metrics")[1]


def test_silence_ends() -> None:
    """One that sends nothing is closed after the time of a handshake, as one that begins and stops."""
    with running(LOCAL, allow, Recorder(), Limits(handshake=1, poll_interval=0.1)) as at, ExitStack() as stack:
        for sent in SENT.values():
            (connection,) = half_open(at, 1, sent, stack)
            until_closed(connection)
        assert "accel_webhook_connections_pending 0.0" in metrics_after_a_sweep(at)


def test_no_file_handles_left(tmp_path: Path) -> None:
    """A replica that cannot accept goes on with those that it has, does not try all the time, and says why; it serves
    again as soon as it can."""
    with process(tmp_path) as server, ExitStack() as stack:
        at = server.at()
        assert call(at)[0] == 200
        now = len(list(Path(f"/proc/{server.pid}/fd").iterdir()))
        kept = stack.enter_context(connect(at, trust(CA.certificate)))
        _, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (now + 1, hard))
        half_open(at, 20, b"", stack)
        time.sleep(1)
        assert "Too many open files" in str(server.logged("turned away")["problem"])
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (hard, hard))
        until(lambda: rejected(at)["accept-failed"] > 0)
        assert rejected(at)["accept-failed"] < 40  # it would be thousands without a pause
        assert call(at)[0] == 200
        kept.settimeout(0.1)
        with pytest.raises(TimeoutError):
            kept.recv(1)


def test_half_open_connections_give_their_handles_back(tmp_path: Path) -> None:
    """When they hold all that there are, some have to go before anybody else does."""
    with process(tmp_path) as server, ExitStack() as stack:
        at = server.at()
        now = len(list(Path(f"/proc/{server.pid}/fd").iterdir()))
        _, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (now + 20, hard))
        half_open(at, 100, b"", stack)
        server.logged("turned away")
        with connect(at, trust(CA.certificate)) as connection:
            connection.settimeout(30)
            assert connection.version() == "TLSv1.3"


def test_limits_leave_file_handles_for_the_rest() -> None:
    """Where the system gives few, there are fewer connections of each kind, and at least one."""
    usual = Limits()
    assert replica._within(1_000_000, usual) == usual
    for handles_ in (0, 150, 1024):
        limits = replica._within(handles_, usual)
        assert min(limits.arriving, limits.handshakes, limits.connections) >= 1
        assert handles_ < 150 or limits.arriving + limits.handshakes + limits.connections <= handles_ - 100
