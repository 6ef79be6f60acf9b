"""Mutated manifests: each is injected or refused, in time by its size, and what comes out means what the patch says."""

import random
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import jsonpatch
import msgspec

from tests.fuzz.texts import changed, written
from tests.support import budget, mutants
from tests.support.case import NAMESPACE, all_cases, site
from tests.support.checkout import ROOT
from webhook.command import reasons
from webhook.core.admission import view
from webhook.core.kinds.kind import Context
from webhook.core.messages import Denied
from webhook.core.site import Site
from webhook.core.yaml import nodes
from webhook.errors import BadManifest
from webhook.manifest import inject
from webhook.manifest.inject import LAYOUT_LOST, Result


class Seed(NamedTuple):
    """A manifest, and the site that it is for."""

    text: str
    site: Site


class Wrong(Exception):
    """What came out is not what may."""


@cache
def seeds() -> tuple[Seed, ...]:
    """The golden cases' inputs with their configs, and the examples."""
    cases = [Seed((case.folder / "input.yaml").read_text(), case.site) for case in all_cases()]
    return (*cases, *(Seed(path.read_text(), site(None)) for path in sorted((ROOT / "examples").glob("*.yaml"))))


def inputs(seed: int, count: int) -> Iterator[Seed]:
    """Changed manifests; a part of them is written anew before, in another style and from a changed value."""
    chance = random.Random(seed)
    values = iter(mutants.mutants(seed, 2 * count))
    for _ in range(count):
        text, ours = chance.choice(seeds())
        if chance.random() < 0.4:
            value = _object(next(values)) if chance.random() < 0.5 else _only(text)
            text = written(value, chance) if isinstance(value, dict) and value else text
        yield Seed(changed(text, chance), ours)


def _object(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)["request"]["object"]
    except (msgspec.DecodeError, LookupError, TypeError, RecursionError):
        return None


def _only(text: str) -> Any:
    return nodes.plain(next(nodes.documents(text)).root)


def run(count: int, seed: int) -> list[str]:
    """What is wrong with what becomes of `count` inputs; prints what they were."""
    seen, wrong = Counter[str](), list[str]()
    for number, (text, ours) in enumerate(inputs(seed, count)):
        try:
            size = 6 * len(text.encode(errors="replace"))  # it is read and injected six times
            seen[budget.best(partial(outcome, text, ours, thorough=number % 4 == 0), size)] += 1
        except Exception as error:  # whatever it is, it is what we look for
            wrong.append(f"{type(error).__name__}: {str(error)[:300]}: {text[:3000]!r}")
    print(f"{count} manifests, seed {seed}: {dict(seen)}; {len(wrong)} wrong", file=sys.stderr)
    return wrong


def outcome(text: str, ours: Site, thorough: bool) -> str:
    """What became of a manifest; raises `Wrong`, or whatever else escapes."""
    try:
        found = inject.results(text, ours, NAMESPACE, "f.yaml")
    except BadManifest as error:
        if not str(error).startswith("f.yaml:") or not str(error).isprintable():
            raise Wrong(f"the message {error}") from None
        return "refused"
    after = "".join(result.after for result in found)
    if "".join(result.before for result in found) != text:
        raise Wrong("the documents are not the file")
    wanted = [_wanted(document, ours) for _, document in inject.documents(text, "f.yaml")]
    if wanted != [nodes.plain(document.root) for document in nodes.documents(after.removeprefix("\ufeff"))]:
        raise Wrong(f"it does not mean what the patch says: {after[:2000]!r}")
    for result in found:
        _check_words(result)
    if thorough:
        _explain(text, ours)
        _again(after, found, ours)
    return _name(found)


def _wanted(document: nodes.Document, ours: Site) -> Any:
    """What a library of others makes of the document's value and the webhook's own operations."""
    value = nodes.plain(document.root)
    for subject in inject.subjects(document):
        try:
            operations, _ = inject.injection_of(subject, ours, NAMESPACE)
        except Denied:
            continue
        value = jsonpatch.apply_patch(value, operations)
    return value


def _check_words(result: Result) -> None:
    for name, text in result.warnings:
        if not (name + text).isprintable() or len(name) > 120 or len(text) > 120:
            raise Wrong(f"the warning {name}: {text}")
    for name, denied in result.denied:
        lines = denied.message.split("\n")
        if not name.isprintable() or not 1 <= len(lines) <= 3 or not all(map(str.isprintable, lines)):
            raise Wrong(f"the denial {name}: {denied.message}")


def _explain(text: str, ours: Site) -> None:
    for _, document in inject.documents(text, "f.yaml"):
        for subject in inject.subjects(document):
            if subject.workload is None:
                continue
            try:
                obj = view(subject.workload, msgspec.json.encode(subject.value))
            except Denied:
                continue
            context = Context(inject.namespace_of(subject.value) or NAMESPACE, ours, offline=True)
            reasons.explain(subject.name, subject.workload, subject.value, obj, context)


def _again(after: str, found: list[Result], ours: Site) -> None:
    """Injecting the result changes nothing, but where a container has no name, which no API server would take."""
    if any(result.denied for result in found) or 'accel.io/container: ""' in after:
        return
    for result in inject.results(after, ours, NAMESPACE, "f.yaml"):
        if result.splices or result.denied:
            raise Wrong(f"it changes again: {after[:2000]!r}")


def _name(found: list[Result]) -> str:
    if any(result.denied for result in found):
        return "denied"
    if any(text == LAYOUT_LOST for result in found for _, text in result.warnings):
        return "written anew"
    return "injected" if any(result.splices for result in found) else "left"
