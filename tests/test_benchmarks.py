"""The benchmarks compare like with like: what they do is checked without measuring anything."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import against, inprocess, reviews, sameness
from benchmarks.peers import textbook
from benchmarks.peers.floor import Constant, Undecided
from benchmarks.sample import Figure, ratio, ratios
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


def test_a_ratio_has_a_spread_of_its_own() -> None:
    """A round that was slow for both sides is no spread of their ratio; one that was slow for one side is."""
    assert "2.00 ±0%" == ratios(Figure("us", [20, 200, 22]), Figure("us", [10, 100, 11])).text()
    assert "2.00 ±50%" == ratios(Figure("us", [20, 20, 40]), Figure("us", [10, 10, 10])).text()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One with two commits, of which the first has a setup.py that fails."""
    root = tmp_path / "repository"
    (root / "below").mkdir(parents=True)
    git(root, "init", "--quiet")
    for text in ("raise SystemExit('no compiler for this')", ""):
        (root / "setup.py").write_text(text)
        git(root, "add", "setup.py")
        git(root, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", f"--message=of {text}")
    return root


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True)


def test_another_tree_is_that_of_its_commit(repository: Path, tmp_path: Path) -> None:
    """Whatever the checkout has by now, from any folder in it; git has no record of it afterwards."""
    (repository / "setup.py").write_text("edited")
    name = against.check_out("HEAD~1", tmp_path / "tree", repository / "below")

    assert name.startswith("HEAD~1, ")
    assert "no compiler for this" in (tmp_path / "tree" / "setup.py").read_text()
    assert not (repository / ".git" / "worktrees").exists()


def test_a_tree_that_does_not_compile_is_no_figure(repository: Path, tmp_path: Path) -> None:
    """The error contains the output of the build."""
    against.check_out("HEAD~1", tmp_path / "tree", repository)

    with pytest.raises(against.NoFigures, match="HEAD~1 does not compile:\nno compiler for this"):
        against.build(against.Tree("HEAD~1", tmp_path / "tree"))


def test_a_commit_that_does_not_exist() -> None:
    """The command says so and ends with 1."""
    command = [sys.executable, "-m", "benchmarks", "--against", "no-such-commit"]
    done = subprocess.run(command, cwd=against.HERE, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "benchmark aborted: git archive" in done.stderr
    assert "no-such-commit" in done.stderr


def test_admit_of_a_tree_is_measured_without_its_benchmarks(tmp_path: Path) -> None:
    """A tree needs only its packages; the length of each response is recorded."""
    (tmp_path / "webhook").symlink_to(against.HERE / "webhook")
    tree = against.Tree("only packages", tmp_path)
    body = tmp_path / "body.json"
    body.write_bytes(reviews.load("plain-pod"))
    against.admit(tree, {"plain-pod": body}, batches=1)

    assert tree.figures["admit, us: plain-pod"].median > 0
    assert tree.lengths == {"plain-pod": len(admit(reviews.load("plain-pod"), inprocess.site()).body)}


def test_a_tree_without_admit_is_not_taken_for_this_one(tmp_path: Path) -> None:
    """The installed checkout must not be measured in its place."""
    with pytest.raises(against.NoFigures, match="nothing has no `admit` of its own"):
        against.admit(against.Tree("nothing", tmp_path), {})


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
