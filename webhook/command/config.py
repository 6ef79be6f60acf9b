"""`accel config`: check a site config before using it, and show the effective one."""

from collections.abc import Iterator

from webhook.command import catalogue, terminal
from webhook.core.messages import Denied, quoted
from webhook.core.site import Site
from webhook.errors import printable

MAX_PROBLEMS = 20
"""Problems that are reported; each may require a search of all type names."""


def check(site: Site, name: str) -> None:
    """Print a summary of a valid file, and warnings for what in it has no effect."""
    name = printable(name)
    for number, problem in enumerate(idle(site)):
        if number == MAX_PROBLEMS:
            terminal.say("warning", "yellow", f"{name}: further warnings are not shown")
            break
        terminal.say("warning", "yellow", f"{name}: {problem}")
    terminal.out().print(f"{name}: valid; {_summary(site)}", soft_wrap=True)


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


def idle(site: Site) -> Iterator[str]:
    """Patterns that match nothing, probably misspelt, and profiles that nobody may use."""
    for index, default in enumerate(site.config.schedulers.defaults):
        yield from _matchless(site, f"$.schedulers.defaults[{index}].types", default.types)
    for name, profile in site.config.host_profiles.items():
        yield from _matchless(site, f"$.hostProfiles.{name}.types", profile.types)
        if not profile.namespaces:
            yield f"$.hostProfiles.{name}: no namespaces, so nobody may use it"


def _matchless(site: Site, path: str, patterns: tuple[str, ...]) -> Iterator[str]:
    for pattern in dict.fromkeys(patterns):
        if not any(site.catalogue.matching(pattern)) and not _is_type(site, pattern):
            near = catalogue.nearest(site, pattern)
            yield f"{path}: {quoted(pattern)} matches no accelerator type" + (f"; nearest: {near[0]}" if near else "")


def _is_type(site: Site, name: str) -> bool:
    """Types with a topology that is not the default of its size are not listed, but valid."""
    try:
        return site.catalogue.resolve(name).name == name
    except Denied:
        return False


def show(site: Site, output: str) -> None:
    """Print every key with its value, defaults included."""
    catalogue.show(site.config, output)
