"""A file applied again after the site config changed: stored objects keep what they were created with."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from tests.support.stored import meaning

from .chart import Release
from .controlplane import ControlPlane

pytestmark = pytest.mark.usefixtures("jobset_controller")

OWN = {"kind": "model", "name": "nvidia-own", "of": "nvidia-gpu", "select": {"gke": {"example.com/gpu": ["own"]}}}
OTHER = {**OWN, "select": {"gke": {"example.com/gpu": ["other"]}}}
WITH = {"config": {"catalogue": [OWN]}}
VALUES = WITH
GPUS = {"accel.io/type": "nvidia-own"}
POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train", "annotations": GPUS},
    "spec": {"template": {"spec": {**POD, "tolerations": [{"key": "team", "operator": "Exists"}]}}},
}
JOBSET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "train", "annotations": GPUS},
    "spec": {"suspend": True, "replicatedJobs": [{"name": "w", "template": {"spec": {"template": {"spec": POD}}}}]},
}


def configure(cluster: ControlPlane, injector: Release, namespace: str, values: Mapping[str, Any], probe: Any) -> None:
    """Upgrade to these values and wait until a Pod's dry run shows that they are used."""
    injector.upgrade({"replicas": 1, **values})
    pod = {"metadata": {"name": "probe", "annotations": GPUS}, "spec": POD}
    path = f"/api/v1/namespaces/{namespace}/pods"

    def used() -> bool:
        injector.sync()
        return bool(probe(cluster.request("POST", path, pod, {"dryRun": "All"})))

    cluster.wait_for("the new config to be used", used, 90)


def selector(answer: Any) -> Any:
    """The stored node label."""
    return answer.status == 201 and answer.body["spec"].get("nodeSelector", {}).get("example.com/gpu")


def spec_of(cluster: ControlPlane, namespace: str, kind: str) -> Any:
    """The stored spec."""
    return meaning(json.loads(cluster.kubectl("get", kind, "train", "-n", namespace, "-o", "json").stdout)["spec"])


@pytest.mark.parametrize("obj", [JOB, JOBSET], ids=["Job", "JobSet"])
def test_entries_gained_changed_and_dropped(
    cluster: ControlPlane, injector: Release, namespace: str, obj: dict[str, Any]
) -> None:
    """More and other entries break nothing; one that is gone gives the API server's refusal, and our warning why."""
    text, apply = yaml.safe_dump(obj), ["apply", "-n", namespace, "-f", "-"]
    configure(cluster, injector, namespace, WITH, lambda a: selector(a) == "own")
    cluster.kubectl(*apply, input=text)
    kind = obj["kind"].lower()
    created = spec_of(cluster, namespace, kind)

    changed = {"config": {"catalogue": [OTHER], "sharedMemory": True}}
    configure(cluster, injector, namespace, changed, lambda a: selector(a) == "other")
    again = cluster.kubectl(*apply, input=text)
    assert created == spec_of(cluster, namespace, kind)
    assert "cannot change: the stored value is kept" in again.stderr

    configure(cluster, injector, namespace, {"config": {}}, lambda a: a.status == 422)
    refused = cluster.kubectl(*apply, input=text, check=False)
    assert refused.returncode != 0
    assert "immutable" in refused.stderr
    warnings = [line for line in refused.stderr.splitlines() if line.startswith("Warning: accel.io: left as it was: ")]
    assert any('accel.io/type: "nvidia-own" is not in the catalogue' in line for line in warnings)
