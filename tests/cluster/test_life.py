"""A workload's life on the real controllers: after each step its words, its fields and its Pods agree.

Applied again, annotated, given another image, scaled, suspended and resumed, robbed of a Pod, updated while its
namespace is not injected or the webhook is away, given another type, and deleted and created again. No update that
leaves our words alone is refused.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.stored import meaning

from .chart import INJECTED, Release
from .controlplane import ControlPlane
from .process import ClusterError

pytestmark = pytest.mark.usefixtures(
    "injector", "nodes", "jobset_controller", "lws_controller", "kuberay_operator", "training_operator"
)

GPU, OTHER = "nvidia-h100-80gb", "nvidia-gpu"
MODEL = "cloud.google.com/gke-accelerator"
NAME = "life"
APP = {"app": NAME}
Object = dict[str, Any]


def template(image: str, policy: str = "Always") -> Object:
    spec = {"restartPolicy": policy, "containers": [{"name": "main", "image": image}]}
    return {"metadata": {"labels": APP}, "spec": spec}


def job(image: str) -> Object:
    return {"template": {"spec": template(image, "Never")["spec"]}}


def selected(image: str) -> Object:
    return {"replicas": 2, "selector": {"matchLabels": APP}, "template": template(image)}


def ray(image: str) -> Object:
    worker = {"groupName": "w", "replicas": 2, "minReplicas": 2, "maxReplicas": 2, "rayStartParams": {}}
    head = {"spec": {"containers": [{"name": "ray-head", "image": image}]}}
    return {
        "headGroupSpec": {"rayStartParams": {}, "template": head},
        "workerGroupSpecs": [{**worker, "template": template(image)}],
    }


@dataclass(frozen=True)
class Life:
    """A kind and what can be done to it. Paths are those of a merge patch."""

    version: str
    kind: str
    spec: Callable[[str], Object]
    pods: int
    image: bool = True  # its template can change
    scale: tuple[Any, int] | None = None  # a change of its replicas, and how many Pods that makes
    suspend: Callable[[bool], Any] | None = None
    follows: bool = False  # another type reaches its Pods
    without: frozenset[str] = field(
        default_factory=frozenset
    )  # the names of Pods, by what they contain, without devices


LIVES = {
    "Job": Life("batch/v1", "Job", job, 1, image=False, suspend=lambda s: {"suspend": s}),
    "JobSet": Life(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        lambda image: {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": job(image)}}]},
        2,
        image=False,
        suspend=lambda s: {"suspend": s},
    ),
    "Deployment": Life("apps/v1", "Deployment", selected, 2, scale=({"replicas": 3}, 3), follows=True),
    "StatefulSet": Life(
        "apps/v1",
        "StatefulSet",
        lambda image: {"serviceName": NAME, "podManagementPolicy": "Parallel", **selected(image)},
        2,
        scale=({"replicas": 3}, 3),
        follows=True,
    ),
    "LeaderWorkerSet": Life(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        lambda image: {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template(image)}},
        2,
        scale=({"replicas": 2}, 4),
        follows=True,
    ),
    "RayCluster": Life("ray.io/v1", "RayCluster", ray, 3, without=frozenset({"-head-"})),
    "PyTorchJob": Life(
        "kubeflow.org/v1",
        "PyTorchJob",
        lambda image: {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": pytorch(image)}}},
        2,
        suspend=lambda s: {"runPolicy": {"suspend": s}},
    ),
}


def pytorch(image: str) -> Object:
    return {"spec": {"containers": [{"name": "pytorch", "image": image}]}}


def manifest(life: Life, image: str = "example/one", kind: str = GPU) -> str:
    """The user's file. A Deployment's or StatefulSet's Pods have only what their template says."""
    words, spec = {"accel.io/type": kind}, life.spec(image)
    metadata: Object = {"name": NAME}
    if life.version == "apps/v1":
        spec["template"]["metadata"]["annotations"] = words
    else:
        metadata["annotations"] = words
    return json.dumps({"apiVersion": life.version, "kind": life.kind, "metadata": metadata, "spec": spec})


