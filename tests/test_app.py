"""The ASGI application of the HTTPS port, called in process: statuses, limits, counts, log lines."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.client import ANSWER, REVIEW, Recorder
from webhook.admission import Answer
from webhook.server.app import LARGEST_BODY, MOST_BYTES, SMALL_BODY, Webhook, _deadline
from webhook.server.metrics import Metrics

JSON = [(b"content-type", b"application/json")]


def allow(_body: bytes) -> Answer:
    return Answer(200, ANSWER, "unchanged", kind="Pod", operation="CREATE", uid="u1")


class Call:
    """One request to the application: its body's parts as they come, and what was answered."""

    def __init__(self, parts: Iterable[bytes] = (REVIEW,), **scope: Any) -> None:
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": "/mutate",
            "query_string": b"",
            "headers": JSON,
            **scope,
        }
        self.parts = list(parts)
        self.read = 0  # parts
        self.sent: list[Any] = []
        self.stalled = asyncio.Event()  # set when a part is waited for that never comes
        self.whole = True

    async def receive(self) -> dict[str, Any]:
        if self.read == len(self.parts):
            self.stalled.set()
            await asyncio.Event().wait()
        part = self.parts[self.read]
        self.read += 1
        more = self.read < len(self.parts) or not self.whole
        return {"type": "http.request", "body": part, "more_body": more}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        status: int = self.sent[0]["status"]
        return status

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])


class Desk:
    """An application with its metrics and its log."""

    def __init__(self, admit: Callable[[bytes], Answer] = allow, max_bodies: int = 8) -> None:
        self.metrics = Metrics()
        self.log = Recorder()
        self.app = Webhook(admit, self.metrics, self.log, max_bodies=max_bodies)

    def call(self, call: Call) -> Call:
        asyncio.run(self.app(call.scope, call.receive, call.send))
        return call


def test_a_review_is_answered_with_what_admit_said() -> None:
    """The body of the answer is admit's, as JSON, with its length."""
    call = Desk().call(Call())
    assert (call.status, call.body) == (200, ANSWER)
    assert call.headers == {b"content-type": b"application/json", b"content-length": b"%d" % len(ANSWER)}


def test_admit_sees_the_whole_body() -> None:
    """However it is cut, the body arrives in one piece."""
    seen: list[bytes] = []

    def admit(body: bytes) -> Answer:
        seen.append(body)
        return allow(body)

    Desk(admit).call(Call([REVIEW]))
    Desk(admit).call(Call([REVIEW[:10], b"", REVIEW[10:]]))
    assert seen == [REVIEW, REVIEW]


@pytest.mark.parametrize("media", [b"application/json", b"application/json; charset=utf-8", b"Application/JSON ;x=y"])
def test_json_is_taken_with_parameters(media: bytes) -> None:
    """Parameters and case of the content type do not matter."""
    assert Desk().call(Call(headers=[(b"content-type", media)])).status == 200


@pytest.mark.parametrize(
    "headers",
    [[], [(b"content-type", b"text/plain")], [(b"content-type", b"application/json-patch+json")]],
)
def test_other_content_types_are_refused(headers: list[tuple[bytes, bytes]]) -> None:
    """Anything that does not say it is JSON is 415, unread."""
    desk = Desk()
    call = desk.call(Call(headers=headers))
    assert (call.status, call.read) == (415, 0)
    assert desk.metrics.refused == {"content-type": 1}


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_only_post(method: str) -> None:
    """Other methods are 405 and told what is allowed."""
    call = Desk().call(Call(method=method))
    assert (call.status, call.headers[b"allow"]) == (405, b"POST")


def test_a_declared_length_over_the_limit_is_refused_unread() -> None:
    """Content-Length is believed before a byte of the body is read."""
    length = (b"content-length", b"%d" % (LARGEST_BODY + 1))
    call = Desk().call(Call(headers=[*JSON, length]))
    assert (call.status, call.read, call.headers[b"connection"]) == (413, 0, b"close")


def test_a_body_without_a_length_is_counted_while_it_comes() -> None:
    """An endless chunked body is refused as soon as it is over the limit, not when it ends."""
    mebibyte = b"x" * (1024 * 1024)
    call = Desk().call(Call([mebibyte] * 100))
    assert (call.status, call.read) == (413, 8)


def test_the_largest_body_is_taken() -> None:
    """Exactly the limit is still a review."""
    assert Desk().call(Call([b"x" * LARGEST_BODY])).status == 200
    assert Desk().call(Call([b"x" * (LARGEST_BODY - 1), b"x"])).status == 200


def half(*parts: bytes) -> Call:
    """A call whose body stops in the middle."""
    call = Call(parts or (b"{",))
    call.whole = False
    return call


async def beside(desk: Desk, halves: list[Call], calls: list[Call]) -> None:
    """Let `halves` stall in the middle of their bodies, then make `calls`."""
    tasks = [asyncio.create_task(desk.app(one.scope, one.receive, one.send)) for one in halves]
    async with asyncio.timeout(30):
        for one in halves:
            await one.stalled.wait()
    for call in calls:
        await desk.app(call.scope, call.receive, call.send)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_too_many_half_read_bodies() -> None:
    """One body over the limit is 429 with Retry-After; one that came whole needs no place."""
    desk = Desk(max_bodies=3)
    late, whole = Call([b"{", b"}"]), Call()
    asyncio.run(beside(desk, [half(), half(), half()], [late, whole]))
    assert (late.status, late.headers[b"retry-after"]) == (429, b"1")
    assert whole.status == 200
    assert desk.metrics.refused == {"busy": 1}


