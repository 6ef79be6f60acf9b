"""A replica whose event loop is stalled: not ready, then gone, and its log says whose review it was.

Each fault is a real one, in a process of its own. The times are those that the documentation promises.
"""

import json
import signal
import socket
import time
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.client import answer, call, connect, post, probe
from tests.support.process import Process, process
from webhook.server import watchdog
from webhook.server.replica import Addresses

STUCK = json.dumps(
    {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "stuck-uid", "namespace": "team-a", "name": "stuck", "operation": "CREATE", "object": {}},
    }
).encode()


def ready(at: Addresses) -> bool:
    """As a kubelet asks: no answer within a second is none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{at.metrics_port}/readyz", timeout=1) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def stall(server: Process, stack: ExitStack) -> tuple[float, float]:
    """Send the review; how long it then took until the replica was not ready, and until it was gone."""
    at = server.at()
    assert call(at)[0] == 200
    assert ready(at)
    connection = stack.enter_context(connect(at))
    began = time.monotonic()
    connection.sendall(post(STUCK))
    while ready(at):
        time.sleep(0.05)
    unready = time.monotonic() - began
    while not server.ended:
        assert not ready(at), "ready again, while the loop is stalled"
        assert time.monotonic() - began < 60, "nobody has ended it"
        time.sleep(0.05)
    return unready, time.monotonic() - began


@pytest.mark.parametrize("fault", ["asleep", "looping", "backtracking"])
def test_a_stalled_loop(tmp_path: Path, fault: str) -> None:
    """Readiness fails within two seconds, and a second later at most where no probe is answered; then the process ends
    with its own code, and one line says whose review it was."""
    with process(tmp_path, f"tests.support.stuck:{fault}") as server, ExitStack() as stack:
        unready, gone = stall(server, stack)
        print(f"{fault}: not ready after {unready:.1f} s, gone after {gone:.1f} s")
        assert server.exit_code() == watchdog.EXIT_CODE
        line = server.logged("stalled")
        assert (line["uid"], line["namespace"], line["name"]) == ("stuck-uid", "team-a", "stuck")
        assert (line["level"], line["exit_code"]) == ("error", watchdog.EXIT_CODE)
        assert fault in str(line["stack"])
        assert server.rest == []
        assert unready < 3


def test_a_loop_that_not_even_a_signal_reaches(tmp_path: Path) -> None:
    """Where the interpreter is not to be had at all, the process ends a little later, with a traceback of C's own."""
    with process(tmp_path, "tests.support.stuck:counting") as server, ExitStack() as stack:
        unready, gone = stall(server, stack)
        print(f"counting: not ready after {unready:.1f} s, gone after {gone:.1f} s")
        assert server.exit_code() == 1
        assert b"in counting" in b"".join(server.rest)
        assert unready < 3


def test_reviews_that_are_slow_are_no_stall(tmp_path: Path) -> None:
    """Ten seconds without a beat, but each second something is answered: not ready, and still there."""
    with process(tmp_path, "tests.support.stuck:slow") as server, ExitStack() as stack:
        at = server.at()
        connections = [stack.enter_context(connect(at)) for _ in range(10)]
        for connection in connections:
            connection.sendall(post(STUCK, path="/mutate"))
        assert [answer(connection)[0] for connection in connections] == [200] * 10
        assert call(at)[0] == 200
        assert ready(at)


def test_a_process_that_was_stopped_goes_on(tmp_path: Path) -> None:
    """Longer than a stall may last: it was not the loop's own."""
    with process(tmp_path) as server:
        at = server.at()
        server.signal(signal.SIGSTOP)
        time.sleep(watchdog.FATAL_SECONDS + 2)
        server.signal(signal.SIGCONT)
        assert call(at)[0] == 200
        time.sleep(1)
        assert ready(at)
        assert not server.ended


def test_probes_while_it_leaves(tmp_path: Path) -> None:
    """They are answered to the end of the lame-duck time: alive, and not ready."""
    with process(tmp_path, lame_duck=2.0) as server:
        at = server.at()
        server.signal(signal.SIGTERM)
        server.logged("stopping")
        assert probe(at, "/readyz")[0] == 503
        assert probe(at, "/livez")[0] == 200
        assert server.exit_code() == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", at.metrics_port))


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"request":{"uid":1}}', b"\xff", b'{"a":' * 100_000, None])
def test_whose_review_where_it_does_not_say(body: bytes | None) -> None:
    """Nothing is known, and nothing is raised."""
    assert watchdog.whose(body) == {}
