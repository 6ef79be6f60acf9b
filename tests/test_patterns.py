"""No pattern of ours can take more than linear time, and nothing compares texts where their number has no bound."""

import ast
import importlib
import itertools
import pkgutil
import re
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import certs
import webhook
from tests.support import budget
from tests.support.patterns import Checker, Slow, check

SHORT, LONG = 2_000, 16_000
MAX_GROWTH, NOISE = 16.0, 50e-6  # growth of the time for eight times the text; seconds that are only noise
SEARCHES = {"search", "findall", "finditer", "sub", "subn", "split"}
COMPARES = {
    "webhook.core.annotations": "a key with the few that there are, for the five warnings that an answer has room for",
    "webhook.core.catalogue.catalogue": "one name of at most 63 characters with the catalogue's",
    "webhook.core.yaml.decode": "one key of at most 64 characters with those of a mapping in the site config",
    "webhook.command.catalogue": "one argument of at most 64 characters with the catalogue's names",
}
"""Where difflib may be imported, and why that is not much."""


class Found(NamedTuple):
    """A pattern, where it stands, and whether it is tried at every position of a text."""

    where: str
    pattern: "re.Pattern[Any]"
    searched: bool


def modules() -> Iterator[ModuleType]:
    for package in (webhook, certs):
        yield package
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            yield importlib.import_module(info.name)


MODULES = {module.__name__: module for module in modules()}
TREES = {name: ast.parse(Path(module.__file__ or "").read_text()) for name, module in MODULES.items()}


def compiled(value: Any, depth: int = 0) -> Iterator["re.Pattern[Any]"]:
    """The patterns that a module's value is or holds."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict) and depth < 3:
        yield from itertools.chain.from_iterable(compiled(one, depth + 1) for one in (*value, *value.values()))
    elif isinstance(value, (tuple, list, set, frozenset)) and depth < 3:
        yield from itertools.chain.from_iterable(compiled(one, depth + 1) for one in value)
    elif isinstance(value, type) and depth < 2 and str(value.__module__) in MODULES:
        yield from compiled(dict(vars(value)), depth + 1)


def calls(name: str) -> Iterator[tuple[ast.Call, str, ast.expr]]:
    """Calls of methods, with the method's name and what it is a method of."""
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node, node.func.attr, node.func.value


def searched() -> set[str]:
    """The sources of all patterns that are searched for."""
    found = set()
    for name, module in MODULES.items():
        for _, method, owner in calls(name):
            if method in SEARCHES and isinstance(owner, ast.Name):
                found |= {pattern.pattern for pattern in compiled(vars(module).get(owner.id))}
    return found


def written() -> Iterator[Found]:
    """Patterns that stand in a call of `re`'s functions."""
    for name in MODULES:
        for call, method, owner in calls(name):
            if isinstance(owner, ast.Name) and owner.id == "re" and call.args and method not in ("escape", "compile"):
                where = f"{name}:{call.lineno}"
                assert isinstance(call.args[0], ast.Constant), f"{where}: a pattern that is made up while we run"
                yield Found(where, re.compile(call.args[0].value), method in SEARCHES)


def patterns() -> list[Found]:
    """Every pattern of the packages, once."""
    looked_for = searched()
    found: dict[tuple[str | bytes, int], Found] = {}
    for name, module in MODULES.items():
        for attribute, value in vars(module).items():
            for pattern in compiled(value):
                key = pattern.pattern, pattern.flags
                found.setdefault(key, Found(f"{name}.{attribute}", pattern, pattern.pattern in looked_for))
    return [*found.values(), *written()]


PATTERNS = patterns()


def test_patterns_are_found() -> None:
    """Those in modules, in classes and tuples, in calls; and none is compiled inside of a function."""
    assert len(PATTERNS) > 20
    assert {"webhook.core.yaml.nodes._DASH", "webhook.core.topology._TEXT"} <= {found.where for found in PATTERNS}
    known = {found.pattern.pattern for found in PATTERNS}
    for name in MODULES:
        for call, method, owner in calls(name):
            if method == "compile" and isinstance(owner, ast.Name) and owner.id == "re":
                text = call.args[0]
                assert not isinstance(text, ast.Constant) or text.value in known, f"{name}:{call.lineno}"


@pytest.mark.parametrize("found", PATTERNS, ids=lambda found: found.where)
def test_no_pattern_goes_back_far(found: Found) -> None:
    """Proved from its parse tree."""
    check(found.pattern, found.searched)