def test_places_of_half_read_bodies_come_back() -> None:
    """Clients that leave in the middle keep nothing."""
    desk = Desk(max_bodies=1)
    asyncio.run(beside(desk, [half()], []))
    assert desk.call(Call([b"{", b"}"])).status == 200
    assert desk.metrics.in_flight == 0


def test_large_bodies_cannot_keep_small_ones_out() -> None:
    """With all of the memory taken by large bodies, another large one is 429 and a usual review is answered."""
    desk = Desk(max_bodies=100)
    tenth = b"x" * (MOST_BYTES // 10)
    large, usual = Call([b"x" * SMALL_BODY, b"xx"]), Call([REVIEW[:10], REVIEW[10:]])
    asyncio.run(beside(desk, [half(tenth) for _ in range(10)], [large, usual]))
    assert (large.status, usual.status) == (429, 200)


def test_a_client_that_leaves_is_not_answered() -> None:
    """A request that breaks off has no answer, and is counted."""
    desk = Desk()

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    call = Call()
    asyncio.run(desk.app(call.scope, receive, call.send))
    assert call.sent == []
    assert desk.metrics.refused == {"client-gone": 1}


def test_work_that_nobody_awaits_is_dropped() -> None:
    """A review that is whole only after its timeout is not worked on."""
    desk = Desk(lambda _body: pytest.fail("was worked on"))
    assert desk.call(Call(query_string=b"timeout=0s")).status == 504
    assert desk.metrics.refused == {"deadline": 1}


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        (b"timeout=5s", 5),
        (b"a=b&timeout=1m0s", 60),
        (b"timeout=4.5s&x=y", 4.5),
        (b"timeout=500ms", 0.5),
        (b"timeout=1h2m3s", 3723),
        (b"", float("inf")),
        (b"timeout=", float("inf")),
        (b"timeout=soon", float("inf")),
        (b"xtimeout=5s", float("inf")),
        (b"timeout=\xff\x00", float("inf")),
    ],
)
def test_durations_as_go_spells_them(query: bytes, seconds: float) -> None:
    """What cannot be read is no deadline, rather than one that was never given."""
    assert _deadline(query) == seconds


def test_a_defect_is_500_and_told_to_the_log_only() -> None:
    """An exception's text reaches the log with its traceback, and never the client."""

    def admit(_body: bytes) -> Answer:
        raise RuntimeError("not for clients")

    desk = Desk(admit)
    call = desk.call(Call())
    assert call.status == 500
    assert b"not for clients" not in call.body
    assert b"Traceback" not in call.body
    (line,) = desk.log.lines
    assert line["level"] == "error"
    assert "not for clients" in line["traceback"]
    assert desk.metrics.requests == {("", "", "error", "unexpected", False): 1}


@pytest.mark.parametrize(
    ("outcome", "level"),
    [("injected", "debug"), ("skipped", "debug"), ("denied", "info"), ("bad-review", "info"), ("error", "error")],
)
def test_log_levels(outcome: str, level: str) -> None:
    """Decisions are debug, denials info, errors error; each one line with the review's uid."""
    desk = Desk(lambda _body: Answer(200, b"{}", outcome, uid="u7"))
    desk.call(Call())
    (line,) = desk.log.lines
    assert (line["level"], line["uid"]) == (level, "u7")


def test_everything_else_is_fastapis() -> None:
    """The root says what this is; unknown paths and wrong methods are short JSON; there is no schema to read."""
    root = Desk().call(Call([b""], method="GET", path="/", headers=[]))
    assert (root.status, b"/mutate" in root.body) == (200, True)
    for path in ("/nowhere", "/openapi.json", "/docs", "/redoc", "/mutate/", "/metrics"):
        call = Desk().call(Call([b""], method="GET", path=path, headers=[]))
        assert (call.status, call.headers[b"content-type"]) == (404, b"application/json")
    assert Desk().call(Call([b""], method="POST", path="/", headers=[])).status == 405


def test_metrics_are_what_happened() -> None:
    """Counts, buckets and gauges come out in Prometheus' own format, with labels of decisions only."""
    denied = Answer(200, ANSWER, "denied", code="unknown-type", kind="Pod", operation="CREATE", dry_run=True)
    desk = Desk(lambda _body: denied)
    for _ in range(3):
        desk.call(Call())
    desk.call(Call(method="GET"))
    families = {f.name: f for f in text_string_to_metric_families(desk.metrics.render().decode())}
    (requests,) = families["accel_webhook_requests"].samples
    assert requests.value == 3
    assert requests.labels == {
        "kind": "Pod",
        "operation": "CREATE",
        "result": "denied",
        "reason": "unknown-type",
        "dry_run": "true",
    }
    duration = families["accel_webhook_request_duration_seconds"].samples
    bounds = [sample.labels["le"] for sample in duration if sample.name.endswith("_bucket")]
    assert bounds == ["0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "1.0", "+Inf"]
    assert [sample.value for sample in duration if sample.name.endswith("_count")] == [3]
    (refused,) = families["accel_webhook_rejected"].samples
    assert (refused.labels, refused.value) == ({"reason": "method"}, 1)
    for name in ("in_flight", "cert_not_after_seconds", "config_info", "build_info", "ready", "connections"):
        assert f"accel_webhook_{name}" in families
