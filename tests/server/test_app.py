"""The application of the HTTPS port, called in process: statuses, counts, log lines."""

from collections.abc import Callable
from time import perf_counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.client import ANSWER, REVIEW
from tests.support.recorder import Recorder
from webhook.core.admission import Answer
from webhook.server.app import Webhook, _deadline
from webhook.server.metrics import Metrics
from webhook.server.refusals import Refusals
from webhook.server.request import JSON, TEXT, Head, Reply


def allow(_body: bytes) -> Answer:
    return Answer(200, ANSWER, "unchanged", kind="Pod", operation="CREATE", uid="u1")


def head(
    path: bytes = b"/mutate",
    *,
    method: bytes = b"POST",
    query: bytes = b"",
    media: bytes = b"application/json",
    age: float = 0.0,
) -> Head:
    """The head of a request that arrived `age` seconds ago."""
    return Head(method, path, query, media, perf_counter() - age, "192.0.2.1:4242")


class Desk:
    """An application with its metrics and its log."""

    def __init__(self, admit: Callable[[bytes], Answer] = allow) -> None:
        self.metrics = Metrics()
        self.log = Recorder()
        self.app = Webhook(admit, self.metrics, self.log, Refusals(self.metrics, self.log))

    def call(self, asked: Head | None = None, body: bytes = REVIEW) -> Reply:
        """One request, as a connection hands it over."""
        asked = asked or head()
        return self.app.early(asked) or self.app.answer(asked, body)


def test_a_review_is_answered_with_what_admit_said() -> None:
    """The body of the answer is admit's, as JSON; admit sees the body as it came."""
    seen: list[bytes] = []

    def admit(body: bytes) -> Answer:
        seen.append(body)
        return allow(body)

    reply = Desk(admit).call()
    assert (reply.status, reply.body, reply.headers, reply.close) == (200, ANSWER, JSON, False)
    assert seen == [REVIEW]


@pytest.mark.parametrize("media", [b"application/json", b"application/json; charset=utf-8", b"Application/JSON ;x=y"])
def test_json_is_taken_with_parameters(media: bytes) -> None:
    """Parameters and case of the content type do not matter."""
    assert Desk().call(head(media=media)).status == 200


@pytest.mark.parametrize("media", [b"", b"text/plain", b"application/json-patch+json"])
def test_other_content_types_are_refused(media: bytes) -> None:
    """Anything that does not say it is JSON is 415, unread."""
    desk = Desk()
    reply = desk.app.early(head(media=media))
    assert reply is not None
    assert (reply.status, reply.headers) == (415, TEXT)
    assert desk.metrics.refused == {"content-type": 1}


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"PUT", b"DELETE", b"OPTIONS"])
def test_only_post(method: bytes) -> None:
    """Other methods are 405 and told what is allowed, unread."""
    reply = Desk().app.early(head(method=method))
    assert reply is not None
    assert (reply.status, b"allow: POST\r\n" in reply.headers) == (405, True)


def test_work_that_nobody_awaits_is_dropped() -> None:
    """A review that is whole only after its timeout is not worked on."""
    desk = Desk(lambda _body: pytest.fail("was worked on"))
    assert desk.call(head(query=b"timeout=5s", age=6)).status == 504
    assert desk.call(head(query=b"timeout=0s")).status == 504
    assert desk.metrics.refused == {"deadline": 2}


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
    reply = desk.call()
    assert reply.status == 500
    assert b"not for clients" not in reply.body
    assert b"Traceback" not in reply.body
    (line,) = desk.log.lines
    assert line["level"] == "error"
    assert "not for clients" in line["traceback"]
    assert desk.metrics.requests == {("", "", "error", "unexpected", False): 1}


@pytest.mark.parametrize(
    ("outcome", "level"),
    [("injected", "debug"), ("skipped", "debug"), ("denied", "info"), ("error", "error")],
)
def test_log_levels(outcome: str, level: str) -> None:
    """Decisions are debug, denials info, errors error; each one line with the review's uid."""
    desk = Desk(lambda _body: Answer(200, b"{}", outcome, uid="u7"))
    desk.call()
    (line,) = desk.log.lines
    assert (line["level"], line["uid"]) == (level, "u7")


def test_everything_else_is_answered_in_short() -> None:
    """The root says what this is; unknown paths and wrong methods are short JSON, without a look at a body."""
    app = Desk().app
    root = app.early(head(b"/", method=b"GET"))
    assert root is not None
    assert (root.status, b"/mutate" in root.body) == (200, True)
    for path in (b"/nowhere", b"/openapi.json", b"/docs", b"/mutate/", b"/metrics", b"/mut%61te"):
        for method in (b"GET", b"POST"):
            reply = app.early(head(path, method=method))
            assert reply is not None
            assert (reply.status, reply.headers, len(reply.body) < 100) == (404, JSON, True)
    wrong = app.early(head(b"/", method=b"POST"))
    assert wrong is not None
    assert wrong.status == 405


def test_a_long_query_is_not_kept() -> None:
    """What is remembered of deadlines is short, however long a stranger's query is."""
    _deadline.cache_clear()
    desk = Desk()
    assert desk.call(head(query=b"x" * 60_000 + b"&timeout=0s")).status == 200
    assert desk.call(head(query=b"x" * 60_000 + b"&timeout=1s")).status == 200
    assert _deadline.cache_info().currsize == 1


def test_metrics_are_what_happened() -> None:
    """Counts, buckets and gauges come out in Prometheus' own format, with labels of decisions only."""
    denied = Answer(200, ANSWER, "denied", code="unknown-type", kind="Pod", operation="CREATE", dry_run=True)
    desk = Desk(lambda _body: denied)
    for _ in range(3):
        desk.call()
    desk.call(head(method=b"GET"))
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