class Lived:
    """One workload in its namespace, and what is done to it."""

    def __init__(self, cluster: ControlPlane, namespace: str, life: Life) -> None:
        self.cluster, self.namespace, self.life = cluster, namespace, life
        self.type, self.pods = GPU, life.pods

    @property
    def path(self) -> str:
        return f"/apis/{self.life.version}/namespaces/{self.namespace}/{self.life.kind.lower()}s/{NAME}"

    def apply(self, text: str) -> str:
        """kubectl apply; the warnings."""
        return self.cluster.kubectl("apply", "-n", self.namespace, "-f", "-", input=text).stderr

    def patch(self, body: Any) -> None:
        answer = self.cluster.request("PATCH", self.path, body)
        assert answer.ok, answer.body

    def annotate(self, value: str) -> None:
        """What every tool does: a key that is not ours."""
        self.patch({"metadata": {"annotations": {"example.com/seen": value}}})

    def look(self, after: str) -> None:
        """Wait until there are so many Pods, and each has what the type means."""

        def agreed() -> bool:
            living = [p for p in self.cluster.pods(self.namespace) if not p["metadata"].get("deletionTimestamp")]
            return len(living) == self.pods and not any(map(self.differs, living))

        try:
            self.cluster.wait_for(f"{self.life.kind}: {self.pods} Pods of {self.type} after it was {after}", agreed, 60)
        except ClusterError as error:
            found = {p["metadata"]["name"]: self.differs(p) for p in self.cluster.pods(self.namespace)}
            raise AssertionError(f"{error}: {found}") from None

    def differs(self, pod: Any) -> str:
        """How a Pod's fields differ from its words."""
        spec = pod["spec"]
        found = spec["containers"][0].get("resources", {}).get("limits", {}).get("nvidia.com/gpu")
        if any(part in pod["metadata"]["name"] for part in self.life.without):
            return f"{found} GPUs" if found else ""
        injected = pod["metadata"].get("annotations", {}).get("accel.io/injected")
        model = spec.get("nodeSelector", {}).get(MODEL)
        wanted = ("1", self.type, GPU if self.type == GPU else None)
        return "" if (found, injected, model) == wanted else f"{found} x {injected} on {model}"


@pytest.fixture
def lived(cluster: ControlPlane, namespace: str, request: pytest.FixtureRequest) -> Lived:
    return Lived(cluster, namespace, LIVES[request.param])


@pytest.mark.parametrize("lived", LIVES, indirect=True)
def test_a_life(lived: Lived, injector: Release) -> None:
    """From its creation to its second."""
    life, cluster = lived.life, lived.cluster
    lived.apply(manifest(life))
    lived.look("created")
    first = meaning(cluster.get(lived.path)["spec"])
    lived.apply(manifest(life))
    assert meaning(cluster.get(lived.path)["spec"]) == first
    lived.annotate("once")
    lived.look("applied again")

    image = "example/two" if life.image else "example/one"
    lived.apply(manifest(life, image))
    lived.look("given another image")
    if life.scale is not None:
        change, lived.pods = life.scale
        lived.patch({"spec": change})
        lived.look("scaled")
        lived.apply(manifest(life, image))  # a merge: the file's own number again
        lived.pods = life.pods
        lived.look("scaled back")
    if life.suspend is not None:
        lived.patch({"spec": life.suspend(True)})
        lived.pods = 0
        lived.look("suspended")
        lived.patch({"spec": life.suspend(False)})
        lived.pods = life.pods
        lived.look("resumed")

    victim = next(p for p in cluster.pods(lived.namespace) if "-head-" not in p["metadata"]["name"])["metadata"]["name"]
    cluster.kubectl("delete", "pod", victim, "-n", lived.namespace, "--force", "--grace-period=0")
    lived.look("robbed of a Pod")

    cluster.kubectl("label", "namespace", lived.namespace, "accel.io/injection-")
    lived.annotate("without the label")
    if life.kind != "JobSet":  # whose list would be replaced, and may not change: docs/operating.md
        lived.apply(manifest(life, image))
    cluster.kubectl("label", "namespace", lived.namespace, *(f"{key}={value}" for key, value in INJECTED.items()))
    lived.apply(manifest(life, image))
    lived.look("labelled again")

    running = len(injector.pods)
    injector.kubelet.close()
    lived.annotate("without the webhook")
    cluster.kubectl("delete", "pods", "--all", "-n", injector.namespace, "--force", "--grace-period=0")
    injector.run_pods(running)
    lived.apply(manifest(life, image))
    lived.look("applied with the webhook back")

    said = lived.apply(manifest(life, image, OTHER))
    if life.follows:
        lived.type = OTHER
    else:
        assert "accel.io: " in said
    lived.look("given another type")

    cluster.kubectl("delete", life.kind, NAME, "-n", lived.namespace, "--cascade=foreground")
    lived.pods = 0
    lived.look("deleted")
    lived.apply(manifest(life, image, OTHER))
    lived.type, lived.pods = OTHER, life.pods
    lived.look("created again")
