"""`admission.admit` alone, in this process: microseconds of CPU time, by review, by stage and by size.

It is the CPU time of this thread, so that a busy machine does not look like a slow program. Each figure is the median
of batches, and the batches of all figures alternate.
"""

import json
import time
from collections.abc import Callable
from typing import Any

from benchmarks import machine, manifests, reviews
from benchmarks.sample import Figure
from webhook import load
from webhook.core import admission, review
from webhook.core.inject import inject
from webhook.core.kinds.kind import Context
from webhook.core.kinds.registry import WORKLOADS
from webhook.core.schema.admission import Response
from webhook.core.site import Site
from webhook.server.replica import settle

BATCH_SECONDS = 0.02
ROUNDS = 15

Work = Callable[[], object]


def site(text: bytes = b"") -> Site:
    """A site config, loaded as `accel serve` loads it."""
    return Site.parse(text, "benchmark", load.builtin())


def measure(works: dict[str, Work], rounds: int = ROUNDS) -> dict[str, Figure]:
    """Microseconds per call of each."""
    figures = {name: Figure("us") for name in works}
    counts = {name: _count(work) for name, work in works.items()}
    settle()  # as `accel serve` does once it is ready
    with machine.Watch() as watch:
        found = [(name, _batch(work, counts[name])) for _ in range(rounds) for name, work in works.items()]
    for name, value in found:
        figures[name].add(value, watch.others)
    return figures


def _count(work: Work) -> int:
    """The number of calls in a batch. Finding it also warms up caches."""
    count = 1
    while (spent := _batch(work, count) * count / 1e6) < BATCH_SECONDS:
        count = max(count + 1, int(count * min(10.0, 1.2 * BATCH_SECONDS / max(spent, 1e-7))))
    return count


def _batch(work: Work, count: int) -> float:
    calls = range(count)
    began = time.thread_time_ns()
    for _ in calls:
        work()
    return (time.thread_time_ns() - began) / 1000 / count


def reviews_figures(rounds: int = ROUNDS) -> dict[str, Figure]:
    """`admit` on every recorded review."""
    known = site()
    return measure({name: _admit(reviews.load(name), known) for name in reviews.NAMES}, rounds)


def _admit(body: bytes, known: Site) -> Work:
    answer = admission.admit(body, known)
    assert answer.status == 200, answer
    return lambda: admission.admit(body, known)


def stages(name: str, rounds: int = ROUNDS) -> dict[str, Figure]:
    """The stages of `admit` of one review; `rest` is the difference between the whole and their sum."""
    body, known = reviews.load(name), site()
    request = review.decode(body)
    workload = WORKLOADS[request.kind.group, request.kind.kind]
    raw = bytes(request.object)
    obj = admission.view(workload, raw)
    setting = Context(request.namespace or "", known)
    injection = inject(workload, obj, setting)
    operations = admission._operations(obj, injection)
    patch = review.encode_patch(operations, admission.PATCH) or b""
    response = Response(uid=request.uid, allowed=True, patchType="JSONPatch", patch=patch)

    def encode() -> bytes:
        review.encode_patch(operations, admission.PATCH)
        return review.encode(response)

    figures = measure(
        {
            "read": lambda: admission._created(body),
            "inject": lambda: inject(workload, obj, setting),
            "render": lambda: admission._operations(obj, injection),
            "encode": encode,
            "admit": lambda: admission.admit(body, known),
        },
        rounds,
    )
    parts = [figures[stage].median for stage in figures if stage != "admit"]
    figures["rest"] = Figure("us", [figures["admit"].median - sum(parts)])
    return figures


def sized(counts: tuple[int, ...], make: Callable[[int], dict[str, Any]], rounds: int = 7) -> dict[int, Figure]:
    """`admit` on reviews of growing objects."""
    known = site()
    works: dict[str, Work] = {str(n): _admit(_review(make(n)), known) for n in counts}
    return {int(n): figure for n, figure in measure(works, rounds).items()}


def _review(obj: dict[str, Any]) -> bytes:
    """A review of an object, with the fields that `admit` reads."""
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": obj["kind"]}
    request = {"uid": "6f1c8a52-0000-4000-8000-000000000001", "kind": kind, "operation": "CREATE", "namespace": "train"}
    return json.dumps(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {**request, "object": obj}},
        separators=(",", ":"),
    ).encode()


def pod_of(containers: int) -> dict[str, Any]:
    """A Pod of a single-host type, which needs no other Pods."""
    return manifests.pod({"accel.io/type": "tpu-v4-8"}, containers)


def jobset_of(replicated: int) -> dict[str, Any]:
    members = [manifests.slices({}, 2, 2, f"slice-{number}") for number in range(replicated)]
    return manifests.jobset("train", members, manifests.ANNOTATED)


def catalogues(entries: tuple[int, ...], rounds: int = 7) -> dict[int, Figure]:
    """`admit` on the TPU Pod with this many additional catalogue entries in the site config."""
    body = reviews.load("jobset-pod")
    works: dict[str, Work] = {str(n): _admit(body, site(_catalogue(n))) for n in entries}
    return {int(n): figure for n, figure in measure(works, rounds).items()}


def _catalogue(entries: int) -> bytes:
    own = [{"kind": "model", "name": f"example-{n}", "of": "nvidia-gpu"} for n in range(entries)]
    return json.dumps({"catalogue": own}).encode()


def slope(figures: dict[int, Figure]) -> float:
    """The cost of one more unit in the upper half of the sizes, divided by that in the lower half: 1.0 is linear."""
    sizes = sorted(figures)
    low, middle, high = sizes[0], sizes[len(sizes) // 2], sizes[-1]

    def step(a: int, b: int) -> float:
        return (figures[b].median - figures[a].median) / (b - a)

    return step(middle, high) / step(low, middle)
