"""What holds for every object, however odd: found by generating odd objects."""

import json
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from tests.support import untouched
from tests.support.case import decided, plain, review, site
from webhook.core.admission import admit
from webhook.core.annotations import KEYS

NAMES = st.sampled_from(["a", "b", "main", "x/y", "t~1", "~", "/", "", "é", "TPU_WORKER_ID", "MEGASCALE_SLICE_ID"])
TYPES = st.sampled_from(
    [
        "tpu-v4-8",
        "tpu-v4-16",
        "tpu-v6e-8",
        "tpu7x-8",
        "nvidia-l4",
        "nvidia-gpu",
        "tpu-v2-8",
        "none",
        "what",
        "aws_p5.48xlarge",
    ]
)
WORDS = st.one_of(
    TYPES, NAMES, st.sampled_from(["true", "false", "1", "2", "4", "64Gi", "volcano", "host", "2x2x1", "a,b"])
)
LEAF = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False, allow_infinity=False), NAMES)
UNKNOWN = st.recursive(LEAF, lambda v: st.lists(v, max_size=3) | st.dictionaries(NAMES, v, max_size=3), max_leaves=6)
AMOUNTS = st.sampled_from(["1", "4", "8", 4, "0", "500m", "1k", None])
RESOURCES = st.sampled_from(["cpu", "google.com/tpu", "nvidia.com/gpu", "accel.io/tpu-v4-8", "accel.io/nvidia-l4"])


