"""The site config of a running service: changed, it is followed within seconds, and no call fails meanwhile."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from tests.support.background import Background

from .chart import INJECTED, Release, install
from .conftest import build
from .controlplane import ControlPlane, expect

pytestmark = pytest.mark.usefixtures("nodes")

H100 = {"accel.io/type": "nvidia-h100-80gb", "accel.io/count": "8"}
LIBRARIES = {
    "types": ["nvidia-gpu"],
    "modes": ["plugin"],
    "namespaces": ["test-*"],
    "libraries": [{"hostPath": "/opt/nvidia", "mountPath": "/usr/local/nvidia"}],
}


@pytest.fixture(scope="module")
def release(cluster: ControlPlane, pytestconfig: pytest.Config) -> Iterator[Release]:
    """Two replicas; each test says what their config is."""
    build(pytestconfig, "helm")
    with install(cluster, values={"config": {"platform": "gke"}}) as release:
        release.run_pods(2)
        yield release


def create(cluster: ControlPlane, namespace: str, annotations: Mapping[str, str], *, dry: bool = True) -> Any:
    """Ask for a Pod with one container; with a bare limit where it carries no annotation."""
    container: dict[str, Any] = {"name": "main", "image": "example/train"}
    if not annotations:
        container["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    body = {"metadata": {"name": "train", "annotations": dict(annotations)}, "spec": {"containers": [container]}}
    query = {"dryRun": "All"} if dry else None
    return cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body, query)


class Calls(Background):
    """Somebody who asks for Pods all the time, in a thread; `failed` are the answers that were not 201."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.count = 0
        self.failed: list[Any] = []
        super().__init__(partial(self._ask, cluster, namespace))

    def _ask(self, cluster: ControlPlane, namespace: str) -> None:
        while not self.over.is_set():
            answer = create(cluster, namespace, H100)
            self.count += 1
            if answer.status != 201:
                self.failed.append(answer.body)


def everyone(release: Release, namespace: str, annotations: Mapping[str, str], probe: Any) -> None:
    """Wait until several answers in a row, of both replicas, pass the probe."""

    def follows() -> bool:
        return all(probe(create(release.cluster, namespace, annotations)) for _ in range(6))

    release.wait_for("both replicas to follow the config", follows)


def test_another_platform(cluster: ControlPlane, release: Release, namespace: str) -> None:
    """From GKE's labels to GPU feature discovery's: the same Pod then lands on the node that has only those."""
    with Calls(cluster, namespace) as calls:
        release.upgrade({"config": {"platform": "gfd"}})
        everyone(release, namespace, H100, lambda a: "nodeSelector" not in a.body["spec"])
    print(f"{calls.count} calls during the change, none failed")
    stored = expect(create(cluster, namespace, H100, dry=False), "the pod")
    node = cluster.wait_for("the pod to be bound", lambda: cluster.pods(namespace)[0]["spec"].get("nodeName"))

    assert calls.failed == []
    (term,) = stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert "nvidia.com/gpu.product" == term["matchExpressions"][0]["key"]
    assert "gfd-h100" == node


def test_detection_comes_and_goes(cluster: ControlPlane, release: Release, namespace: str) -> None:
    """The webhook's entry detect.accel.io follows the config, and so does what a bare limit gets."""
    entries = [w["name"] for w in release.webhook_configuration["webhooks"]]
    assert "detect.accel.io" not in entries
    config = {"hostProfiles": {"libraries": LIBRARIES}, "detect": ["nvidia.com/gpu"]}
    release.upgrade({"config": config})
    everyone(release, namespace, {}, mounted)
    found = next(w for w in release.webhook_configuration["webhooks"] if w["name"] == "detect.accel.io")

    assert "Ignore" == found["failurePolicy"]
    other = cluster.namespace(INJECTED, prefix="other")
    assert not mounted(create(cluster, other, {}))
    release.upgrade({"config": {}})
    everyone(release, namespace, {}, lambda answer: not mounted(answer))
    assert "detect.accel.io" not in [w["name"] for w in release.webhook_configuration["webhooks"]]
    cluster.delete_namespace(other)


def mounted(answer: Any) -> bool:
    """Whether the Pod got the profile's libraries."""
    mounts = expect(answer, "the pod")["spec"]["containers"][0].get("volumeMounts", [])
    return any(mount["mountPath"] == "/usr/local/nvidia" for mount in mounts)


def test_the_legacy_file_is_read_as_it_is(cluster: ControlPlane, release: Release, namespace: str) -> None:
    """The old operator's `accelerators`: detection and profile in one, in every namespace that opted in."""
    legacy = {
        "nvidia.com/gpu": {
            "volumes": [{"name": "lib", "mountPath": "/usr/local/nvidia", "hostPath": "/opt/nvidia"}],
            "envVars": [{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia"}],
        }
    }
    release.upgrade({"config": {"accelerators": legacy}})
    everyone(release, namespace, {}, mounted)
    container = expect(create(cluster, namespace, {}), "the pod")["spec"]["containers"][0]

    assert [{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia"}] == container["env"]


def test_a_permission_that_is_taken_away(cluster: ControlPlane, release: Release, namespace: str) -> None:
    """Mode host, a placement and a scheduler work while the config has them, and are Forbidden once it has not."""
    profile = {"types": ["nvidia-*"], "namespaces": ["test-*"], "devices": ["/dev/x"], "exclusiveNode": True}
    asked = (
        {**H100, "accel.io/mode": "host"},
        {**H100, "accel.io/placement": "spot"},
        {**H100, "accel.io/scheduler": "my-sched"},
    )
    release.upgrade(
        {
            "config": {
                "platform": "gke",
                "hostProfiles": {"devices": profile},
                "placements": {"spot": {"nodeSelector": {"pool": "spot"}}},
                "schedulers": {"allowed": ["my-sched"]},
            }
        }
    )
    for annotations in asked:
        everyone(release, namespace, annotations, lambda a: a.status == 201)
    release.upgrade({"config": {"platform": "gke"}})
    for annotations in asked:
        everyone(release, namespace, annotations, lambda a: a.status in (403, 422))
