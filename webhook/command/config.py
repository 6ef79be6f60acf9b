"""`accel config`: check a site config before using it, and show the effective one."""

import re
from collections.abc import Iterator
from typing import get_args

from webhook.command import catalogue, files, terminal
from webhook.core.messages import Denied, quoted
from webhook.core.schema.catalogue import Model, Platform
from webhook.core.schema.site import Config
from webhook.core.site import Profile, Site, matches
from webhook.core.yaml import decode, nodes, problems
from webhook.core.yaml.problems import Problem, Trimmed
from webhook.errors import BadConfig, printable
from webhook.load import builtin

AUTO = "auto"
"""The chart's own platform, which it replaces before the webhook sees the file."""

CATALOGUE = re.compile(r": \$\.catalogue\[(?P<index>[0-9]++)\](?P<field>[.A-Za-z]*+)(?P<text>: .*+)", re.DOTALL)
"""A mistake that only shows beside the other entries."""

OTHER_ENTRY = re.compile(r": \$\.catalogue\[(?P<index>[0-9]++)\]")

OPTIONAL = tuple(f".{kind}.{platform}" for kind in ("mig.labels", "select") for platform in get_args(Platform))
"""Fields that an entry can do without."""

MAX_PROBLEMS = 20
"""Problems that are reported; each may require a search of all type names."""


def check(name: str) -> int:
    """What a file has, and what is wrong with it or can have no effect; the exit code."""
    shown = "stdin" if name == "-" else printable(name)
    file = _File(shown, files.config(name))
    site = file.site()
    for problem in file.problems:
        terminal.say("error", "bold red", file.described(problem))
    if site is None:
        return 1
    for number, problem in enumerate(idle(site)):
        if number == MAX_PROBLEMS:
            terminal.say("warning", "yellow", f"{shown}: further warnings are not shown")
            break
        terminal.say("warning", "yellow", file.described(file.as_written(problem)))
    if file.problems:
        return 1
    terminal.out().print(f"{shown}: valid; {_summary(site)}{file.note}", soft_wrap=True)
    return 0


class _File:
    """A site config, or a chart's values with one in them under `config`."""

    def __init__(self, name: str, data: bytes) -> None:
        self._name = name
        self._text, self._root, raw = decode.read(data, name)
        self._values = isinstance(raw, dict) and isinstance(raw.get("config"), dict)
        self.note = ""
        if self._values:
            raw = raw["config"]
            if raw.get("platform") == AUTO:
                raw = {key: value for key, value in raw.items() if key != "platform"}
                self.note = "; platform auto: checked as gke"
        self._trimmed = Trimmed(raw, Config, MAX_PROBLEMS)

    @property
    def problems(self) -> list[Problem]:
        return self._trimmed.problems

    def site(self) -> Site | None:
        """What is left of the file where mistakes are taken out; None where that is nothing that can be used."""
        while (config := self._trimmed.decoded()) is not None:
            try:
                return Site.of(config, "", builtin())
            except BadConfig as error:
                found = CATALOGUE.fullmatch(str(error))
                if found is None:
                    raise
                entry = ("catalogue", int(found["index"]))
                field = (*entry, *found["field"].split(".")[1:])
                text = OTHER_ENTRY.sub(self._entry, found["text"])
                self._trimmed.blame(field, text, field if found["field"] in OPTIONAL else entry)
        return None

    def as_written(self, problem: Problem) -> Problem:
        """A problem of the trimmed file, with its path in the original file."""
        return Problem(self._trimmed.written(problem.path), problem.text)

    def _entry(self, found: re.Match[str]) -> str:
        return decode.show(self._trimmed.written(("catalogue", int(found["index"]))))

    def described(self, problem: Problem) -> str:
        """With the line, and the path as it is in the file."""
        path = ("config", *problem.path) if self._values else problem.path
        line, _ = nodes.position(self._text, problems.start(self._root, path))
        return f"{self._name}:{line}: {decode.show(path)}{problem.text}"


def _summary(site: Site) -> str:
    config = site.config
    counts = {
        "placement": len(config.placements),
        "host profile": len(site.profiles),
        "scheduler default": len(config.schedulers.defaults),
        "catalogue entr": len(config.catalogue),
    }
    parts = [f"{n} {noun}{_ending(noun, n)}" for noun, n in counts.items() if n]
    return ", ".join([f"platform {config.platform}", *parts, f"{len(list(site.catalogue.names()))} types"])


