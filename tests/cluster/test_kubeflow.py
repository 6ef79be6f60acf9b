"""PyTorchJobs with the real training operator, on fake GPU and TPU nodes."""

from typing import Any

import pytest

from .controlplane import ControlPlane
from .environment import environment
from .pods import running

pytestmark = pytest.mark.usefixtures("injector", "nodes", "training_operator")

PATH = "/apis/kubeflow.org/v1/namespaces/{}/pytorchjobs"

Object = dict[str, Any]


def role(replicas: int, **annotations: str) -> Object:
    """A role whose template says what it wants in annotations of ours, by their names."""
    keys = {f"accel.io/{key}": value for key, value in annotations.items()}
    pods = {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}}
    return {"replicas": replicas, "template": {"metadata": {"annotations": keys}, **pods}}


def create(cluster: ControlPlane, namespace: str, **roles: Object) -> tuple[str, ...]:
    """Create a PyTorchJob; return the warnings."""
    spec = {"pytorchReplicaSpecs": roles}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "train"}, "spec": spec}
    answer = cluster.request("POST", PATH.format(namespace), body)
    assert answer.status == 201, answer.body
    return answer.warnings


def test_gpus_for_master_and_workers(cluster: ControlPlane, namespace: str) -> None:
    """Every pod has its devices on the right node, and the operator's variables are what they are without us."""
    each = role(1, type="nvidia-h100-80gb", count="2")
    assert create(cluster, namespace, Master=each, Worker={**each, "replicas": 3}) == ()
    pods = running(cluster, namespace, 4)

    assert {p["spec"]["nodeName"] for p in pods} == {"gke-h100"}
    for pod in pods:
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}
        variables = [variable["name"] for variable in pod["spec"]["containers"][0]["env"]]
        assert len(variables) == len(set(variables))
    found = [environment(pod) for pod in pods]
    assert {env["WORLD_SIZE"] for env in found} == {"4"}
    assert sorted(env["RANK"] for env in found) == ["0", "1", "2", "3"]


def test_the_hosts_of_a_slice(cluster: ControlPlane, namespace: str) -> None:
    """A master and a worker are the two hosts of a v4-16; a warning says that nothing sets their ids."""
    (warning,) = create(cluster, namespace, Master=role(1, type="tpu-v4-16"), Worker=role(1, type="tpu-v4-16"))
    assert "nothing sets TPU_WORKER_ID" in warning
    pods = running(cluster, namespace, 2)

    (pool,) = {p["spec"]["nodeName"][:-2] for p in pods}
    assert pool in ("v4-2x2x2-a", "v4-2x2x2-b")
    assert len({p["spec"]["nodeName"] for p in pods}) == 2
