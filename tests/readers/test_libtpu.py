"""The real libtpu on what is written with environment: full: `make libtpu`, no part of the other tests.

What it should conclude is worked out here from the topology alone.
"""

from math import prod
from typing import Any

import pytest
import yaml

from tests.cluster.environment import environment
from tests.support.case import plain
from webhook import load
from webhook.core.site import Site
from webhook.manifest.inject import injected

from . import venv

pytestmark = pytest.mark.libtpu

SITE = Site.parse(b"tpu: {environment: full}", "site.yaml", load.builtin())
HOST = {1: (1, 1, 1), 4: (2, 2, 1), 8: (2, 4, 1)}  # chips of one machine, as they lie
TYPES = {
    "v3-8": ("2x2", 4),
    "v3-32": ("4x4", 4),
    "v4-8": ("2x2x1", 4),
    "v4-16": ("2x2x2", 4),
    "v4-64": ("2x4x4", 4),
    "v4-128": ("4x4x4", 4),
    "v4-512": ("4x8x8", 4),
    "v5e-1": ("1x1", 1),
    "v5e-4": ("2x2", 4),
    "v5e-8": ("2x4", 8),
    "v5e-16": ("4x4", 4),
    "v5e-256": ("16x16", 4),
    "v5p-8": ("2x2x1", 4),
    "v5p-32": ("2x2x4", 4),
    "v5p-256": ("4x4x8", 4),
    "v6e-8": ("2x4", 8),
    "v6e-64": ("8x8", 4),
    "v6e-128": ("8x16", 4),
    "tpu7x-8": ("2x2x1", 4),
    "tpu7x-128": ("4x4x4", 4),
}
RESILIENT = ("v4", "v5p", "tpu7x")
"""Generations with links to spare in slices of whole cubes.

Source: https://github.com/ai-on-gke/tpu-device-plugin/blob/4626a9f4/pkg/tpu/util/util.go
"""


def pods(type_name: str, containers: int = 1, replicas: int = 1) -> list[dict[str, Any]]:
    """The last Pod of each slice of a JobSet, as the controllers would make it and the webhook admits it."""
    names = [f"c{index}" for index in range(containers)]
    annotations = {"accel.io/type": type_name, **({"accel.io/container": ",".join(names)} if containers > 1 else {})}
    template = {"spec": {"containers": [{"name": name, "image": "i"} for name in names]}}
    job = {"name": "s", "replicas": replicas, "template": {"spec": {"template": template}}}
    jobset = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "t", "annotations": annotations},
        "spec": {"replicatedJobs": [job]},
    }
    made = written(jobset)["spec"]["replicatedJobs"][0]["template"]["spec"]
    return [admitted(made, index, replicas) for index in range(replicas)]


def admitted(job: dict[str, Any], index: int, replicas: int) -> dict[str, Any]:
    """The last Pod of one of the Jobs."""
    pod = plain(job["template"])
    name = f"t-s-{index}"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "u", "controller": True}
    annotations = {
        "batch.kubernetes.io/job-completion-index": str(job.get("completions", 1) - 1),
        "jobset.sigs.k8s.io/global-replicas": str(replicas),
        "jobset.sigs.k8s.io/job-global-index": str(index),
    }
    pod["metadata"] = {
        "name": name,
        "labels": {"batch.kubernetes.io/job-name": name},
        "annotations": {**pod["metadata"]["annotations"], **annotations},
        "ownerReferences": [owner],
    }
    pod["spec"]["subdomain"] = "t"
    return written({"apiVersion": "v1", "kind": "Pod", **pod})


def written(obj: dict[str, Any]) -> Any:
    """What `accel inject` makes of it."""
    text, _ = injected(yaml.safe_dump(obj), SITE, "team-a")
    return yaml.safe_load(text)


def flags(*environments: dict[str, str]) -> list[dict[str, str]]:
    """What libtpu makes of each."""
    found: list[dict[str, str]] = venv.ask("libtpu_flags", list(environments), 600, venv.LIBTPU)
    return found


def test_every_size_is_a_slice_of_its_hosts() -> None:
    """Bounds, addresses, rings and resiliency of twenty sizes."""
    answers = flags(*(environment(pods(name)[0]) for name in TYPES))
    expected = {name: conclusion(name, *TYPES[name]) for name in TYPES}
    found = {
        name: {flag: a.get(flag, "false") for flag in expected[name]} for name, a in zip(TYPES, answers, strict=True)
    }

    assert expected == found
    assert not [a for a in answers if any(flag.startswith("megascale_") and "slice" in flag for flag in a)]


def conclusion(name: str, topology: str, chips: int) -> dict[str, str]:
    """The flags of a slice of that shape, whose machines have so many chips."""
    shape = [*map(int, topology.split("x")), 1][:3]
    bounds = [size // step for size, step in zip(shape, HOST[chips], strict=True)]
    hosts = prod(bounds)
    names = ["localhost"] if hosts == 1 else [f"t-s-0-{index}.t" for index in range(hosts)]
    cubes = min(shape) >= 4 and name.startswith(RESILIENT)
    return {
        "deepsea_host_bounds": ",".join(map(str, bounds)),
        "deepsea_chips_per_host_bounds": ",".join(map(str, HOST[chips])),
        "deepsea_slice_builder_worker_addresses": ",".join(f"{host}:8471" for host in names),
        "deepsea_ici_resilient": str(cubes).lower(),
    }


def test_processes_that_divide_hosts_meet() -> None:
    """Two slices of two hosts, two processes on each: one list of four in each slice, and one coordinator for all."""
    made = pods("tpu7x-16", containers=2, replicas=2)
    answers = flags(*(environment(pod, index) for pod in made for index in (0, 1)))
    listed = [",".join(f"t-s-{s}-{host}.t:{port}" for host in (0, 1) for port in (8471, 8472)) for s in (0, 0, 1, 1)]

    assert listed == [a["deepsea_slice_builder_worker_addresses"] for a in answers]
    assert ["8471", "8472"] * 2 == [a["deepsea_slice_builder_worker_port"] for a in answers]
    assert ["0", "0", "1", "1"] == [a["megascale_slice_id"] for a in answers]
    assert {"t-s-0-0.t:8080"} == {a["megascale_coordinator_address"] for a in answers}
    ports = [(a["megascale_port"], a["megascale_debug_port"]) for a in answers]
    assert [("8080", "8090"), ("8081", "8091")] * 2 == ports
