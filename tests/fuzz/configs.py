"""Mutated site configs: each is a site or an error of one line, in time by its size; a site is shown as it is read."""

import random
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import msgspec

from tests.core import test_site
from tests.fuzz.manifests import Wrong
from tests.fuzz.texts import changed, written
from tests.support import budget
from tests.support.case import all_cases
from tests.support.checkout import ROOT
from webhook import load
from webhook.core.catalogue.catalogue import Catalogue
from webhook.core.messages import Denied
from webhook.core.site import Site
from webhook.core.yaml import nodes
from webhook.errors import BadConfig
from webhook.manifest.style import Layout

BUILTIN = load.builtin()
WORDS = (
    "gke", "none", "", "true", "a", "*", "nvidia-*", "tpu-v4-8", "nvidia-gpu", "volcano", "x/y", "/dev/x", "..",
    "2x2x2", "64Gi", "Exists", "host", "plugin", "\x1b[31m", "\u2028", "x" * 300, "[" * 40, "9" * 70,
)  # fmt: skip
NUMBERS = (None, True, False, 0, -1, 1, 4, 17, 257, 4096, 65537, 2**31, 2**63, 1.5, 1e300, [], {})
KEYS = (
    "platform", "placements", "hostProfiles", "catalogue", "schedulers", "defaults", "detect", "accelerators", "types",
    "namespaces", "nodeSelector", "kind", "name", "of", "mig", "most", "cubes", "shapes", "count", "env",
    "devices", "a",
)  # fmt: skip


@cache
def seeds() -> tuple[str, ...]:
    """The example, the golden cases' configs, and those of the site config's own tests."""
    cases = {path.read_text() for case in all_cases() if (path := case.folder / "config.yaml").exists()}
    tried = (test_site.PROFILE, test_site.LEGACY, *test_site.ERRORS, test_site.CUBES % "defaultsUpTo: 8")
    return ((ROOT / "examples" / "site.yaml").read_text(), *sorted(cases), *tried)


def inputs(seed: int, count: int) -> Iterator[str]:
    """Changed texts of configs, most of them of changed configs too."""
    chance = random.Random(seed)
    for _ in range(count):
        text = chance.choice(seeds())
        if chance.random() < 0.6:
            value = _value(text)
            for _ in range(chance.randint(1, 3)):
                _change(value, chance)
            text = written(value, chance) if isinstance(value, dict) and value else text
        yield changed(text, chance) if chance.random() < 0.7 else text


def _value(text: str) -> Any:
    try:
        return nodes.plain(next(nodes.documents(text)).root)
    except nodes.BadYaml:
        return None


def _change(tree: Any, chance: random.Random) -> None:
    places = list(_places(tree))
    if not places:
        return
    parent, key = chance.choice(places)
    match chance.randrange(5):
        case 0:
            del parent[key]
        case 1:
            parent[key] = chance.choice(NUMBERS)
        case 2:
            parent[key] = chance.choice(WORDS)
        case 3 if isinstance(parent, dict):
            parent[chance.choice(KEYS + WORDS)] = parent[key]
        case _:
            parent[key] = [parent[key]] * chance.randint(1, 3)


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(tree, dict | list):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def run(count: int, seed: int) -> list[str]:
    """What is wrong with what becomes of `count` inputs; prints what they were."""
    seen, wrong = Counter[str](), list[str]()
    for text in inputs(seed, count):
        try:
            seen[budget.best(partial(outcome, text), 3 * len(text.encode(errors="replace")))] += 1
        except Exception as error:  # whatever it is, it is what we look for
            wrong.append(f"{type(error).__name__}: {str(error)[:300]}: {text[:3000]!r}")
    print(f"{count} site configs, seed {seed}: {dict(seen)}; {len(wrong)} wrong", file=sys.stderr)
    return wrong


def outcome(text: str) -> str:
    """What became of a config; raises `Wrong`, or whatever else escapes."""
    try:
        site = Site.parse(text.encode(errors="surrogatepass"), "site.yaml", BUILTIN)
    except BadConfig as error:
        if not str(error).startswith("site.yaml: ") or not str(error).isprintable() or len(str(error)) > 1001:
            raise Wrong(f"the message {error}") from None
        return "refused"
    shown = "\n".join(Layout().lines(msgspec.json.decode(msgspec.json.encode(site.config)))) + "\n"
    if not shown.replace("\n", "").isprintable():
        raise Wrong(f"it is shown as {shown!r}")
    if Site.parse(shown.encode(), "shown", BUILTIN).config != site.config:
        raise Wrong(f"it is not shown as it is: {shown!r}")
    _ask(site.catalogue)
    site.placement_names("team-a")
    return "read"


def _ask(catalogue: Catalogue) -> None:
    """What an admin's entries make of types, their own among them."""
    for name in (*list(catalogue.names())[-5:], "tpu-v4-17", "v9-8", "nvidia-nothing", "tpu-v9-2x2x2"):
        try:
            catalogue.resolve(name)
        except Denied as denied:
            if not all(map(str.isprintable, denied.message.split("\n"))):
                raise Wrong(f"the denial {denied.message}") from None
