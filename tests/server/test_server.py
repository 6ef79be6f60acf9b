"""A real replica on loopback, over TLS: what it answers, and whom it does not let hold it up.

Time limits are set short where a test waits for one. How long something took is never asserted, only that it
ended.
"""

import json
import os
import re
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certs import directory, pki
from tests.support.checkout import ROOT
from tests.support.client import (
    ANSWER,
    LOCAL,
    REVIEW,
    allow,
    answer,
    call,
    closed,
    connect,
    post,
    probe,
    rejected,
    trust,
)
from tests.support.identity import identity
from tests.support.process import CA, issue, peak_memory, process, until
from tests.support.process import replica as started
from tests.support.recorder import Recorder
from webhook.core.admission import Answer
from webhook.core.site import Site
from webhook.errors import BadSetting
from webhook.server import watchdog
from webhook.server.limits import Limits
from webhook.server.log import configure
from webhook.server.replica import SPARE_HANDLES, Addresses, running
from webhook.server.settings import Settings

SHORT = Limits(handshake=1, read=1, idle=2, shutdown_timeout=1, poll_interval=0.1)


@pytest.fixture(scope="module")
def replica() -> Iterator[Addresses]:
    """One replica with the limits of production."""
    with running(LOCAL, allow, Recorder()) as at:
        yield at


@pytest.fixture(scope="module")
def impatient() -> Iterator[Addresses]:
    """One replica with limits short enough to wait for."""
    with running(LOCAL, allow, Recorder(), SHORT) as at:
        yield at


def test_a_connection_is_kept(replica: Addresses) -> None:
    """Several reviews go over one connection, and no answer says to close it."""
    with connect(replica) as connection:
        for _ in range(5):
            connection.sendall(post())
            status, headers, body = answer(connection)
            assert (status, body) == (200, ANSWER)
            assert "connection" not in headers


def test_answers_give_nothing_away(replica: Addresses) -> None:
    """No server header: an answer has what it needs and no more."""
    _, headers, _ = call(replica)
    assert set(headers) == {"content-type", "content-length"}


def test_chunks_are_put_together(replica: Addresses) -> None:
    """A chunked review is a review."""
    half = len(REVIEW) // 2
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (REVIEW[:half], REVIEW[half:]))
    status, _, body = call(replica, post(chunks + b"0\r\n\r\n", "Transfer-Encoding: chunked"))
    assert (status, body) == (200, ANSWER)


