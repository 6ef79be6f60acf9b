"""RayClusters with the real KubeRay operator, on fake TPU nodes."""

import json
from typing import Any

import pytest

from webhook import load
from webhook.manifest.inject import injected

from .controlplane import ControlPlane
from .pods import running

pytestmark = pytest.mark.usefixtures("injector", "nodes", "kuberay_operator")

REPLICA = "ray.io/worker-group-replica-name"
PATH = "/apis/ray.io/v1/namespaces/{}/rayclusters"
HEAD = {"rayStartParams": {}, "template": {"spec": {"containers": [{"name": "ray-head", "image": "i"}]}}}

Object = dict[str, Any]


def group(replicas: int, **fields: Any) -> Object:
    """A worker group of slices of two hosts, which says no more than its type."""
    pods = {"spec": {"containers": [{"name": "ray-worker", "image": "i"}]}}
    template = {"metadata": {"annotations": {"accel.io/type": "tpu-v4-16"}}, **pods}
    size = {"replicas": replicas, "minReplicas": replicas, "maxReplicas": replicas}
    return {"groupName": "tpu", "rayStartParams": {}, "template": template, **size, **fields}


def ray_cluster(*groups: Object) -> Object:
    """A RayCluster named ray."""
    spec = {"headGroupSpec": HEAD, "workerGroupSpecs": list(groups)}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "ray"}, "spec": spec}


def test_a_worker_group_of_two_slices(cluster: ControlPlane, namespace: str) -> None:
    """Two replicas of two hosts: four workers on four TPU hosts, which Ray itself knows as TPU workers; a CPU head."""
    answer = cluster.request("POST", PATH.format(namespace), ray_cluster(group(2)))
    assert answer.status == 201, answer.body
    assert answer.body["spec"]["workerGroupSpecs"][0]["numOfHosts"] == 2
    pods = running(cluster, namespace, 5)

    (head,) = [p for p in pods if p["metadata"]["labels"]["ray.io/node-type"] == "head"]
    assert head["spec"]["nodeName"] == "cpu"
    workers = [p for p in pods if p is not head]
    assert {p["spec"]["nodeName"][:8] for p in workers} == {"v4-2x2x2"}
    assert len({p["spec"]["nodeName"] for p in workers}) == 4
    replicas = {(p["metadata"]["labels"][REPLICA], p["spec"]["nodeName"][:-2]) for p in workers}
    assert len(replicas) == 2  # each in one node pool
    for pod in workers:
        container = pod["spec"]["containers"][0]
        assert container["resources"]["limits"] == {"google.com/tpu": "4"}
        assert '"TPU":4' in " ".join(container["args"]).replace("\\", "")  # KubeRay's own count for Ray
        names = [variable["name"] for variable in container["env"]]
        assert not [name for name in names if name.startswith(("TPU_", "MEGASCALE_"))]


def test_injected_offline_it_needs_no_webhook(cluster: ControlPlane) -> None:
    """What `accel inject` prints, applied in a namespace without the label, makes the same workers."""
    namespace = cluster.namespace()
    text, _ = injected(json.dumps(ray_cluster(group(1))), load.load(), namespace)
    cluster.kubectl("apply", "-n", namespace, "-f", "-", input=text)
    pods = running(cluster, namespace, 3)

    assert sorted(pod["spec"]["nodeName"][:8] for pod in pods) == ["cpu", "v4-2x2x2", "v4-2x2x2"]
    cluster.delete_namespace(namespace)


def test_another_number_of_hosts_is_refused(cluster: ControlPlane, namespace: str) -> None:
    """Before any pod, with the number that is valid."""
    answer = cluster.request("POST", PATH.format(namespace), ray_cluster(group(1, numOfHosts=4)))
    assert answer.status == 422
    assert 'worker group "tpu": numOfHosts: "4", but tpu-v4-16 has 2 hosts' in answer.body["message"]
