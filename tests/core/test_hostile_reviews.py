"""Objects that stopped the service, or made it answer with megabytes, when nothing was bounded: each by itself."""

import difflib
import json
import tracemalloc
from typing import Any

import pytest

from tests.support.case import decided, outcome, review, site
from webhook import load
from webhook.core import limits
from webhook.core.admission import Answer, admit
from webhook.core.site import Site

FULL = Site.parse(b"tpu: {environment: full}", "full.yaml", load.builtin())


def answered(obj: Any, old: Any = None, at: Site | None = None) -> Answer:
    """The answer to a review, which is always a decision, and never larger than an object may be."""
    answer = admit(review(obj, old, namespace="team-a"), at or site(None))
    assert answer.status == 200, answer.detail or answer.body
    assert len(answer.body) <= limits.ANSWER
    return answer


def pod(annotations: dict[str, str], containers: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A Pod that asks for something."""
    metadata = {"name": "train", "annotations": {"accel.io/type": "nvidia-l4", **annotations}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers or [{"name": "a"}]},
    }


def jobset(number: int, type_name: str, name: str = "train", **job: Any) -> dict[str, Any]:
    """A JobSet of so many replicated jobs."""
    template = {"spec": {"template": {"spec": {"containers": [{"name": "jax"}]}}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": {"accel.io/type": type_name}},
        "spec": {"replicatedJobs": [{"name": f"j{n}", "template": template, **job} for n in range(number)]},
    }


@pytest.mark.parametrize("digits", [8_000, 100_000, 3_000_000])
def test_a_size_of_very_many_digits(digits: int) -> None:
    """A pattern that backtracked took half a minute for 100,000 of them, and every other call waited."""
    assert answered(pod({"accel.io/shm": "9" * digits})).code == "too-large"


@pytest.mark.parametrize("amount", ["9" * 4_000, "9" * 100_000, "1" + "0" * 5_000, "0." + "0" * 100_000 + "1"])
def test_a_limit_of_very_many_digits(amount: str) -> None:
    """A custom resource comes unvalidated, and Python refuses to print a number of more than 4,300 digits."""
    limit = {"resources": {"limits": {"accel.io/nvidia-l4": amount}}, "name": "a"}

    assert answered(pod({}, [limit])).code == "too-large"
    assert answered(pod({}, [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": amount}}}])).code == "too-large"


def test_a_number_of_very_many_digits() -> None:
    """The same without quotes, where JSON has no bound either."""
    body = review(pod({}, [{"name": "a", "resources": {"limits": {"accel.io/nvidia-l4": 1}}}]))
    for digits in (30, 4_000, 5_000, 100_000):
        answer = admit(body.replace(b'nvidia-l4":1', b'nvidia-l4":' + b"9" * digits), site(None))
        assert (answer.status, answer.outcome) == (200, "denied")


def test_a_thousand_unknown_keys_in_a_hundred_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was compared with all of ours, for each template, while five warnings survive."""
    compared = []
    nearest = difflib.get_close_matches
    monkeypatch.setattr(difflib, "get_close_matches", lambda *a, **k: compared.append(a) or nearest(*a, **k))
    obj = jobset(100, "tpu-v4-16")
    obj["metadata"]["annotations"].update({f"accel.io/key-{n}": "" for n in range(1_000)})

    warnings = outcome(answered(obj).body, obj).warnings

    assert len(warnings) == limits.WARNINGS
    assert "and 996 more" in warnings[-1]
    assert len(compared) <= limits.WARNINGS


def test_a_long_name_in_many_jobs() -> None:
    """It stands in each coordinator's address: 98 kB became 60 MB."""
    assert answered(jobset(300, "tpu-v4-16", name="x" * 50_000)).code == "too-large"


def test_a_long_subdomain_of_many_hosts() -> None:
    """It stands in each host's name: 20 kB became 40 MB."""
    spec = {"subdomain": "s" * 20_000, "containers": [{"name": "jax"}]}
    metadata = {"name": "j", "annotations": {"accel.io/type": "tpu-v5p-17920"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": spec}}}

    assert answered(job, at=FULL).code == "too-large"


def test_many_jobs_of_many_hosts() -> None:
    """Each is right by itself; together they do not fit into an answer, nor into an object."""
    assert answered(jobset(5, "tpu-v5p-17920"), at=FULL).outcome == "injected"
    assert answered(jobset(300, "tpu-v5p-17920"), at=FULL).code == "too-large"


def test_as_many_containers_as_a_body_takes() -> None:
    """What Kubernetes would take is not refused for its number."""
    assert answered(pod({}, [{} for _ in range(250_000)])).outcome == "injected"
    names = [f"c{n}" for n in range(20_000)]
    every = {"accel.io/type": "nvidia-gpu", "accel.io/container": ",".join(names)}
    assert answered(pod(every, [{"name": name} for name in names])).outcome in ("injected", "denied")
    some = {"accel.io/type": "nvidia-gpu", "accel.io/container": ",".join(names[:2_000])}
    assert answered(pod(some, [{"name": name} for name in names])).outcome == "injected"


@pytest.mark.parametrize("depth", [2_000, 50_000])
def test_nested_very_deeply(depth: int) -> None:
    """A new object is denied with a reason; one that is stored already is left as it is."""
    body = review(pod({}), namespace="team-a").replace(b'"spec":', b'"x":' + b"[" * depth + b"]" * depth + b',"spec":')
    answer = admit(body, site(None))
    assert (answer.status, answer.code, answer.outcome) == (200, "too-large", "denied")
    update = admit(body.replace(b'"CREATE"', b'"UPDATE"'), site(None))
    assert (update.status, json.loads(update.body)["response"]["allowed"]) == (200, True)


def test_an_update_of_an_immutable_kind_is_never_denied() -> None:
    """Whatever it has become: the API server decides that."""
    stored = jobset(2, "tpu-v4-16")
    stored = decided(admit(review(stored), site(None)), stored).patched
    for broken in (
        {"metadata": {**stored["metadata"], "name": "x" * 300}},
        {"metadata": {**stored["metadata"], "annotations": {"accel.io/type": "x" * 300}}},
        {"spec": {**stored["spec"], "network": {"subdomain": "s" * 300}}},
    ):
        answer = answered({**stored, **broken}, stored)
        assert json.loads(answer.body)["response"]["allowed"], answer.detail


def test_a_list_of_names_for_every_template() -> None:
    """It was split again for each: a list of 250 kB on a JobSet of 500 jobs took four seconds."""
    obj = jobset(500, "nvidia-l4")
    obj["metadata"]["annotations"]["accel.io/container"] = ",".join(["jax"] * 60_000)

    assert answered(obj).code == "too-large"


def test_unknown_keys_are_not_carried_to_templates() -> None:
    """Of any length: they are not read, and Kubernetes accepts them."""
    obj = jobset(2, "nvidia-l4")
    obj["metadata"]["annotations"] |= {"accel.io/note": "x" * 10_000, "accel.io/injected": "x" * 10_000}

    assert answered(obj).outcome == "injected"


def test_names_of_hosts_are_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand templates each had its own of 280 kB: a body of 100 kB needed 275 MiB."""
    jobs = jobset(1_000, "tpu-v5p-8192")
    jobs["spec"]["network"] = {"subdomain": "s" * 200}
    tracemalloc.start()
    try:
        assert answered(jobs, at=FULL).code == "too-large"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024 * 1024


def test_an_object_larger_than_any() -> None:
    """A review holds two of them, so that a body can be larger than an object."""
    assert answered(pod({}, [{} for _ in range(1_200_000)])).code == "too-large"
    assert answered(pod({}, [{} for _ in range(400_000)])).code == "too-large"


@pytest.mark.parametrize("rest", [b"1e999", b"9" * 5_000, b'"\xff"'])
def test_a_long_name_beside_what_cannot_be_read(rest: bytes) -> None:
    """The denial says the size where it can be known."""
    body = review({**pod({}), "metadata": {"name": "x" * 300, "annotations": {"accel.io/type": "nvidia-l4"}}})
    answer = admit(body.replace(b'"spec":', b'"odd":' + rest + b',"spec":'), site(None))

    assert answer.status in (200, 400)


@pytest.mark.parametrize("odd", [5, True, 1.5, "x", {"a": 1}])
@pytest.mark.parametrize("field", ["tolerations", "volumes"])
def test_a_stored_object_of_a_schemaless_kind(field: str, odd: Any) -> None:
    """It may hold anything, and its next update is not refused for that."""
    template = {"spec": {"containers": [{"name": "a", "env": odd}]}}
    metadata = {"name": "v", "annotations": {"accel.io/type": "tpu-v4-8", "accel.io/shm": "true"}}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata}
    new = {**job, "spec": {"tasks": [{"name": "t", "template": {"spec": {"containers": [{"name": "a"}]}}}]}}
    old = {**job, "spec": {"tasks": [{"name": "t", "template": {"spec": {**template["spec"], field: odd}}}]}}

    assert json.loads(answered(new, old).body)["response"]["allowed"]


def test_a_leader_worker_set_that_somebody_labels() -> None:
    """Its spec and our keys are unchanged, and so is the result."""
    container = {"name": "a", "resources": {"limits": {"accel.io/nvidia-gpu": "4"}}}
    annotations = {"accel.io/type": "tpu-v5e-16", "accel.io/container": "a"}
    lws = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "l", "annotations": annotations},
        "spec": {"leaderWorkerTemplate": {"size": 1, "workerTemplate": {"spec": {"containers": [container]}}}},
    }
    stored = decided(admit(review(lws), site(None)), lws).patched
    labelled = {**stored, "metadata": {**stored["metadata"], "labels": {"team": "a"}}}

    assert decided(admit(review(labelled, stored), site(None)), labelled).patch == []


def test_detection_denies_nobody() -> None:
    """An object without keys of ours passes, whatever is in it."""
    detecting = Site.parse(b"detect: [nvidia.com/gpu]", "detect.yaml", load.builtin())
    plain = pod({}, [{"name": "x" * 300, "resources": {"limits": {"nvidia.com/gpu": 1}}}])
    del plain["metadata"]["annotations"]

    answer = answered(plain, at=detecting)

    assert (answer.outcome, outcome(answer.body, plain).denied) == ("unchanged", "")


def test_the_size_of_a_label() -> None:
    """Its key has dots, which are no steps."""
    obj = pod({})
    obj["metadata"]["labels"] = {"accel.io/whole-node": "x" * 100}

    assert "has 100 characters" in answered(obj).detail
