"""What an object costs is in proportion to its size, for every field and every repeated part of every kind.

The parts are found by walking the views, so a new field is tried by itself. An object is made with a part of size n,
then of 8n: processor time and calls of Python functions may grow at most twice as much as the body. So eight times the
body may cost sixteen times as much, while anything quadratic costs sixty-four times.
"""

import gc
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest
from msgspec import inspect

from tests.support.case import NAMESPACE, decided, plain, review
from tests.support.cost import SHORTEST, calls, seconds
from webhook import load
from webhook.core import annotations, limits
from webhook.core.admission import admit
from webhook.core.kinds.kind import Kind
from webhook.core.kinds.registry import WORKLOADS
from webhook.core.site import Site

pytestmark = pytest.mark.skipif(
    os.environ.get("ACCEL_COMPILED") == "1", reason="calls of compiled functions cannot be counted"
)

TIMES = 8
MAX_GROWTH = 2.0  # growth of a cost, as a multiple of the body's
LARGEST = 2 * 1024 * 1024  # bytes of a body with one large part
TRIES = (1, 5, 20)  # the least of so many is measured; more where fewer look bad, since others use the machine too

SITE = Site.parse(
    b"""
tpu: {environment: full}
sharedMemory: true
detect: [nvidia.com/gpu, google.com/tpu]
placements:
  spot: {nodeSelector: {disk: ssd}, tolerations: [{key: spot, operator: Exists}], resources: {example.com/nic: 1},
         runtimeClassName: a}
schedulers: {allowed: [volcano, default-scheduler, x0], defaults: [{types: [nvidia-*], queue: q}],
  queues: {default-scheduler: {label: kueue.x-k8s.io/queue-name, where: workload}, x0: {annotation: x1}}}
hostProfiles:
  libraries:
    types: ["*"]
    modes: [plugin]
    namespaces: ["*"]
    libraries: [{hostPath: /opt/a, mountPath: /opt/a}, {hostPath: /opt/b, mountPath: /opt/b}]
    env: {LD_LIBRARY_PATH: /opt/a, EXAMPLE: "1"}
    runtimeClassName: b
""",
    "costs",
    load.builtin(),
)
TYPES = ("nvidia-l4", "tpu-v4-16")
ASKED = {"accel.io/placement": "spot", "accel.io/shm": "true"}
CONTAINER = {"name": "main", "resources": {"limits": {"cpu": "1"}}, "env": [{"name": "A", "value": "$(EXAMPLE)"}]}
TEMPLATE = {"metadata": {"annotations": {}}, "spec": {"subdomain": "here", "containers": [CONTAINER]}}
Step = str | int


class Part(NamedTuple):
    """A field that can be large: text, or one that is repeated."""

    path: tuple[Step, ...]
    type: inspect.Type

    @property
    def name(self) -> str:
        return ".".join(map(str, self.path))

    @property
    def repeated(self) -> bool:
        return not isinstance(self.type, inspect.StrType)


@cache
def parts(view: type[Any]) -> list[Part]:
    """Every text, list and mapping of a view, at any depth; but for the version, which the review itself names."""
    return [part for part in _parts(inspect.type_info(view), ()) if part.path != ("apiVersion",)]


def _parts(kind: inspect.Type, path: tuple[Step, ...]) -> Iterator[Part]:
    if isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from _parts(one, path)
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            yield from _parts(field.type, (*path, field.encode_name))
    elif isinstance(kind, inspect.ListType | inspect.DictType):
        yield Part(path, kind)
        below = kind.item_type if isinstance(kind, inspect.ListType) else kind.value_type
        yield from _parts(below, (*path, 0 if isinstance(kind, inspect.ListType) else "key"))
    elif isinstance(kind, inspect.StrType):
        yield Part(path, kind)


def sample(kind: inspect.Type, number: int, depth: int = 0) -> Any:
    """A value of a type; no two numbers give the same."""
    if isinstance(kind, inspect.UnionType):
        return sample(next(k for k in kind.types if not isinstance(k, inspect.NoneType)), number, depth)
    if isinstance(kind, inspect.StructType):
        fields = kind.fields if depth < 4 else ()
        return {f.encode_name: sample(f.type, number, depth + 1) for f in fields if _is_filled(f.encode_name)}
    if isinstance(kind, inspect.ListType):
        return [sample(kind.item_type, number, depth + 1)]
    if isinstance(kind, inspect.DictType):
        return {f"x{number}": sample(kind.value_type, number, depth + 1)}
    if isinstance(kind, inspect.IntType):
        return 1
    return f"x{number}" if isinstance(kind, inspect.StrType) else None