def maybe(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with any of these fields, any of them null, and unknown fields."""
    optional = {name: st.none() | strategy for name, strategy in fields.items()}
    known = st.fixed_dictionaries({}, optional=optional)
    strange = st.dictionaries(st.sampled_from(["futureField", "x/y", "z~"]), UNKNOWN, max_size=1)
    return st.builds(lambda a, b: {**b, **a}, known, strange)


AMOUNT_MAPS = st.dictionaries(RESOURCES, AMOUNTS, max_size=2)
ENV = st.lists(
    st.none() | st.fixed_dictionaries({"name": NAMES, "value": st.sampled_from(["", "$(MEGASCALE_SLICE_ID)", "x"])}),
    max_size=4,
)
MOUNTS = st.lists(
    st.fixed_dictionaries({"name": NAMES, "mountPath": st.sampled_from(["/dev/shm", "/data", "/"])}), max_size=2
)
CONTAINERS = st.lists(
    maybe(name=NAMES, resources=maybe(limits=AMOUNT_MAPS, requests=AMOUNT_MAPS), env=ENV, volumeMounts=MOUNTS),
    max_size=3,
)
TOLERATIONS = st.lists(
    maybe(
        key=st.sampled_from(["google.com/tpu", "nvidia.com/gpu", "accel.io/tpu-v4-8", ""]), operator=st.just("Exists")
    ),
    max_size=3,
)
SELECTORS = st.dictionaries(
    st.sampled_from(["cloud.google.com/gke-tpu-topology", "disk"]), st.sampled_from(["2x2x1", "x"])
)
SPECS = maybe(
    containers=CONTAINERS,
    initContainers=CONTAINERS,
    nodeSelector=SELECTORS,
    tolerations=TOLERATIONS,
    volumes=st.lists(maybe(name=NAMES), max_size=2),
    schedulerName=st.sampled_from(["default-scheduler", "mine", ""]),
    hostNetwork=st.booleans(),
    dnsPolicy=st.sampled_from(["ClusterFirst", "None"]),
)
ANNOTATIONS = st.dictionaries(st.sampled_from([*KEYS, "accel.io/odd", "x/y~z"]), WORDS, max_size=4)
METADATA = maybe(annotations=ANNOTATIONS, labels=st.dictionaries(NAMES, NAMES, max_size=2), name=NAMES)
TYPED_METADATA = st.builds(
    lambda m, t: {**m, "annotations": {**(m.get("annotations") or {}), "accel.io/type": t}}, METADATA, TYPES
)
GOOD_TYPES = st.sampled_from(
    [
        "tpu-v4-8",
        "tpu-v4-16",
        "tpu-v6e-8",
        "tpu7x-8",
        "tpu7x-16",
        "nvidia-l4",
        "nvidia-gpu",
        "tpu-v2-8",
        "aws_p5.48xlarge",
    ]
)
GOOD_KEYS = st.fixed_dictionaries(
    {"accel.io/type": GOOD_TYPES},
    optional={
        "accel.io/shm": st.sampled_from(["true", "1Gi"]),
        "accel.io/container": st.sampled_from(["main", "side", "main,side"]),
        "accel.io/scheduler": st.sampled_from(["volcano", "default-scheduler"]),
        "accel.io/queue": st.just("q"),
        "accel.io/multislice": st.sampled_from(["true", "false"]),
        "x/y~z": NAMES,
    },
)
GOOD_CONTAINERS = st.builds(
    lambda first, rest: [{**first, "name": "main"}, {"name": "side", "x~/y": 1}, *rest],
    maybe(resources=maybe(limits=st.just({"cpu": 1}), requests=st.just({"cpu": 1})), env=ENV, volumeMounts=MOUNTS),
    CONTAINERS,
)
GOOD_SPECS = st.builds(lambda spec, containers: {**spec, "containers": containers}, SPECS, GOOD_CONTAINERS)
GOOD_METADATA = st.builds(lambda m, a: {**m, "annotations": a}, METADATA, GOOD_KEYS)
TEMPLATES = maybe(metadata=METADATA, spec=SPECS)
PODS = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.just("Pod"), "metadata": TYPED_METADATA | METADATA, "spec": SPECS}
)
GOOD_PODS = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.just("Pod"), "metadata": GOOD_METADATA, "spec": GOOD_SPECS}
)
JOB_SPECS = maybe(parallelism=st.integers(0, 4), completions=st.integers(0, 4), template=TEMPLATES)
JOBSETS = st.fixed_dictionaries(
    {
        "apiVersion": st.just("jobset.x-k8s.io/v1alpha2"),
        "kind": st.just("JobSet"),
        "metadata": TYPED_METADATA | METADATA,
        "spec": maybe(
            replicatedJobs=st.lists(
                maybe(
                    name=st.sampled_from(["a", "b"]),
                    replicas=st.integers(0, 3),
                    groupName=st.sampled_from(["default", "g"]),
                    template=maybe(metadata=METADATA, spec=JOB_SPECS),
                ),
                max_size=4,
            )
        ),
    }
)

GOOD_JOBS = st.builds(
    lambda job, name, spec, metadata: {
        **job,
        "name": name,
        "template": {**(job.get("template") or {}), "spec": {"template": {"metadata": metadata, "spec": spec}}},
    },
    maybe(replicas=st.integers(0, 3), groupName=st.sampled_from(["default", "g", "accel-tpu"])),
    st.sampled_from(["a", "b", "c"]),
    GOOD_SPECS,
    METADATA,
)
GOOD_JOBSETS = st.builds(
    lambda metadata, jobs: {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"replicatedJobs": jobs},
    },
    GOOD_METADATA,
    st.lists(GOOD_JOBS, min_size=1, max_size=4),
)

CONFIGURED = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def laws(obj: Any) -> None:
    """A decision, made without a crash; a patch that applies, that changes only what is ours, and converges."""
    first = decided(admit(review(obj), site(None)), obj)
    if first.denied:
        assert first.patch == []
        assert len(first.denied.splitlines()) <= 3
        return
    assert [] == untouched.strangers(plain(obj), plain(first.patched))
    again = decided(admit(review(first.patched), site(None)), first.patched)
    assert (again.denied, again.patch) == ("", [])


@CONFIGURED
@given(PODS | GOOD_PODS)
def test_pods(pod: Any) -> None:
    """Nulls, missing parents, odd names, unknown fields."""
    laws(pod)


@CONFIGURED
@given(JOBSETS | GOOD_JOBSETS)
def test_jobsets(jobset: Any) -> None:
    """The same at three levels and in lists."""
    laws(jobset)


@settings(max_examples=20, deadline=None)
@given(st.integers(100, 300))
def test_hundreds_of_containers(count: int) -> None:
    """Every container is looked at, one gets the devices."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"annotations": {"accel.io/type": "tpu-v4-8", "accel.io/container": f"c{count - 1}"}},
        "spec": {"containers": [{"name": f"c{i}"} for i in range(count)]},
    }
    laws(pod)


@CONFIGURED
@given(GOOD_PODS, st.binary(max_size=8), st.integers(0, 2000), st.integers(0, 20))
def test_mutilated_bodies(pod: Any, junk: bytes, at: int, length: int) -> None:
    """A body that something cut or overwrote gets a decision or a 400, and never half a patch."""
    body = review(pod)
    answer = admit(body[:at] + junk + body[at + length :], site(None))

    assert answer.status in (200, 400)
    if answer.status == 200:
        assert "response" in json.loads(answer.body)
