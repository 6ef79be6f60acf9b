"""Lines of the log: JSON, one line each, bounded, and nothing in them that a terminal would obey."""

import io
import json
import logging
import time
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.client import LOCAL, call, post, rejected
from tests.support.recorder import Recorder
from webhook.server.log import LONGEST_FIELD, configure, cut
from webhook.server.metrics import Metrics
from webhook.server.refusals import Refusals
from webhook.server.replica import running

HOSTILE = {
    "C0": "\x00\x07\x08\t\n\r\x1b",
    "DEL": "\x7f",
    "C1": "".join(map(chr, range(0x80, 0xA0))),
    "line separators": "\u2028\u2029\x85",
    "bidi": "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c",
    "zero width": "\u200b\u200c\u200d\ufeff",
    "tags beyond 16 bits": "\U000e0001\U000e0041",
    "private use": "\ue000\U0010fffd",
}


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    """Other tests' logging is as it was."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before


def line(**fields: object) -> bytes:
    """What is written of one event."""
    stream = io.BytesIO()
    configure("debug", stream).info("denied", **fields)
    return stream.getvalue()


@given(st.text())
@example("".join(HOSTILE.values()))
def test_a_line_is_printable_and_says_the_same(text: str) -> None:
    """Whatever a field holds: one line, no character that does anything, and JSON gives the text back."""
    written = line(name=text).decode()
    assert written.endswith("\n")
    assert written[:-1].isprintable()
    assert json.loads(written)["name"] == text


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_each_kind_of_character_is_escaped(text: str) -> None:
    """None of it is left as it was."""
    written = line(name=text).decode()[:-1]
    assert not set(text) & set(written)


def test_what_people_write_stays_readable() -> None:
    """Letters of other languages and our own marks are not escaped."""
    assert "Zürich, 東京 … µs" in line(name="Zürich, 東京 … µs").decode()


def test_half_a_surrogate_pair() -> None:
    """It cannot be encoded, and the line is written nevertheless."""
    assert json.loads(line(name="a\ud800b"))["name"] == "a\ud800b"


def test_a_line_is_bounded() -> None:
    """A field that is far too long keeps its beginning and its end."""
    written = line(name="b" + "x" * 1_000_000 + "e")
    assert len(written) < LONGEST_FIELD + 300
    found = json.loads(written)["name"]
    assert found.startswith("bx")
    assert found.endswith("xe")
    assert "characters left out" in found


def test_a_library_s_record_is_a_line_like_ours() -> None:
    """With its traceback, and escaped in the same way."""
    stream = io.BytesIO()
    configure("info", stream)
    try:
        raise ValueError("\x1b[31m\u202e")
    except ValueError:
        logging.getLogger("asyncio").exception("callback\nfailed")
    (written,) = stream.getvalue().decode().splitlines()
    assert written.isprintable()
    assert "Traceback" in json.loads(written)["message"]


def test_a_name_is_cut_and_says_so() -> None:
    """A name of the maximum length is kept; a longer one is cut, with its length appended."""
    assert cut("n" * 253, 253) == "n" * 253
    assert cut("n" * 50_000, 253) == "n" * 253 + "… (50000 characters)"


def test_refusals_are_said_once_a_second() -> None:
    """The first at once, the others together with the next, or when a second has passed; all are counted."""
    metrics, log = Metrics(), Recorder()
    refusals = Refusals(metrics, log)
    for number in range(100):
        refusals("not-http", f"192.0.2.1:{number}")
    refusals.flush()
    assert [(one["peer"], one["left_out"]) for one in log.lines] == [("192.0.2.1:0", 0)]
    time.sleep(1.1)
    refusals.flush()
    refusals.flush()
    assert [(one["peer"], one["left_out"]) for one in log.lines[1:]] == [("192.0.2.1:99", 98)]
    assert metrics.refused == {"not-http": 100}


def test_what_is_no_review_is_counted_and_said_once_a_second() -> None:
    """Over the wire: who sent it, why it is none, and not a line for each."""
    log = Recorder()
    with running(LOCAL, log=log) as at:
        for _ in range(30):
            assert call(at, post(b"{"))[0] == 400
            assert call(at, b"GET /mutate HTTP/1.1\r\nHost: x\r\n\r\n")[0] == 405
            assert call(at, b"rubbish\r\n\r\n")[0] == 400
        assert rejected(at)["not-http"] == rejected(at)["method"] == 30
        time.sleep(2.5)  # for what was left out
    lines = [one for one in log.lines if one["message"] == "turned away"]
    assert sum(1 + one["left_out"] for one in lines) == 90
    assert len(lines) < 30
    assert all(one["peer"].startswith("127.0.0.1:") for one in lines)
    assert lines[0]["reason"] == "bad-review"
    assert lines[0]["problem"]