def test_expect_continue(replica: Addresses) -> None:
    """A client that asks first is told to go on."""
    with connect(replica) as connection:
        whole = post(REVIEW, "Expect: 100-continue")
        connection.sendall(whole[: -len(REVIEW)])
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(REVIEW)
        assert answer(connection)[0] == 200


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /mutate HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"HEAD /mutate HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 415),
        (
            b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n",
            413,
        ),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        (b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"DELETE / HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        (b"GET /mutate/../mutate HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"not http at all\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"CONNECT other:443 HTTP/1.1\r\nHost: other\r\n\r\n", 400),
        (b"POST /mutate HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /mutate HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST /mutate HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    ],
)
def test_odd_requests_get_an_answer(replica: Addresses, request_: bytes, status: int) -> None:
    """Wrong methods, paths, types and framing are answered, not hung up on."""
    with connect(replica) as connection:
        connection.sendall(request_)
        head = connection.recv(1000)
    assert head.startswith(b"HTTP/1.1 %d " % status)


def test_http_1_0(replica: Addresses) -> None:
    """It is answered and closed, whatever it would like."""
    with connect(replica) as connection:
        connection.sendall(post(REVIEW, "Connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        status, headers, body = answer(connection)
        assert (status, headers["connection"], body) == (200, "close", ANSWER)
        assert closed(connection) == b""


def test_head_has_no_body(replica: Addresses) -> None:
    """The next answer on the connection begins where it should."""
    with connect(replica) as connection:
        connection.sendall(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n" + post())
        head, _, rest = closed_after(connection, ANSWER).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        assert rest.startswith(b"HTTP/1.1 200 OK")


def closed_after(connection: socket.socket, end: bytes) -> bytes:
    """Everything that comes until `end`."""
    found = b""
    while not found.endswith(end):
        part = connection.recv(65536)
        assert part, found
        found += part
    return found


def test_scheme_and_host_in_the_request_line(replica: Addresses) -> None:
    """Proxies may send them, and a server must understand it (RFC 9112, 3.2.2)."""
    assert call(replica, post(path="https://webhook:443/mutate?timeout=5s"))[0] == 200
    assert call(replica, post(path="https://webhook:443"))[0] == 405
    assert call(replica, post(path="https://webhook:443/nowhere"))[0] == 404


def test_a_refused_request_does_not_spoil_the_next(replica: Addresses) -> None:
    """Its body is read and dropped."""
    with connect(replica) as connection:
        wrong = post(b"x" * 50_000).replace(b"application/json", b"text/plain", 1)
        connection.sendall(wrong + post())
        assert [answer(connection)[0] for _ in range(2)] == [415, 200]


def test_an_answer_before_rubbish(replica: Addresses) -> None:
    """What came whole is answered, and what follows it is told that it is no HTTP."""
    with connect(replica) as connection:
        connection.sendall(post() + b"rubbish\r\n\r\n")
        assert answer(connection)[0] == 200
        assert closed(connection).startswith(b"HTTP/1.1 400 ")


def test_websocket_is_not_spoken(replica: Addresses) -> None:
    """An upgrade is not made; the request is answered as what else it is."""
    with connect(replica) as connection:
        connection.sendall(
            b"GET /mutate HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        assert connection.recv(1000).startswith(b"HTTP/1.1 405 ")


def pour(connection: socket.socket, part: bytes) -> None:
    """Send `part` over and over until the other side has had enough."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            connection.sendall(part)
        except (ConnectionError, ssl.SSLError):
            return
    pytest.fail("the other side takes it for ever")


def test_an_endless_chunked_body(replica: Addresses) -> None:
    """It is refused at the limit, and the connection ends whether the client stops or not."""
    before = rejected(replica).get("too-large", 0)
    with connect(replica) as connection:
        connection.sendall(post(b"", "Transfer-Encoding: chunked"))
        pour(connection, b"%x\r\n%b\r\n" % (256 * 1024, b" " * 256 * 1024))
    assert rejected(replica)["too-large"] == before + 1
    assert call(replica)[0] == 200


@pytest.mark.parametrize("part", [b"x-more: " + b"y" * 1000 + b"\r\n", b"y" * 1000], ids=["many", "long"])
def test_endless_trailers(replica: Addresses, part: bytes) -> None:
    """Trailers after the last chunk are bounded as all of a request is."""
    before = rejected(replica).get("request-too-large", 0)
    with connect(replica) as connection:
        connection.sendall(post(b"2\r\n{}\r\n0\r\nx-first: ", "Transfer-Encoding: chunked"))
        pour(connection, part)
    assert rejected(replica)["request-too-large"] == before + 1
    assert call(replica)[0] == 200


@pytest.mark.parametrize("start", [b"POST /mutate HTTP/1.1\r\nHost: x\r\nx-first: ", b"GET /"], ids=["headers", "path"])
@pytest.mark.parametrize("part", [b"x-more: " + b"y" * 1000 + b"\r\n", b"y" * 1000], ids=["many", "long"])
def test_an_endless_head(replica: Addresses, start: bytes, part: bytes) -> None:
    """A head over 64 KiB is cut off, whether it has many headers or one that does not end."""
    with connect(replica) as connection:
        connection.sendall(start)
        pour(connection, part)
    assert call(replica)[0] == 200


def test_pipelined_requests(replica: Addresses) -> None:
    """Requests sent ahead are answered in their order."""
    with connect(replica) as connection:
        connection.sendall(post() + b"GET /mutate HTTP/1.1\r\nHost: x\r\n\r\n" + post())
        assert [answer(connection)[0] for _ in range(3)] == [200, 405, 200]


def test_pipelining_without_end(replica: Addresses) -> None:
    """Thousands of requests ahead on one connection end that connection and nobody else's."""
    with connect(replica) as connection:
        pour(connection, post() * 50)
    assert rejected(replica)["pipelined"] >= 1
    assert call(replica)[0] == 200


def test_http_1_1_where_h2_is_offered(replica: Addresses) -> None:
    """A client that would rather speak HTTP/2 is told to speak HTTP/1.1."""
    with connect(replica, trust(replica.ca, ("h2", "http/1.1"))) as connection:
        assert connection.selected_alpn_protocol() == "http/1.1"
        connection.sendall(post())
        assert answer(connection)[0] == 200


def test_garbage_instead_of_tls(replica: Addresses) -> None:
    """Bytes that are no handshake close that connection only."""
    for garbage in (
        b"\x00" * 500,
        b"GET / HTTP/1.1\r\n\r\n",
        os.urandom(4096),
        b"\x16\x03\x01\xff\xff" + b"\x01" * 9000,
    ):
        with socket.create_connection(("127.0.0.1", replica.port), timeout=30) as connection:
            try:
                connection.sendall(garbage)
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            closed(connection)
    assert call(replica)[0] == 200


def test_slow_headers(impatient: Addresses) -> None:
    """A request that does not get to its end is answered 408 and closed."""
    with connect(impatient) as connection:
        connection.sendall(b"POST /mutate HTTP/1.1\r\nHost:")
        assert closed(connection).startswith(b"HTTP/1.1 408 ")
    assert rejected(impatient)["slow-request"] >= 1


def test_a_slow_body(impatient: Addresses) -> None:
    """A body that drips, a byte at a time, is cut off as one that stands still."""
    stop = threading.Event()
    with connect(impatient) as connection:
        connection.sendall(post()[:-100])

        def drip() -> None:
            while not stop.wait(0.1):
                try:
                    connection.sendall(b" ")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        assert closed(connection).startswith(b"HTTP/1.1 408 ")
        stop.set()
        thread.join()


def test_a_review_that_nobody_awaits_any_more(replica: Addresses) -> None:
    """One whose last byte comes after its timeout is not worked on; its connection stays of use."""
    request = post(path="/mutate?timeout=100ms")
    with connect(replica) as connection:
        connection.sendall(request[:-10])
        time.sleep(0.3)
        connection.sendall(request[-10:])
        assert answer(connection)[0] == 504
        connection.sendall(post())
        assert answer(connection)[0] == 200


def test_a_refused_body_that_never_ends(impatient: Addresses) -> None:
    """Its answer is there, and the rest of it is not waited for."""
    with connect(impatient) as connection:
        connection.sendall(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nhalf")
        rest = closed(connection)
        assert rest.startswith(b"HTTP/1.1 415 ")
        assert rest.count(b"HTTP/1.1 ") == 1


def test_idle_connections_are_closed(impatient: Addresses) -> None:
    """Those that never sent anything, and those that did once."""
    with connect(impatient) as silent, connect(impatient) as used:
        used.sendall(post())
        assert answer(used)[0] == 200
        assert closed(used) == b""
        assert closed(silent) == b""


def test_five_hundred_half_open_connections(impatient: Addresses) -> None:
    """While 500 connections sit in the middle of a handshake a review is answered; then they are let go."""
    with ExitStack() as stack:
        half_open = [
            stack.enter_context(socket.create_connection(("127.0.0.1", impatient.port), timeout=30)) for _ in range(500)
        ]
        for connection in half_open[::2]:
            connection.sendall(b"\x16\x03\x01")  # the first bytes of a handshake record
        assert call(impatient)[0] == 200
        for connection in half_open:
            closed(connection)
    assert call(impatient)[0] == 200


def test_memory_under_abuse(tmp_path: Path) -> None:
    """500 half-open and 300 idle connections and 40 half-read bodies of 7 MiB: a good call is answered, and
    all of it together stays below what the chart gives a container."""
    if not Path("/proc/self/status").exists():
        pytest.skip("this system has no /proc to read the most memory from")
    with process(tmp_path) as replica, ExitStack() as stack:
        at, context = replica.at(), trust(CA.certificate)
        for _ in range(500):
            stack.enter_context(socket.create_connection(("127.0.0.1", at.port), timeout=30))
        for _ in range(300):
            stack.enter_context(connect(at, context))
        senders = [stack.enter_context(connect(at, context)) for _ in range(40)]
        large = post(b" " * (7 * 1024 * 1024))[:-1]
        threads = [threading.Thread(target=_send, args=(sender, large)) for sender in senders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert call(at)[0] == 200
        assert rejected(at)["busy"] > 0
        peak = peak_memory(replica.pid)
        print(f"500 half-open and 300 idle connections, 40 bodies of 7 MiB: at most {peak} MiB")
        assert peak < 200


def _send(connection: ssl.SSLSocket, data: bytes) -> None:
    with suppress(OSError):  # turned away in the middle
        connection.sendall(data)


def halves(at: Addresses, count: int, sent: bytes, stack: ExitStack) -> list[ssl.SSLSocket]:
    """Connections that stop in the middle of a body."""
    found = [stack.enter_context(connect(at)) for _ in range(count)]
    for connection in found:
        connection.sendall(sent)
    return found


def test_too_many_half_read_bodies() -> None:
    """One over the limit is 429 with Retry-After; one that comes whole needs no place, and places come back."""
    settings = msgspec.structs.replace(LOCAL, max_bodies=3)
    with running(settings, allow, Recorder(), Limits(poll_interval=0.1)) as at, ExitStack() as stack:
        half = halves(at, 3, post()[:-10], stack)
        until(lambda: "accel_webhook_in_flight 3.0" in probe(at, "/metrics")[1])
        (late,) = until_refused(at, "busy", lambda: halves(at, 1, post()[:-10], stack))
        status, headers, _ = answer(late)
        assert (status, headers["retry-after"]) == (429, "1")
        late.sendall(post()[-10:] + post())  # the rest is dropped, and the connection is still of use
        assert answer(late)[0] == 200
        assert call(at)[0] == 200
        half[0].close()
        until(lambda: rejected(at).get("client-gone") == 1)
        half[1].sendall(post()[-10:])
        assert answer(half[1])[0] == 200
        for _ in range(2):
            halves(at, 1, post()[:-10], stack)
        assert rejected(at)["busy"] == 1


def until_refused(at: Addresses, reason: str, work: Callable[[], list[ssl.SSLSocket]]) -> list[ssl.SSLSocket]:
    """What `work` made, once the replica has counted a refusal for that reason."""
    made = work()
    until(lambda: rejected(at).get(reason, 0) > 0)
    return made


def test_large_bodies_cannot_keep_small_ones_out() -> None:
    """With all of the memory taken by large bodies, another large one is 429 and a usual review is answered."""
    limits = Limits(half_read=1_000_000, small=10_000, poll_interval=0.1)
    with running(LOCAL, allow, Recorder(), limits) as at, ExitStack() as stack:
        halves(at, 1, post(b"x" * 1_000_000)[:-1], stack)
        until(lambda: "accel_webhook_in_flight 1.0" in probe(at, "/metrics")[1])
        until_refused(at, "busy", lambda: halves(at, 1, post(b"x" * 200_000)[:-1], stack))
        (small,) = halves(at, 1, post(b"x" * 9_000)[:-1], stack)
        small.sendall(b"x")
        assert answer(small)[0] == 200


def test_the_largest_body() -> None:
    """Exactly the limit is taken, in one piece or in chunks; one byte more is 413, and closes the connection."""
    seen: list[bytes] = []

    def decide(body: bytes, site: Site) -> Answer:
        seen.append(body)
        return allow(body, site)

    def chunked(body: bytes) -> bytes:
        chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:1], body[1:3], body[3:])]
        return post(b"".join(chunks) + b"0\r\n\r\n", "Transfer-Encoding: chunked")

    largest = os.urandom(100_000)
    with running(LOCAL, decide, Recorder(), Limits(body=len(largest))) as at:
        for request in (post(largest), chunked(largest)):
            assert call(at, request)[0] == 200
        for request in (post(largest + b"x"), chunked(largest + b"x")):
            status, headers, _ = call(at, request)
            assert (status, headers["connection"]) == (413, "close")
    assert seen == [largest, largest]


def stream() -> bytes:
    """Requests of every kind, one after the other on one connection; the last one closes it."""
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (REVIEW[:7], REVIEW[7:9], REVIEW[9:]))
    return b"".join(
        (
            post(),
            post(chunks + b"0\r\nx-trailer: y\r\n\r\n", "Transfer-Encoding: chunked"),
            post(b"x" * 300).replace(b"application/json", b"text/plain", 1),
            b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n",
            post(b"", path="/nowhere"),
            post(REVIEW, "Connection: close"),
        )
    )


@settings(max_examples=40, deadline=None)
@given(cuts=st.lists(st.integers(1, len(stream()) - 1), max_size=12))
def test_a_stream_in_pieces(replica: Addresses, cuts: list[int]) -> None:
    """However requests are cut, the same answers come in the same order."""
    with connect(replica) as connection:
        for start, end in pairwise([0, *sorted(set(cuts)), len(stream())]):
            connection.sendall(stream()[start:end])
            time.sleep(0.002)
        found = closed(connection)
    assert re.findall(rb"HTTP/1.1 (\d+)", found) == [b"200", b"200", b"415", b"200", b"404", b"200"]
    assert found.count(ANSWER) == 3


LARGE = b"y" * 2_000_000


def large(_body: bytes, _site: Site) -> Answer:
    """An answer that no socket takes at once."""
    return Answer(200, LARGE, "unchanged")


def test_a_large_answer_to_a_slow_reader() -> None:
    """It arrives whole, however the client takes it, and the connection is of use afterwards."""
    with running(LOCAL, large, Recorder()) as at, connect(at) as connection:
        for _ in range(2):
            connection.sendall(post())
            time.sleep(0.2)
            status, headers, body = answer(connection)
            assert (status, body == LARGE, "connection" in headers) == (200, True, False)


def test_a_large_answer_before_a_farewell() -> None:
    """A client that asked to close gets all of it first."""
    with running(LOCAL, large, Recorder()) as at:
        status, headers, body = call(at, post(REVIEW, "Connection: close"))
        assert (status, headers["connection"], body == LARGE) == (200, "close", True)


def test_answers_that_nobody_reads() -> None:
    """Who does not read is cut off: at once when it asks for more, after a while when it does not, and as the one that
    has waited longest when all such answers together are too much. Those who read are answered."""
    limits = Limits(answer=1, poll_interval=0.1, unsent=8_000_000)
    with running(LOCAL, large, Recorder(), limits) as at, ExitStack() as stack:
        greedy = stack.enter_context(connect(at))
        greedy.sendall(post())
        time.sleep(0.3)
        greedy.sendall(post())
        until(lambda: rejected(at).get("pipelined") == 1)
        deaf = stack.enter_context(connect(at))
        deaf.sendall(post())
        until(lambda: rejected(at).get("slow-answer") == 1)
        many = [stack.enter_context(connect(at)) for _ in range(12)]
        for connection in many:
            connection.sendall(post())
        assert call(at)[2] == LARGE
        until(lambda: rejected(at)["slow-answer"] == 13)


def test_too_many_connections() -> None:
    """One over the limit closes the one that has been idle longest, and is served itself: each of many that
    come within one sweep, when all of them are equally old."""
    with running(LOCAL, allow, Recorder(), Limits(connections=3, poll_interval=30.0)) as at, ExitStack() as stack:
        open_now = [stack.enter_context(connect(at)) for _ in range(3)]
        for connection in open_now:
            connection.sendall(post())
            answer(connection)
        for _ in range(20):
            newcomer = stack.enter_context(connect(at))
            newcomer.sendall(post())
            assert answer(newcomer)[0] == 200
            open_now.append(newcomer)
        assert sum(_is_closed(connection) for connection in open_now) == 20


def _is_closed(connection: ssl.SSLSocket) -> bool:
    connection.settimeout(1)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_a_defect_is_not_shown_to_the_client() -> None:
    """An exception in admit is 500 without its text, and the next call is answered."""

    def fail(_body: bytes, _site: object) -> None:
        raise RuntimeError("not for clients")

    with running(LOCAL, fail, Recorder()) as at:  # type: ignore[arg-type]
        for _ in range(2):
            status, _, body = call(at)
            assert status == 500
            assert b"not for clients" not in body


def test_a_log_that_fails_costs_no_answer() -> None:
    """When a line cannot be written, the line is lost and not the review that it is about."""

    class Full:
        lost = 0

        def write(self, _line: bytes) -> None:
            self.lost += 1
            raise OSError("no space left on device")

        def flush(self) -> None:
            raise ValueError("I/O operation on closed file")

    full = Full()
    with running(LOCAL, allow, configure("debug", full)) as at, connect(at) as connection:
        for _ in range(2):
            connection.sendall(post())
            assert answer(connection)[0] == 200
    assert full.lost > 2


def test_the_real_thing_says_who_it_cannot_read() -> None:
    """With the product's own admit: junk is 400 in one line."""
    with running(LOCAL, log=Recorder()) as at:
        for junk in (b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"a":' * 5000):
            status, _, body = call(at, post(junk))
            assert (status, body.count(b"\n") <= 1) == (400, True)


def test_probes_and_metrics(replica: Addresses) -> None:
    """The plain port has health, readiness and metrics; the HTTPS port has none of them."""
    call(replica)
    assert probe(replica, "/healthz") == (200, "alive\n")
    assert probe(replica, "/livez") == (200, "alive\n")
    assert probe(replica, "/readyz") == (200, "ready\n")
    assert probe(replica, "/nowhere")[0] == 404
    status, text = probe(replica, "/metrics")
    assert status == 200
    assert "accel_webhook_requests_total" in text
    assert "accel_webhook_ready 1.0" in text
    assert call(replica, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")[0] == 404


def from_files(folder: Path, **more: object) -> Settings:
    """Settings of a replica that serves what is in `folder`."""
    return Settings(
        host="127.0.0.1",
        port=0,
        metrics_port=0,
        cert_file=str(folder / "tls.crt"),
        key_file=str(folder / "tls.key"),
        lame_duck=0,
        **more,  # type: ignore[arg-type]
    )


def served(at: Addresses) -> str:
    """The fingerprint of the certificate that a new connection is shown."""
    with connect(at, trust(CA.certificate)) as connection:
        peer = connection.getpeercert(binary_form=True)
        assert peer is not None
        return pki.fingerprint(ssl.DER_cert_to_PEM_cert(peer).encode())


def test_no_call_fails_while_certificates_are_swapped(tmp_path: Path) -> None:
    """New and kept connections go on through 20 reloads, each of which is seen."""
    issue(tmp_path)
    calls, failures, stop = [0, 0], [], threading.Event()

    def fresh(at: Addresses) -> None:
        context = trust(CA.certificate)
        while not stop.is_set():
            try:
                with connect(at, context) as connection:
                    connection.sendall(post())
                    assert answer(connection)[0] == 200
                calls[0] += 1
            except Exception as error:
                failures.append(repr(error))

    def kept(at: Addresses) -> None:
        with connect(at, trust(CA.certificate)) as connection:
            while not stop.is_set():
                try:
                    connection.sendall(post())
                    assert answer(connection)[0] == 200
                    calls[1] += 1
                except Exception as error:
                    failures.append(repr(error))
                    return

    with running(from_files(tmp_path), allow, Recorder(), SHORT) as at:
        threads = [threading.Thread(target=work, args=(at,)) for work in (fresh, kept)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(20):
                wanted = pki.fingerprint(issue(tmp_path).certificate)
                until(lambda wanted=wanted: served(at) == wanted)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert 'accel_webhook_cert_reloads_total{result="success"} 21.0' in probe(at, "/metrics")[1]
    print(f"20 reloads: {calls[0]} calls on new connections, {calls[1]} on a kept one, {len(failures)} failed")
    assert failures == []
    assert min(calls) > 0


def test_a_mismatched_pair_does_not_reach_clients(tmp_path: Path) -> None:
    """The key of another certificate is refused and counted, and calls go on with the old pair."""
    first = issue(tmp_path)
    with running(from_files(tmp_path), allow, Recorder()) as at:
        other = pki.issue(CA, ("localhost",), datetime.now(UTC))
        directory.write(tmp_path, {"tls.crt": first.certificate, "tls.key": other.key})
        until(lambda: 'accel_webhook_cert_reloads_total{result="failure"} 1.0' in probe(at, "/metrics")[1])
        assert served(at) == pki.fingerprint(first.certificate)
        assert probe(at, "/readyz")[0] == 200


def test_ready_once_every_entry_trusts_us(tmp_path: Path) -> None:
    """With a state file, ready means that `certs run` says so."""
    issue(tmp_path)
    state = tmp_path / "state.json"
    with running(from_files(tmp_path, state_file=str(state)), allow, Recorder()) as at:
        status, text = probe(at, "/readyz")
        assert (status, "not written yet" in text) == (503, True)
        state.write_text(json.dumps({"ready": True, "problem": ""}))
        until(lambda: probe(at, "/readyz")[0] == 200)
        state.unlink()
        assert probe(at, "/readyz")[0] == 200


def test_clients_are_asked_for_their_certificate(tmp_path: Path) -> None:
    """With a client CA and names: none, a stranger's and another name are refused; CN and DNS name are let
    in."""
    issue(tmp_path)
    clients, strangers = (pki.new_ca(datetime.now(UTC)) for _ in range(2))
    (tmp_path / "clients.pem").write_bytes(clients.certificate)
    names = ("kube-apiserver,api.example", "another")
    settings = from_files(tmp_path, client_ca_file=str(tmp_path / "clients.pem"), client_names=names)

    def status(client: Path | None) -> int:
        context = trust(CA.certificate)
        if client is not None:
            context.load_cert_chain(client)
        try:
            with connect(at, context) as connection:
                connection.sendall(post())
                return answer(connection)[0]
        except (OSError, Exception):
            return 0

    with running(settings, allow, Recorder()) as at:
        assert status(None) == 0
        assert status(identity(strangers, "kube-apiserver", tmp_path / "1.pem")) == 0
        assert status(identity(clients, "somebody", tmp_path / "2.pem")) == 0
        assert status(identity(clients, "kube-apiserver", tmp_path / "3.pem")) == 200
        assert status(identity(clients, "x", tmp_path / "4.pem", ("api.example",))) == 200
        assert rejected(at)["client-name"] == 1
        assert probe(at, "/readyz")[0] == 200


def test_sigterm_in_its_order(tmp_path: Path) -> None:
    """Not ready at once; answers go on, each with a farewell, also to new connections; then the door; then 0."""
    with process(tmp_path, lame_duck=3.0) as replica:
        at = replica.at()
        with connect(at) as kept, connect(at) as idle:
            kept.sendall(post())
            assert "connection" not in answer(kept)[1]
            replica.signal(signal.SIGTERM)
            replica.logged("stopping")
            assert probe(at, "/readyz") == (503, "not ready: stopping\n")
            assert probe(at, "/healthz")[0] == 200
            kept.sendall(post())
            status, headers, _ = answer(kept)
            assert (status, headers["connection"]) == (200, "close")
            assert closed(kept) == b""
            status, headers, _ = call(at)
            assert (status, headers["connection"]) == (200, "close")
            assert closed(idle) == b""  # one that is never used ends with the lame-duck time
        assert replica.exit_code() == 0
        with pytest.raises(OSError, match="refused"):
            connect(at)
        assert replica.logged("stopped")["cut_off"] == 0


def test_a_call_in_flight_is_finished(tmp_path: Path) -> None:
    """A body half read when the listener closes is read to its end and answered."""
    with process(tmp_path, lame_duck=0.0) as replica:
        with connect(replica.at()) as connection:
            connection.sendall(post()[:-10])
            time.sleep(0.5)  # so that it has been read
            replica.signal(signal.SIGTERM)
            replica.logged("stopping")
            time.sleep(0.5)
            connection.sendall(post()[-10:])
            status, headers, _ = answer(connection)
            assert (status, headers["connection"]) == (200, "close")
        assert replica.exit_code() == 0


def test_a_second_signal_is_now(tmp_path: Path) -> None:
    """Neither the lame-duck time nor a call in flight is waited for, and the exit code says that one was cut."""
    with process(tmp_path, lame_duck=600.0, drain_timeout=600.0) as replica:
        with connect(replica.at()) as connection:
            connection.sendall(post()[:-10])
            time.sleep(0.5)
            replica.signal(signal.SIGTERM)
            replica.logged("stopping")
            replica.signal(signal.SIGTERM)
            assert replica.exit_code() == 1
        assert replica.logged("stopped")["cut_off"] == 1


def test_ctrl_c_has_no_lame_duck(tmp_path: Path) -> None:
    """Nobody routes calls to a replica that a person stops."""
    with process(tmp_path, lame_duck=600.0) as replica:
        replica.at()
        replica.signal(signal.SIGINT)
        assert replica.exit_code() == 0


def test_a_signal_while_waiting_for_files(tmp_path: Path) -> None:
    """Alive but not ready without a certificate, and stopped by one signal."""
    with started(cert_file=str(tmp_path / "no.crt"), key_file=str(tmp_path / "no.key")) as replica:
        assert "no.crt" in str(replica.logged("certificate refused")["problem"])
        replica.signal(signal.SIGTERM)
        assert replica.exit_code() == 0


def test_what_stops_a_start_is_said(tmp_path: Path) -> None:
    """A config that is broken from the start, and a port that is taken: one line, exit code 1."""
    (tmp_path / "config.yaml").write_text("platform: moon\n")
    with started(self_signed=True, config=str(tmp_path / "config.yaml")) as replica:
        assert replica.exit_code() == 1
        assert "platform" in str(replica.logged("cannot start")["problem"])
    with started(self_signed=True, cert_file="x") as replica:
        assert replica.exit_code() == 1
        assert "--self-signed" in str(replica.logged("cannot start")["problem"])


@pytest.mark.parametrize(
    ("wrong", "flag"),
    [
        ({}, "--cert-file"),
        ({"cert_file": "a"}, "--key-file"),
        ({"self_signed": True, "key_file": "b"}, "--self-signed"),
        ({"self_signed": True, "client_names": ("a",)}, "--client-names"),
        ({"self_signed": True, "port": 65536}, "--port"),
        ({"self_signed": True, "port": 8080}, "--metrics-port"),
        ({"self_signed": True, "lame_duck": -1.0}, "--lame-duck"),
        ({"self_signed": True, "max_bodies": 0}, "--max-bodies"),
    ],
)
def test_settings_that_cannot_work(wrong: dict[str, object], flag: str) -> None:
    """Each names the flag to change."""
    with pytest.raises(BadSetting, match=flag):
        Settings(**wrong).check()  # type: ignore[arg-type]


def test_the_page_says_the_limits() -> None:
    """docs/operating.md has the numbers that the code has, and a row for each reason that a limit has."""
    page = (ROOT / "docs" / "operating.md").read_text().replace(",", "")
    rows = {row.split("`")[-2]: row for row in page.splitlines() if row.startswith("| ") and row.endswith("` |")}
    limits, kib = Limits(), 1024
    assert f"| {limits.arriving} {limits.handshake:.0f} s each" in page
    assert f"| {limits.handshakes} {limits.handshake:.0f} s each" in rows["half-open"]
    assert f"| {limits.connections} {limits.idle:.0f} s idle" in rows["too-many-connections"]
    sizes = f"{limits.head // kib} KiB; {limits.body // kib**2} MiB; {limits.request // kib**2} MiB"
    assert sizes in rows["request-too-large"]
    assert f"| {limits.read:.0f} s |" in rows["slow-request"]
    assert f"| {Settings().max_bodies} (`--max-bodies`) {limits.half_read // kib**2} MiB together" in rows["busy"]
    assert f"| {limits.answer:.0f} s {limits.unsent // kib**2} MiB together" in rows["slow-answer"]
    assert f"| {limits.pipeline} |" in rows["pipelined"]
    handles = SPARE_HANDLES + limits.arriving + limits.handshakes + limits.connections
    assert f"fewer than {handles} files" in page


def test_the_page_says_when_a_replica_ends() -> None:
    """And with what."""
    page = (ROOT / "docs" / "operating.md").read_text()
    assert f"| {watchdog.UNREADY_SECONDS} s | `/readyz` returns 503" in page
    assert f"| {watchdog.FATAL_SECONDS:.0f} s | the process exits with code {watchdog.EXIT_CODE}, " in page
    assert f"| {watchdog.LAST_SECONDS:.0f} s | the same if not even a signal gets through: exit code 1" in page
