"""What a file costs is in proportion to its size, whatever in it there is much of: manifests and site configs.

A file is made with n of something, then with 8n: processor time may grow sixteenfold, of five times the best, and calls
of Python functions tenfold. Linear is eightfold, quadratic sixty-four.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.core.test_site import CUBES, TPU, error_of
from tests.support.cost import SHORTEST, calls, seconds
from tests.support.manifest import HEAD, JOBSET, POD, SITE
from webhook.command import explain, inject
from webhook.errors import BadManifest

TIMES, MAX_TIME, MAX_CALLS = 8, 16.0, 10.0
FEWEST = 2_000  # calls: those that are made once for a file, whatever its size
Make = Callable[[int], str]

LATER = POD.removeprefix(HEAD)
ENV = "              env: [{name: A, value: '%d'}]\n"
TPU_JOBSET = JOBSET.format(type="tpu-v4-16")


def job(number: int, more: str = "", template: str = "") -> str:
    """One of many replicated jobs."""
    name = f"  - name: j{number}\n    template:"
    below = "      spec:\n        template:\n          spec:\n            containers:\n            - name: main\n"
    return f"{name} {template}\n" if template.startswith("*") else f"{name} {template}\n{below}{more}"


def jobs(count: int) -> str:
    return TPU_JOBSET + "".join(map(job, range(count)))


def many(count: int, text: str) -> str:
    """A text for each number, in it as `%d`."""
    return "".join(text.replace("%d", str(number)) for number in range(count))


def item(text: str) -> str:
    return "- " + text.replace("\n", "\n  ").rstrip(" ")


def json_jobs(count: int) -> str:
    spec = {"template": {"spec": {"containers": [{"name": "main"}]}}}
    items = [{"name": f"j{number}", "template": {"spec": spec}} for number in range(count)]
    metadata = {"name": "s", "annotations": {"accel.io/type": "tpu-v4-16"}}
    kind = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata}
    return json.dumps({**kind, "spec": {"replicatedJobs": items}}, indent=2)


def made(head: str, each: str, tail: str = "") -> Make:
    """A file of one part many times; its number stands for %d."""
    return lambda count: head + many(count, each) + tail


def in_quotes(count: int) -> str:
    return POD.replace("image: x", 'image: "' + "x" * count + '"')


COMMENTED = POD.partition("  - name: a")
IMAGE = POD.partition("x\n")
IN_CONTAINER = POD + "    "
REFERRED = POD.replace("image: x", "image: &x x")
CHAIN = "- &a {k: v}\n" + many(10, "- &a {<<: *a, k%d: v}\n")

MANIFESTS: dict[str, tuple[int, Make]] = {
    "documents": (6, made(POD, "---\n" + POD)),
    "documents that are denied": (6, made(POD, "---\n" + POD.replace("nvidia-l4", "l5"))),
    "empty documents": (500, made("", "---\n")),
    "documents with \\r\\n": (6, lambda n: made(POD, "---\n" + POD)(n).replace("\n", "\r\n")),
    "documents with \\r": (6, lambda n: made(POD, "---\n" + POD)(n).replace("\n", "\r")),
    "documents with U+2028": (6, lambda n: made(POD, "---\n" + POD)(n).replace("\n", "\u2028")),
    "items of a List": (6, made("apiVersion: v1\nkind: List\nitems:\n", item(POD))),
    "items that nobody knows": (100, made("apiVersion: v1\nkind: List\nitems:\n", "- {apiVersion: v1, kind: X}\n")),
    "replicated jobs": (4, jobs),
    "replicated jobs of their own": (4, lambda n: TPU_JOBSET + "".join(job(i, ENV % i) for i in range(n))),
    "replicated jobs in JSON": (4, json_jobs),
    "replicated jobs as aliases": (
        10,
        lambda n: TPU_JOBSET + job(0, template="&t") + "".join(job(i, template="*t") for i in range(1, n)),
    ),
    "templates whose containers are aliases": (
        6,
        lambda n: (
            jobs(n).replace("\n            - name: main", " *m").replace("Set\nm", "Set\nx: &m [{name: main}]\nm")
        ),
    ),
    "replicated jobs below a root of many fields": (4, lambda n: jobs(n) + many(40 * n, "k%d: v\n")),
    "replicated jobs below metadata of many fields": (
        4,
        lambda n: jobs(n).replace("  name: s\n", "  name: s\n" + many(40 * n, "  k%d: v\n")),
    ),
    "an annotation of many names above many jobs": (
        128,  # what would be injected is more than may be, for both sizes
        lambda n: jobs(n).replace("v4-16\n", f"v4-16\n    accel.io/container: {'main,'.ljust(60) * 5 * n}main\n"),
    ),
    "containers": (80, made(POD, "  - name: c%d\n")),
    "annotations": (400, made(HEAD, "    k%d: v\n", LATER)),
    "annotations with our prefix": (400, made(HEAD, "    accel.io/k%d: v\n", LATER)),
    "limits": (400, made(IN_CONTAINER + "resources:\n      limits:\n", "        k%d: 1\n")),
    "entries of a mapping": (400, made(IN_CONTAINER + "x:\n", "      k%d: v\n")),
    "entries between brackets": (400, made(IN_CONTAINER + "x: {", "k%d: v, ", "}\n")),
    "entries with ?": (400, made(POD, "? k%d\n: v\n")),
    "items of a list": (800, made(IN_CONTAINER + "args:\n", "    - a\n")),
    "items between brackets": (800, made(IN_CONTAINER + "args: [", "a, ", "]\n")),
    "tolerations between brackets": (200, made(POD + "  tolerations: [", "{key: k%d}, ", "]\n")),
    "tags": (800, made(IN_CONTAINER + "args:\n", "    - !!str a\n")),
    "anchors": (800, made(IN_CONTAINER + "args:\n", "    - &a%d x\n")),
    "aliases": (800, made(REFERRED + "    args:\n", "    - *x\n")),
    "merges": (200, made(POD + "x: &x {a: b}\ny:\n", "- {<<: *x, c: d}\n")),
    "merges of one mapping": (400, made(POD + "x: &x {a: b}\ny: {<<: [", "*x, ", "]}\n")),
    "merges of merges": (10, made(POD + "y:\n", CHAIN)),
    "comments": (20_000, made("", "# c\n", POD)),
    "comments in a list": (20_000, made(COMMENTED[0], "  # c\n", "".join(COMMENTED[1:]))),
    "comments at the end": (20_000, made(POD, "# c\n")),
    "blank lines": (20_000, made(COMMENTED[0], "\n", "".join(COMMENTED[1:]))),
    "blanks": (20_000, made(IMAGE[0] + "x", " ", "# c\n")),
    "a comment's text": (60_000, made(IMAGE[0] + "x # ", "c", "\n")),
    "a value's text": (60_000, in_quotes),
    "a value's words": (30_000, made(IMAGE[0], "x ", "x\n")),
    "a block's lines": (10_000, made(IMAGE[0] + "|\n", "      x\n")),
    "a block's blank lines": (20_000, made(IMAGE[0] + "|\n      x\n", "\n")),
    "a key's text": (60_000, made(IN_CONTAINER + '? "', "k", '"\n    : 1\n')),
    "digits": (60_000, made(IN_CONTAINER + "x: ", "1", "\n")),
    "hexadecimal digits": (60_000, made(IN_CONTAINER + "x: 0x", "f", "\n")),
    "digits in groups": (30_000, made(IN_CONTAINER + "x: 1", "_000", "\n")),
    "signs before a list": (60_000, made(HEAD + "spec:\n  containers: !", "&", "\r  - name: m")),
    "levels": (18, lambda n: POD + "x: " + "[" * n + "]" * n + "\n"),
    "levels of blocks": (18, lambda n: POD + "".join(" " * i + "a:\n" for i in range(n))),
    "levels that are too many": (5_000, made(POD + "x: ", "[")),
}

CONFIGS: dict[str, tuple[int, Make]] = {
    "models": (150, made("catalogue:\n", "- {kind: model, name: m%d, of: nvidia-gpu, mig: [1g.%dgb]}\n")),
    "devices with parts": (
        60,
        made(
            "catalogue:\n",
            "- {kind: devices, name: d%d, family: f, resource: a/d%d, mig: {prefix: d%d-mig-, resource: a/mig-%d-}}\n"
            "- {kind: model, name: m%d, of: d%d, mig: [1g]}\n",
        ),
    ),
    "instances": (
        150,
        made("catalogue:\n", "- {kind: instance, name: i%d, of: aws-neuron, instanceType: x, count: 1}\n"),
    ),
    "generations": (
        60,
        made(
            "catalogue:\n",
            "- {kind: tpu, name: v%dx, prefix: tpu-v%dx, spellings: [v%dx], coresPerChip: 1, dimensions: 2,\n"
            "   shapes: [2x2], wrap: all-from-4}\n",
        ),
    ),
    "shapes": (32, lambda n: TPU % f"coresPerChip: 1, shapes: [{'2x2x2,' * n}]"),
    "defaults": (300, lambda n: CUBES % f"defaults: [{'1,' * n}]"),
    "aliases of a model": (2000, made("catalogue: [{kind: model, name: m, of: nvidia-gpu, aliases: [", "a%d,", "]}]")),
    "an entry that is there twice": (
        150,
        lambda n: (
            made("catalogue:\n", "- {kind: model, name: m%d, of: nvidia-gpu}\n")(n) + "- {kind: model, name: m0, of: x}"
        ),
    ),
    "an entry of nothing": (
        150,
        made(
            "catalogue:\n",
            "- {kind: devices, name: d%d, family: f, resource: a/d%d}\n",
            "- {kind: model, name: m, of: none-of-them}",
        ),
    ),
    "placements": (150, made("placements:\n", "  p%d: {nodeSelector: {a: b}, namespaces: [t-*]}\n")),
    "placements, the last of them wrong": (300, made("placements:\n", "  p%d: {}\n", "  z: {tolerations: 1}\n")),
    "labels, the last of them wrong": (600, made("placements: {p: {nodeSelector: {", "k%d: v, ", "z: 1}}}")),
    "host profiles": (120, made("hostProfiles:\n", "  p%d: {types: [x-*], env: {A: b}}\n")),
    "libraries": (150, made("hostProfiles: {p: {libraries: [", "{hostPath: /a, mountPath: /b},", "]}}")),
    "patterns": (1200, made("hostProfiles: {p: {types: [", "x%d-*,", "]}}")),
    "scheduler defaults": (
        200,
        lambda n: (
            made("schedulers:\n  allowed: [volcano", ", s%d", "]\n  defaults:\n")(n)
            + f"    - {{types: [x], scheduler: s{n - 1}}}\n" * n
        ),
    ),
    "detected resources": (1000, made("detect: [", "a/r%d,", "]")),
    "resources of the old operator": (150, made("accelerators:\n", "  a/r%d: {envVars: [{name: A, value: b}]}\n")),
    "unknown keys": (1000, made("", "k%d: v\n")),
    "keys that are there twice": (1000, made("", "k%d: v\n", "k0: v\n")),
    "a key's text": (10_000, made("? ", "x", "\n: 1")),
    "a value's text": (10_000, made("platform: ", "x")),
    "comments": (10_000, made("", "# c\n")),
    "aliases": (1000, made("x: &x a\ny: [", "*x, ", "]")),
    "aliases that are too much": (2000, lambda n: "x: &x [" + "a, " * n + "]\ny: [" + "*x, " * n + "]"),
    "digits by sixties": (10_000, made("tpu: {legacyNodes: 1", ":1", "}")),
    "levels that are too many": (5_000, made("x: ", "[")),
}


def command(text: str) -> None:
    """All that the command does with a manifest, but for the start of a process."""
    for output in ("diff", "json"):
        try:
            inject.run([("f", text)], SITE, "default", output)
        except BadManifest:
            return
    explain.run([("f", text)], SITE, "default", "text")


def ratios(work: Callable[[str], object], short: str, long: str) -> Iterator[float]:
    """How much more the long text takes: each time by the best so far."""
    fastest_short = fastest_long = float("inf")
    for _ in range(5):
        fastest_short, fastest_long = (
            min(fastest_short, seconds(partial(work, short))),
            min(fastest_long, seconds(partial(work, long))),
        )
        yield fastest_long / max(fastest_short, SHORTEST)


def check(work: Callable[[str], object], size: int, make: Make) -> None:
    short, long = make(size), make(TIMES * size)
    work(make(1))  # what is made once for the process
    few, much = calls(partial(work, short)), calls(partial(work, long))
    assert much <= MAX_CALLS * max(few, FEWEST), f"calls: {few}, then {much}"
    found = []
    for ratio in ratios(work, short, long):
        found.append(ratio)
        if ratio <= MAX_TIME:
            break
    assert min(found) <= MAX_TIME, f"{len(short)} and {len(long)} characters: {found}"


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_manifest_costs_by_its_size(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Read, injected, shown as YAML, as JSON and as a diff, and explained."""
    check(command, *MANIFESTS[kind])
    capsys.readouterr()


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_site_config_costs_by_its_size(kind: str) -> None:
    """Read or refused."""
    check(lambda text: error_of(text.encode()), *CONFIGS[kind])