def _is_filled(field: str) -> bool:
    """What would have the object left alone, or refused at once, is not filled in."""
    return field not in (
        "deletionTimestamp",
        "ownerReferences",
        "nodeName",
        "os",
        "completionMode",
        "subGroupPolicy",
        "size",
    )


def basis(workload: Kind[Any], type_name: str) -> Any:
    """An object of a kind that asks for a type, with one template everywhere where there can be one."""
    version = f"{workload.group}/{workload.versions[0]}".removeprefix("/")
    metadata = {"name": "train", "annotations": {"accel.io/type": type_name, **ASKED}}
    obj: Any = {"apiVersion": version, "kind": workload.kind, "metadata": metadata}
    if workload.kind == "Pod":
        return {**obj, "spec": plain(TEMPLATE["spec"])}
    for place in templates(workload):
        put(obj, place, plain(TEMPLATE))
        if not workload.patched:
            put(obj, (*place, "metadata", "annotations"), plain(metadata["annotations"]))
    return obj


def templates(workload: Kind[Any]) -> list[tuple[Step, ...]]:
    """Where a kind has pod templates."""
    found = {part.path[:-2] for part in parts(workload.view) if part.path[-2:] == ("spec", "containers")}
    return sorted(path for path in found if path)


def is_twin(part: Part) -> bool:
    """Whether another field, of its object or of a RayCluster, has the same type and goes the same way through us."""
    return not {"tfReplicaSpecs", "mpiReplicaSpecs", "rayClusterSpec", "rayClusterConfig"}.isdisjoint(part.path)


def put(node: Any, path: tuple[Step, ...], value: Any) -> None:
    """Set what stands at a path, and make what is missing on the way."""
    for step, following in itertools.pairwise(path):
        empty: Any = [] if isinstance(following, int) else {}
        if isinstance(node, list):
            node += [empty] if len(node) <= int(step) else []
            node = node[int(step)]
        else:
            name = "worker" if step == "key" else step
            node[name] = node.get(name) or empty
            node = node[name]
    if isinstance(node, list):
        node[:] = [value]
    else:
        node["worker" if path[-1] == "key" else path[-1]] = value


def get(node: Any, path: tuple[Step, ...]) -> Any:
    """What stands at a path; None where there is nothing."""
    for step in path:
        if isinstance(node, list):
            node = node[int(step)] if int(step) < len(node) else None
        elif isinstance(node, dict):
            node = node.get("worker" if step == "key" else step)
        else:
            return None
    return node


def enlarged(obj: Any, part: Part, size: int) -> Any:
    """The object with a part of `size` characters, items or entries, beside what is there."""
    obj, there = plain(obj), get(obj, part.path)
    if isinstance(part.type, inspect.StrType):
        put(obj, part.path, "x" * size)
    elif isinstance(part.type, inspect.ListType):
        first = (there or [])[:1]
        more = [merged(first[0] if first else None, sample(part.type.item_type, n)) for n in range(size)]
        put(obj, part.path, [*first, *more])
    else:
        prefix = "accel.io/" if part.path[-1] == "annotations" else ""
        more = {f"{prefix}x{n}": merged(None, sample(part.type.value_type, n)) for n in range(size)}
        put(obj, part.path, {**(there or {}), **more})
    return obj


def merged(first: Any, other: Any) -> Any:
    """An item like the first one of its list, with names of its own."""
    if not isinstance(first, dict) or not isinstance(other, dict):
        return other
    return {**other, **first, **{name: other[name] for name in ("name", "groupName") if name in other}}


class Cost(NamedTuple):
    """What one review takes."""

    bytes: int
    seconds: float
    calls: int


def cost(obj: Any, old: Any, times: int = 1) -> tuple[Cost, str]:
    """The minimum CPU time of some runs, the calls of Python functions of one, and its result."""
    body = review(obj, old, namespace=NAMESPACE)

    def work() -> None:
        nonlocal answer
        answer = admit(body, SITE)

    answer: Any = None
    found = Cost(len(body), min(seconds(work) for _ in range(times)), calls(work))
    assert answer.status in (200, 400), answer.detail
    assert len(answer.body) <= limits.ANSWER
    return found, answer.outcome


def grown(small: tuple[Any, Any], large: tuple[Any, Any]) -> tuple[float, float, str]:
    """By how much time and calls grow, as multiples of the body's growth; measured again where it looks bad."""
    for times in TRIES:
        (one, _), (other, outcome) = cost(*small, times), cost(*large, times)
        body = max(other.bytes / one.bytes, 1.0)
        longer = other.seconds / max(one.seconds, SHORTEST) / body
        more = other.calls / one.calls / body
        if max(longer, more) <= MAX_GROWTH:
            break
    return longer, more, outcome


