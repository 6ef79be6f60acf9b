"""The real program, `accel serve`, among senders who mean it no good: good calls are answered and memory is bounded."""

import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.fuzz import reviews
from tests.support import mutants
from tests.support.case import site
from tests.support.client import answer, connect, post, trust
from tests.support.good_calls import GoodCalls
from tests.support.process import CA, accel_serve, peak_memory
from webhook.core.admission import admit
from webhook.server.replica import Addresses

MAX_MIB = 224  # of the process, at any moment; the chart gives its container 256
MIB = 1024 * 1024
SENDERS = 16  # at once, of each kind
SHARE = 2000  # mutants that are sent over TLS, of those that are tried in this process
SECONDS = 120  # that one sender goes on at most
SEED = 20261130


def pour(at: Addresses, context: ssl.SSLContext, first: bytes, rest: bytes) -> None:
    """Send `first`, then `rest` over and over, until the other side has had enough."""
    end = time.monotonic() + SECONDS
    with suppress(OSError), connect(at, context) as connection:
        connection.settimeout(SECONDS)
        connection.sendall(first)
        while time.monotonic() < end:
            connection.sendall(rest)
        pytest.fail("the other side takes it for ever")


def eight_mebibytes(at: Addresses, context: ssl.SSLContext) -> None:
    """A review that is too large by one MiB, with its length said."""
    send(at, context, post(b" " * (8 * MIB)))


def eight_mebibytes_in_chunks(at: Addresses, context: ssl.SSLContext) -> None:
    """The same in chunks, so that its size is known only when it is there."""
    chunk = b"%x\r\n%b\r\n" % (64 * 1024, b" " * 64 * 1024)
    send(at, context, post(b"", "Transfer-Encoding: chunked") + chunk * 128 + b"0\r\n\r\n")


def seven_mebibytes(at: Addresses, context: ssl.SSLContext) -> None:
    """The largest review that is read, and it is none."""
    send(at, context, post(b" " * (7 * MIB)))


def endless_chunks(at: Addresses, context: ssl.SSLContext) -> None:
    """A body that does not end."""
    pour(at, context, post(b"", "Transfer-Encoding: chunked"), b"%x\r\n%b\r\n" % (MIB, b" " * MIB))


def endless_tiny_chunks(at: Addresses, context: ssl.SSLContext) -> None:
    """The same, a byte a chunk."""
    pour(at, context, post(b"", "Transfer-Encoding: chunked"), b"1\r\n \r\n" * 10_000)


def endless_head(at: Addresses, context: ssl.SSLContext) -> None:
    """Headers that do not end."""
    pour(at, context, b"POST /mutate HTTP/1.1\r\nHost: x\r\n", b"x-more: " + b"y" * 1000 + b"\r\n")


def pipelining(at: Addresses, context: ssl.SSLContext) -> None:
    """Requests ahead of their answers, which nobody reads."""
    pour(at, context, b"", post(mutants.POD) * 20)


def garbage(at: Addresses, context: ssl.SSLContext) -> None:
    """Bytes that are no handshake, and bytes that are no HTTP."""
    chance = random.Random(SEED)
    for start in (b"\x16\x03\x01\xff\xff", b"GET / HTTP/1.1\r\n\r\n", b""):
        with suppress(OSError), socket.create_connection(("127.0.0.1", at.port), timeout=30) as plain:
            plain.sendall(start + chance.randbytes(4096))
            plain.recv(4096)
    send(at, context, chance.randbytes(64 * 1024))


def wrong_questions(at: Addresses, context: ssl.SSLContext) -> None:
    """Methods and paths that there are not."""
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
        for path in ("/mutate", "/", "/metrics", "/mutate/../../etc/passwd", "/" + "a" * 2000, "*", "//", "/%00"):
            send(at, context, f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())


def gone_in_the_middle(at: Addresses, context: ssl.SSLContext) -> None:
    """Half a review, then nothing more."""
    for part in (20, 200, 400):
        with suppress(OSError), connect(at, context) as connection:
            connection.sendall(post(mutants.POD)[:part])


ABUSE: tuple[Callable[[Addresses, ssl.SSLContext], None], ...] = (
    eight_mebibytes,
    eight_mebibytes_in_chunks,
    seven_mebibytes,
    endless_chunks,
    endless_tiny_chunks,
    endless_head,
    pipelining,
    garbage,
    wrong_questions,
    gone_in_the_middle,
)


def send(at: Addresses, context: ssl.SSLContext, data: bytes) -> None:
    """Send it and take what comes; being turned away in the middle is fine."""
    with suppress(OSError), connect(at, context) as connection:
        connection.settimeout(SECONDS)
        connection.sendall(data)
        connection.recv(4096)


def all_at_once(work: Callable[[Addresses, ssl.SSLContext], None], at: Addresses, context: ssl.SSLContext) -> None:
    threads = [threading.Thread(target=work, args=(at, context)) for _ in range(SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def standing(at: Addresses, context: ssl.SSLContext) -> Iterator[None]:
    """500 connections in the middle of a handshake, half of them silent, and 100 in the middle of a header."""
    with ExitStack() as stack:
        for number in range(500):
            half = stack.enter_context(socket.create_connection(("127.0.0.1", at.port), timeout=30))
            if number % 2:
                half.sendall(b"\x16\x03\x01")
        for _ in range(100):
            stack.enter_context(connect(at, context)).sendall(b"POST /mutate HTTP/1.1\r\nHost: x\r\nx-slow:")
        yield


def test_good_calls_among_bad_ones(tmp_path: Path) -> None:
    """Each abuse comes from 16 senders at once, beside 500 half-open and 100 slow connections."""
    if not Path("/proc/self/status").exists():
        pytest.skip("this system has no /proc to read the most memory from")
    context = trust(CA.certificate)
    with accel_serve(tmp_path) as (at, pid):
        for work in ABUSE:
            with GoodCalls(at) as good, standing(at, context):
                all_at_once(work, at, context)
            peak = peak_memory(pid)
            print(f"{work.__name__}: {good.answered} good calls answered, {len(good.failed)} not; {peak} MiB")
            assert good.failed == []
            assert good.answered > 0
        assert peak_memory(pid) < MAX_MIB


def test_mutated_reviews() -> None:
    """No answer is another than the contract knows, none takes too long for its body, and memory stays flat."""
    assert reviews.run(16_000, SEED)[:5] == []


@pytest.mark.soak
def test_a_hundred_thousand_mutated_reviews() -> None:
    """The same with others."""
    assert reviews.run(100_000, SEED + 1)[:5] == []


@pytest.mark.soak
def test_mutated_reviews_over_tls(tmp_path: Path) -> None:
    """Over the wire each mutant gets what `admit` says in this process."""
    ours = site(None)
    different = []
    with accel_serve(tmp_path) as (at, pid), connect(at) as connection:
        for mutant in mutants.mutants(SEED, SHARE):
            connection.sendall(post(mutant, path="/mutate"))
            status, _, body = answer(connection)
            reply = admit(mutant, ours)
            if (status, body.rstrip(b"\n")) != (reply.status, reply.body.rstrip(b"\n")):
                different.append((mutant[:500], status, body, reply.status, reply.body))
        peak = peak_memory(pid) if os.path.exists("/proc/self/status") else 0
    print(f"{SHARE} mutated reviews over TLS, one connection: {len(different)} differ; {peak} MiB")
    assert different[:3] == []