@pytest.mark.parametrize("found", PATTERNS, ids=lambda found: found.where)
def test_no_attack_takes_more_than_its_length(found: Found) -> None:
    """Tried with what the pattern repeats, many times, and an end that it does not want."""
    methods = [found.pattern.fullmatch, found.pattern.match, *([found.pattern.search] if found.searched else [])]
    is_bytes = isinstance(found.pattern.pattern, bytes)
    for attack, method in itertools.product(set(Checker(found.pattern).attacks()), methods):
        texts: list[Any] = [attack.text(length) for length in (SHORT, LONG)]
        if is_bytes:
            texts = [text.encode("latin-1", "replace") for text in texts]
        with budget.within(LONG):
            short, long = (best(method, text) for text in texts)
        assert long <= MAX_GROWTH * max(short, NOISE), f"{attack}: {short:.6f} s, then {long:.6f} s"


def best(method: Any, text: Any) -> float:
    """Seconds of processor time, of five times the least."""
    times = []
    for _ in range(5):
        begin = time.process_time()
        method(text)
        times.append(time.process_time() - begin)
    return min(times)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+b", r"(a*)*", r"(?:a|ab|b)*c", r"a*a*b", r"a+[ab]+c", r"(?:[&!]\S*[ \t]*)*-", r"(?:a+b?)*c", r"(.*)x",
        r"[0-9]+\.?[0-9]*x", r"(?:a?){64}b", r"([a-z]+)*+[a-z]", r"(?:a++c|a)*+", r"(?:(?:a++c)*+a)*+", r"a{0,65}a",
        r"a{0,30}a{0,30}a", r"(x)\1*", r"(?i:a)+b", r"(?:(?=.*b)a)*", r"[a-z0-9]([-a-z0-9]*[a-z0-9])?x",
        r"(a|b|ab)*", r"\w+\s*\w+:", r"(?:\d+(?:\.\d*)?(?:h|ms|m|s))+x?",
    ],
)  # fmt: skip
def test_slow_patterns_are_refused(pattern: str) -> None:
    """Those that go back, or that are too clever for the proof."""
    with pytest.raises(Slow):
        check(re.compile(pattern, re.IGNORECASE if "(?i" in pattern else 0))


@pytest.mark.parametrize("pattern", [r"a+b", r"\s+$", r" - (.*)$", r"(?:x[a-z]*)+;", r"[^/]*/x", r"x(?:.+y|z)"])
def test_slow_searches_are_refused(pattern: str) -> None:
    """Those that read the same from many beginnings, though each reading is fast."""
    with pytest.raises(Slow):
        check(re.compile(pattern), searched=True)


@pytest.mark.parametrize(
    "pattern",
    [
        r"", r"abc", r"a*b", r"a+", r"(?:a+b)*c", r"[a-z0-9]++(?:-++[a-z0-9]++)*+", r"(?:ab|cd)*e", r"a*+a", r"(?>a+)a",
        r"(?:[ \t]*+(?:#[^\n]*+)?+\n)*+---", r"\d{1,3}(?:\.\d{1,3}){3}", r"[A-Z][a-z]{0,60}[a-z]", r"(?:a|ab)c",
        r"(?:aa|ab)*", r"(?:a|ab)*c", r"(?P<a>[^`]*)`", r"x(?!y)", r"(?=.{1,63}$)[a-z]+",
    ],
)  # fmt: skip
def test_fast_patterns_are_allowed(pattern: str) -> None:
    """The proof is no pretext for banning what is linear."""
    check(re.compile(pattern))


@pytest.mark.parametrize(
    "pattern", [r"[^a-z]+", r"^a+b", r"\r(?!\n)", r"x`[^`]+`", r"\.[a-z]+|\[\d+\]", r"\.(?:(?<=x\.).++|[^.]+)|\[\d+\]"]
)
def test_fast_searches_are_allowed(pattern: str) -> None:
    """The same for what is tried everywhere."""
    check(re.compile(pattern), searched=True)


def test_texts_are_compared_only_where_that_is_bounded() -> None:
    """difflib is quadratic, and worse; where it is used, one side is short and the other is ours."""
    found = {
        name
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and "difflib" in (getattr(node, "module", "") or "", *(alias.name for alias in node.names))
    }

    assert found == set(COMPARES)