def _ending(noun: str, count: int) -> str:
    if noun.endswith("entr"):
        return "y" if count == 1 else "ies"
    return "" if count == 1 else "s"


def idle(site: Site) -> Iterator[Problem]:
    """Settings without effect, or with another effect than was probably intended."""
    for index, default in enumerate(site.config.schedulers.defaults):
        yield from _matchless(site, ("schedulers", "defaults", index, "types"), default.types)
    for profile in site.profiles:
        if not profile.resource:
            yield from _profile(site, profile)
    yield from _gfd(site)
    for index, resource in enumerate(site.config.detect):
        yield from _undetected(site, ("detect", index), resource)
    for index, entry in enumerate(site.config.catalogue):
        if isinstance(entry, Model):
            yield from _model(site, ("catalogue", index), entry)
    for name, placement in site.config.placements.items():
        if any(resource.startswith(HUGE) for resource in placement.resources):
            text = ": hugepages need cpu or memory on the same container, or the API server refuses the Pod"
            yield Problem(("placements", name, "resources"), text)


HUGE = "hugepages-"


def _profile(site: Site, profile: Profile) -> Iterator[Problem]:
    path: decode.Path = ("hostProfiles", profile.name)
    yield from _matchless(site, (*path, "types"), profile.types)
    if not profile.namespaces:
        yield Problem(path, ": no namespaces, so nobody may use it")
    if profile.privileged and matches(ANY, profile.namespaces):
        text = ": privileged in every namespace: whoever may create a Pod in any of them gets the node"
        yield Problem((*path, "namespaces"), text)


ANY = "\0"
"""A name that no namespace has: only a pattern for all fits it."""


def _gfd(site: Site) -> Iterator[Problem]:
    config = site.config
    if config.platform != "gfd" and config.gfd != Config().gfd:
        yield Problem(("gfd",), f": no effect on platform {config.platform}")
    for name in config.gfd.models:
        if name not in site.catalogue.models():
            near = site.catalogue.named(name) or next(iter(catalogue.nearest(site, name)), "")
            yield Problem(("gfd", "models", name), " is no model's name" + (f"; nearest: {near}" if near else ""))


def _undetected(site: Site, path: decode.Path, resource: str) -> Iterator[Problem]:
    name = site.catalogue.any_model(resource)
    found = [p for p in site.profiles if "plugin" in p.modes and (p.resource == resource or matches(name, p.types))]
    if not found:
        yield Problem(path, f": no host profile of mode plugin is for {quoted(resource)}, so nothing comes of it")


def _model(site: Site, path: decode.Path, model: Model) -> Iterator[Problem]:
    """Names that mean another entry, and a model whose nodes cannot be distinguished."""
    for index, alias in enumerate(model.aliases):
        other = site.catalogue.named(alias)
        if other and other != model.name:
            yield Problem((*path, "aliases", index), f": {quoted(alias)} means {other}, whose own name is stronger")
        elif rival := site.catalogue.rival(alias, model.name):
            yield Problem((*path, "aliases", index), f": {quoted(alias)} is taken from {rival}")
    if site.config.platform not in (*model.select, "none"):
        text = f": nothing for platform {site.config.platform}, so any node with the resource will do"
        yield Problem((*path, "select"), text)


def _matchless(site: Site, path: decode.Path, patterns: tuple[str, ...]) -> Iterator[Problem]:
    for pattern in dict.fromkeys(patterns):
        if not any(site.catalogue.matching(pattern)) and not _is_type(site, pattern):
            near = catalogue.nearest(site, pattern)
            yield Problem(
                path, f": {quoted(pattern)} matches no accelerator type" + (f"; nearest: {near[0]}" if near else "")
            )


def _is_type(site: Site, name: str) -> bool:
    """Types with a topology that is not the default of its size are not listed, but valid."""
    try:
        return site.catalogue.resolve(name).name == name
    except Denied:
        return False


def show(site: Site, output: str) -> None:
    """Print every key with its value, defaults included."""
    catalogue.show(site.config, output)
