"""Every folder of tests/cases, checked six ways. A new case is a new folder; `make goldens` fills it in."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import untouched
from tests.support.case import Case, all_cases, decided, plain, review
from tests.support.client import call, post
from tests.support.stored import missing
from webhook.core.admission import admit
from webhook.core.annotations import INJECTED
from webhook.core.kinds.registry import WORKLOADS
from webhook.core.messages import Denied
from webhook.core.rules.node_pool import REQUIRED
from webhook.core.site import Site
from webhook.manifest.inject import injected
from webhook.server.replica import Addresses, running
from webhook.server.settings import Settings

CASES = all_cases()
UPDATES = [case for case in CASES if case.old is not None]
DEFAULTED = re.compile(r".*/(uid|restartPolicy|completionMode|enableDNSHostnames|requests/[^:]*): .*, stored None")
"""What API servers and JobSet's own webhook add to an object."""

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


class Current:
    """The site config of the case that is being served."""

    site: Site


@pytest.fixture(scope="module")
def service() -> Iterator[Addresses]:
    """The real HTTPS service; it decides by `Current.site`."""
    settings = Settings(host="127.0.0.1", port=0, metrics_port=0, self_signed=True, log_level="error")
    with running(settings, lambda body, _site: admit(body, Current.site)) as addresses:
        yield addresses


@every_case
def test_golden(case: Case, request: pytest.FixtureRequest) -> None:
    """The object becomes what the folder says, with these warnings, or is denied with this message."""
    found = expectation(case)
    if request.config.getoption("--update-goldens"):
        write(case, *found)
    patched, denied, warnings = found

    assert case.expected is not None or case.denied, f"run `make goldens`, then read what it wrote in {case.folder}"
    assert case.denied == denied
    assert case.warnings == warnings
    if not denied:
        assert case.expected == patched


def expectation(case: Case) -> tuple[object, str, tuple[str, ...]]:
    """(object after injection, denial, warnings): by admission, and offline for kinds that it only checks."""
    obj, kind = case.object, kind_of(case)
    decision = decided(admit(review(obj, case.old), case.site), obj)
    if kind is not None and not kind.patched and not decision.denied and case.old is None:
        text, warnings = injected(yaml.safe_dump(obj, sort_keys=False), case.site, namespace_of(case))
        assert set(decision.warnings) <= set(warnings)
        return yaml.safe_load(text), "", tuple(warnings)
    return decision.patched, decision.denied, decision.warnings


def kind_of(case: Case) -> object:
    """The workload that the case is of."""
    group = str(case.object["apiVersion"]).rpartition("/")[0]
    return WORKLOADS.get((group, case.object["kind"]))


def namespace_of(case: Case) -> str:
    """The namespace that the request comes from."""
    return (case.object.get("metadata") or {}).get("namespace") or "team-a"


def write(case: Case, patched: object, denied: str, warnings: tuple[str, ...]) -> None:
    """`make goldens`: what the code does now."""
    put(case.folder / "denied.txt", denied)
    put(case.folder / "warnings.txt", "\n".join(warnings))
    text = yaml.safe_dump(patched, sort_keys=False, width=120)
    put(case.folder / "expected.yaml", "" if denied else text.rstrip("\n"))


def put(path: Path, text: str) -> None:
    """A file with this text, or none."""
    if text:
        path.write_text(text + "\n")
    elif path.exists():
        path.unlink()


@every_case
def test_injecting_the_result_again_changes_nothing(case: Case) -> None:
    """reinvocationPolicy IfNeeded is safe: what was injected is valid input, and complete."""
    if case.denied:
        return
    result = decided(admit(review(case.expected, case.old and case.expected), case.site), case.expected)

    assert result.denied == ""
    assert result.patch == []


@every_case
def test_after_another_webhook_has_reordered_lists(case: Case) -> None:
    """We are called again then, and have nothing to add: nothing depends on where an item of a list is."""
    if case.denied or case.old:
        return
    reordered = backwards(case.expected)
    result = decided(admit(review(reordered), case.site), reordered)

    assert (result.denied, result.patch) == ("", [])


REORDERED = {"containers", "env", "tolerations", "volumes", "volumeMounts", "nodeSelectorTerms", REQUIRED}


def backwards(value: Any) -> Any:
    """A copy whose lists of named things, and of terms, are in the opposite order."""
    if isinstance(value, dict):
        return {
            k: backwards(v)[::-1] if k in REORDERED and isinstance(v, list) else backwards(v) for k, v in value.items()
        }
    return [backwards(item) for item in value] if isinstance(value, list) else value


@every_case
def test_however_the_review_is_written(case: Case) -> None:
    """With spaces and its fields in another order it goes another way through us, to the same answer."""
    body = review(case.object, case.old)
    review_ = json.loads(body)
    request = dict(sorted(review_["request"].items(), reverse=True))
    again = json.dumps({"apiVersion": review_["apiVersion"], "kind": review_["kind"], "request": request}).encode()

    assert admit(body, case.site) == admit(again, case.site)


@every_case
def test_the_service_says_the_same(case: Case, service: Addresses) -> None:
    """Over HTTPS comes what the function returns, byte for byte."""
    Current.site = case.site
    body = review(case.object, case.old)
    status, _, answer = call(service, post(body))

    assert status == 200
    assert admit(body, case.site).body == answer


@every_case
def test_the_command_says_the_same(case: Case) -> None:
    """`accel inject` prints the golden, offline."""
    if case.old is not None:
        return
    text = yaml.safe_dump(case.object, sort_keys=False)
    if case.denied:
        with pytest.raises(Denied) as raised:
            injected(text, case.site, namespace_of(case))
        assert case.denied in str(raised.value)
        return
    result, warnings = injected(text, case.site, namespace_of(case))

    assert case.expected == yaml.safe_load(result)
    assert case.warnings == tuple(warnings)


@every_case
def test_nothing_else_is_touched(case: Case) -> None:
    """Outside the fields that are ours, the object is as it was, fields newer than we are included."""
    if case.denied:
        return
    assert [] == untouched.strangers(plain(case.object), plain(case.expected), case.old)


@cache
def created() -> list[Any]:
    """What is stored of each object that a user wrote and nothing was injected into yet."""
    files = [case for case in CASES if INJECTED not in json.dumps(case.object)]
    answers = [decided(admit(review(case.object), case.site), case.object) for case in files]
    return [answer.patched for answer in answers if not answer.denied]


@pytest.mark.parametrize("case", UPDATES, ids=lambda case: case.name)
def test_what_is_stored_is_what_injection_makes(case: Case) -> None:
    """Of some case's input; else old.yaml says on its first line how it came about."""
    old = case.old
    candidates = [obj for obj in created() if (obj["kind"], obj["apiVersion"]) == (old["kind"], old["apiVersion"])]
    ours = any(missing(obj, old) == [] and all(map(DEFAULTED.fullmatch, missing(old, obj))) for obj in candidates)

    assert ours != bool(case.otherwise)


def test_every_folder_is_a_case() -> None:
    """A folder without an input is a leftover."""
    assert [] == [case.name for case in CASES if not (case.folder / "input.yaml").exists()]


def test_each_case_says_why_it_is_there() -> None:
    """One sentence, on the first line of its input."""
    assert [] == [case.name for case in CASES if not re.fullmatch(r"\S.{18,108}\.", case.why)]


def test_no_two_cases_are_there_for_the_same_reason() -> None:
    """One of them would be no use."""
    names = defaultdict(list)
    for case in CASES:
        names[case.why].append(case.name)

    assert [] == [same for same in names.values() if len(same) > 1]