def updates(workload: Kind[Any]) -> tuple[bool, ...]:
    return (False, True) if workload.reapply else (False,)


def stored(obj: Any) -> Any:
    """What the API server keeps of it."""
    answer = decided(admit(review(obj, namespace=NAMESPACE), SITE), obj)
    return obj if answer.denied else answer.patched


def tried(workload: Kind[Any], small: Any, large: Any, what: str) -> Iterator[str]:
    """What costs too much, on CREATE and on UPDATE."""
    for update in updates(workload):
        longer, more, outcome = grown(*((obj, stored(obj) if update else None) for obj in (small, large)))
        if max(longer, more) > MAX_GROWTH:
            yield f"{what}{' (UPDATE)' * update}: {longer:.1f} x time, {more:.1f} x calls, {outcome}"


def named(workloads: Iterable[Kind[Any]]) -> list[Any]:
    return [pytest.param(workload, id=f"{workload.plural}.{workload.group}") for workload in workloads]


VIEWS = {workload.view: workload for workload in WORKLOADS.values()}
"""A kind for each view: kinds with the same view have the same parts."""


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """Its runs would add to the cost that is being measured."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def one_large_part(workload: Kind[Any], tested: list[Part], largest: int) -> list[str]:
    """Each part by itself, in a body of so many bytes; what costs too much."""
    wrong: list[str] = []
    for number, part in enumerate(tested):
        obj = basis(workload, TYPES[number % 2])
        item = len(json.dumps(enlarged(obj, part, 1))) - len(json.dumps(obj)) if part.repeated else 1
        size = max(largest // TIMES // max(item, 16), 2) if part.repeated else largest // TIMES
        wrong += tried(workload, enlarged(obj, part, size), enlarged(obj, part, size * TIMES), part.name)
    return wrong


def two_repeated_parts(workload: Kind[Any], size: int) -> list[str]:
    """Each with each, of so many items, then of eight times as many; what costs too much.

    What looks for one in the other costs the product. The types take turns.
    """
    wrong: list[str] = []
    repeated = [part for part in parts(workload.view) if part.repeated and not is_twin(part)]
    for number, (one, other) in enumerate(itertools.combinations(repeated, 2)):
        obj = basis(workload, TYPES[number % 2])
        small, large = (enlarged(enlarged(obj, one, n), other, n) for n in (size, size * TIMES))
        wrong += tried(workload, small, large, f"{one.name} x {other.name}")
    return wrong


@pytest.mark.parametrize("workload", named(VIEWS.values()))
def test_one_large_part(workload: Kind[Any]) -> None:
    """Every field of every kind, but for twins. Small enough for every day; calls are counted exactly even so."""
    assert one_large_part(workload, [part for part in parts(workload.view) if not is_twin(part)], 100_000) == []


def test_two_repeated_parts() -> None:
    """Every pair in a Pod."""
    assert two_repeated_parts(WORKLOADS["", "Pod"], 3) == []


VALUES: dict[str, Callable[[int], str]] = {
    "letters": lambda size: "x" * size,
    "digits": lambda size: "9" * size,
    "dots": lambda size: "1." * (size // 2),
    "sizes": lambda size: "4x" * (size // 2),
    "parts": lambda size: "nvidia-mig-" * (size // 11),
    "blanks": lambda size: " " * size + "1",
    "names": lambda size: ",".join(f"x{n}" for n in range(size // 6)),
}


@pytest.mark.parametrize("value", VALUES)
def test_our_own_words(value: str) -> None:
    """Each of our annotations with a long value, and a limit of ours with a long name and a long amount."""
    wrong: list[str] = []
    pod = basis(WORKLOADS["", "Pod"], TYPES[0])
    for key in annotations.KEYS:
        objects = [plain(pod) for _ in range(2)]
        for obj, size in zip(objects, (20_000, 20_000 * TIMES), strict=True):
            obj["metadata"]["annotations"][key] = VALUES[value](size)
            obj["spec"]["containers"] += [{"name": f"x{n}"} for n in range(size // 6)]
        wrong += tried(WORKLOADS["", "Pod"], *objects, f"{key}: {value}")
    for name, amount in (("nvidia-l4", VALUES[value]), (VALUES[value], "1")):
        objects = [plain(pod) for _ in range(2)]
        for obj, size in zip(objects, (20_000, 20_000 * TIMES), strict=True):
            limit = {f"accel.io/{text(name, size)}": text(amount, size)}
            obj["spec"]["containers"][0]["resources"]["limits"] = limit
        wrong += tried(WORKLOADS["", "Pod"], *objects, f"a limit: {value}")
    assert wrong == []


def text(value: str | Callable[[int], str], size: int) -> str:
    return value if isinstance(value, str) else value(size)


LISTED = {annotations.CONTAINER: "main", annotations.PLACEMENT: "spot"}
"""What our lists may name here."""


def listing(key: str, size: int) -> str:
    """A list that is read to its end; names have blanks behind them, so that copies cost more than splitting does."""
    return ",".join([LISTED.get(key, "x").ljust(60)] * (size // 61))


def lists_of_templates(workload: Kind[Any]) -> list[Part]:
    """The parts of a kind whose every item is, or has, a pod template."""
    places = {path[:step] for path in templates(workload) for step, name in enumerate(path) if name in (0, "key")}
    return [part for part in parts(workload.view) if part.path in places and not is_twin(part)]


TEMPLATED = [workload for workload in VIEWS.values() if lists_of_templates(workload)]


@pytest.mark.parametrize("workload", named(TEMPLATED))
def test_our_own_words_above_many_templates(workload: Kind[Any]) -> None:
    """Each template inherits the object's annotations, parses them and gets a copy.

    The product is in proportion to what comes out, which has a bound: both objects are beyond it.
    """
    wrong: list[str] = []
    for group in lists_of_templates(workload):
        objects = [enlarged(basis(workload, TYPES[0]), group, size) for size in (100, 100 * TIMES)]
        for key in annotations.KEYS[:-1]:  # nobody reads the last one
            small, large = map(plain, objects)
            small["metadata"]["annotations"][key] = listing(key, 32_000)
            large["metadata"]["annotations"][key] = listing(key, 32_000 * TIMES)
            wrong += tried(workload, small, large, f"{key} x {group.name}")
    assert wrong == []


@pytest.mark.parametrize("workload", named(TEMPLATED))
def test_metadata_above_many_templates(workload: Kind[Any]) -> None:
    """Each template inherits the object's own metadata, however large that is.

    It asks for nothing, so that many templates cost little, and what is looked through for each of them costs most.
    """
    wrong: list[str] = []
    for group, part in itertools.product(lists_of_templates(workload), parts(workload.view)):
        if part.repeated and part.path[0] == "metadata":
            obj = basis(workload, "none")
            small, large = (enlarged(enlarged(obj, part, 1_000 * n), group, 125 * n) for n in (1, TIMES))
            wrong += tried(workload, small, large, f"{part.name} x {group.name}")
    assert wrong == []


def test_terms_of_a_stored_slice() -> None:
    """Those that look like ours are compared with the stored ones, few as ours are."""
    wrong: list[str] = []
    job = WORKLOADS["batch", "Job"]
    for term in ({}, {"labelSelector": {"matchExpressions": [{"key": "accel.io/multi-host", "operator": "Exists"}]}}):
        objects = []
        for size in (500, 500 * TIMES):
            terms = [{"topologyKey": "z", "matchLabelKeys": [f"k{n}"], **term} for n in range(size)]
            obj = plain(basis(job, TYPES[0]))
            template = obj["spec"]["template"]
            template["metadata"]["labels"] = {"accel.io/multi-host": "true"}
            template["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
            changed = plain(obj)
            changed["metadata"]["annotations"]["example.com/a"] = "b"
            objects.append((changed, obj))
        longer, more, outcome = grown(*objects)
        if max(longer, more) > MAX_GROWTH:
            wrong.append(f"{term}: {longer:.1f} x time, {more:.1f} x calls, {outcome}")
    assert wrong == []


@pytest.mark.soak
@pytest.mark.parametrize("workload", named(VIEWS.values()))
def test_one_part_as_large_as_a_body_takes(workload: Kind[Any]) -> None:
    """The same at the size of the largest objects."""
    assert one_large_part(workload, [part for part in parts(workload.view) if not is_twin(part)], LARGEST) == []


@pytest.mark.soak
@pytest.mark.parametrize("workload", named(VIEWS.values()))
def test_two_large_parts(workload: Kind[Any]) -> None:
    """Every pair in every kind, so large that CPU time is meaningful too."""
    assert two_repeated_parts(workload, 12) == []


def test_every_text_has_a_bound() -> None:
    """Every string and number in a view must declare a maximum."""
    for workload in WORKLOADS.values():
        for part in parts(workload.view):
            if isinstance(part.type, inspect.StrType):
                assert part.type.max_length is not None, f"{workload.kind}: {part.name}"
            if isinstance(part.type, inspect.DictType):
                key = part.type.key_type
                assert isinstance(key, inspect.StrType)
                assert key.max_length is not None, f"{workload.kind}: a key of {part.name}"
