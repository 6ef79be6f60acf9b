"""Messages to users: every denial has a case and a section in the documentation, and cannot be misused."""

import re

import pytest

from tests.support.case import all_cases
from tests.support.checkout import ROOT
from webhook.core.messages import DENIALS, FORBIDDEN, LONGEST_WARNING, WARNINGS, Denied, Warn

FIELDS = re.compile(r"\{(\w+)\}")


def filled(sentence: str, text: str) -> dict[str, object]:
    """Every fact of a sentence as this text."""
    return dict.fromkeys(FIELDS.findall(sentence), text)


@pytest.mark.parametrize("code", DENIALS)
def test_every_denial_has_a_golden_case(code: str) -> None:
    """Every message must be shown by a case, so that somebody has read it."""
    assert any(case.denied.endswith(f"#{code}") for case in all_cases())


@pytest.mark.parametrize("code", DENIALS)
def test_every_denial_is_documented(code: str) -> None:
    """The third line of a denial leads somewhere."""
    text = (ROOT / "docs" / "troubleshooting.md").read_text()

    assert re.search(rf"^#+ {code}$", text, re.MULTILINE)


@pytest.mark.parametrize("code", DENIALS)
def test_a_denial_is_three_printable_lines(code: str) -> None:
    """Whatever a user wrote."""
    denied = Denied(code, **filled(DENIALS[code], "a\nb\x07{c}" + "x" * 30))

    assert len(denied.message.splitlines()) <= 3
    assert all(line.isprintable() for line in denied.message.splitlines())
    assert ("Forbidden" if code in FORBIDDEN else "Invalid") == denied.reason


@pytest.mark.parametrize("code", WARNINGS)
def test_a_warning_is_one_short_line(code: str) -> None:
    """The API server drops what has a control character."""
    text = Warn(code, filled(WARNINGS[code], "a\nb\x07{c}" + "x" * 200)).text()

    assert len(text) <= LONGEST_WARNING
    assert text.isprintable()


def test_forbidden_codes_exist() -> None:
    """A misspelt code would turn a policy into a mistake of the user's."""
    assert set() == FORBIDDEN - DENIALS.keys()
