"""The benchmarks compare like with like: what they do is checked without measuring anything."""

import json

import pytest

from benchmarks import inprocess, reviews, sameness
from benchmarks.peers import textbook
from benchmarks.peers.floor import Constant, Undecided
from benchmarks.sample import Figure, ratio
from benchmarks.targets import TARGETS, Target
from webhook.core.admission import admit


@pytest.mark.parametrize("name", reviews.NAMES)
def test_recorded_reviews_are_answered(name: str) -> None:
    """Every recorded review is admitted, and only the one without an annotation is left as it is."""
    answer = admit(reviews.load(name), inprocess.site())

    assert (200, "unchanged" if name == "plain-pod" else "injected") == (answer.status, answer.outcome)


@pytest.mark.parametrize("name", sameness.SAME_WORK)
def test_the_textbook_peer_does_the_same(name: str) -> None:
    """The same object comes out of the peer in Python as of us."""
    body = reviews.load(name)
    ours = sameness.patched(body, admit(body, inprocess.site()).body)
    theirs = sameness.patched(body, json.dumps(textbook.mutate(json.loads(body))).encode())

    assert sameness.without_nulls(ours) == sameness.without_nulls(theirs)


def test_a_server_that_decides_nothing_answers_as_we_do() -> None:
    """It reads the review and writes the answer, both with our own code."""
    body = reviews.load("jobset-pod")

    assert admit(body, inprocess.site()).body == Undecided(body)(body, inprocess.site()).body


def test_the_stages_are_those_of_admit() -> None:
    """Each can be measured by itself."""
    assert {"read", "inject", "render", "encode", "admit", "rest"} == set(inprocess.stages("jobset-pod", rounds=1))


def test_the_floor_answers_as_we_do() -> None:
    """Its answer differs from ours in nothing, and has the uid of the review that it answers."""
    body = reviews.load("jobset-pod")
    uid = json.loads(body)["request"]["uid"].encode()
    other = b"6f1c8a52-0000-4000-8000-000000000001"
    floor = Constant(body)

    assert admit(body, inprocess.site()).body == floor(body, inprocess.site()).body
    assert (
        admit(body, inprocess.site()).body.replace(uid, other) == floor(body.replace(uid, other), inprocess.site()).body
    )


def test_a_peer_that_does_other_work_is_found() -> None:
    """An answer for another uid is not taken for the same work."""
    body = reviews.load("jobset-pod")
    answer = admit(body, inprocess.site()).body
    uid = json.loads(body)["request"]["uid"].encode()

    with pytest.raises(sameness.Different):
        sameness.patched(body, answer.replace(uid, b"6f1c8a52-0000-4000-8000-000000000001"))


def test_ratios_are_of_the_same_round() -> None:
    """One disturbed round moves neither figure's ratio."""
    assert 2.0 == ratio(Figure("x", [200, 20, 210]), Figure("x", [100, 10, 105]))


def test_slope_tells_linear_from_quadratic() -> None:
    """1 for what is linear whatever its base, 3 where each unit costs as much as all before it."""
    sizes = (0, 50, 100)

    assert 1.0 == inprocess.slope({n: Figure("us", [40 + 3 * n]) for n in sizes})
    assert 3.0 == inprocess.slope({n: Figure("us", [n * n]) for n in sizes})


@pytest.mark.parametrize(
    ("target", "value", "verdict"),
    [
        (Target("a", "", low=8), 8.0, "pass"),
        (Target("a", "", low=8), 7.9, "falls short"),
        (Target("a", "", high=40), 40.1, "falls short"),
        (Target("a", "", high=40), 3.0, "pass"),
        (Target("a", ""), 1.0, "reported"),
    ],
)
def test_verdicts(target: Target, value: float, verdict: str) -> None:
    """A bound is kept when it is reached."""
    assert verdict == target.verdict(value)


def test_targets_have_keys_of_their_own() -> None:
    """No two rows of the table speak of one measurement."""
    assert len(TARGETS) == len({target.key for target in TARGETS})
