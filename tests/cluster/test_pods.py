"""Pods through a real API server, the chart installed: stored, placed, refused, and what else stands in a namespace."""

import json
import time
from typing import Any

import pytest

from tests.support.case import Case

from . import goldens
from .chart import Release
from .controlplane import ControlPlane, expect
from .goldens import PLAIN
from .nodes import rows

pytestmark = pytest.mark.usefixtures("injector", "nodes")


def pod(kind: str | None = "tpu-v4-8", name: str = "train", **spec: Any) -> dict[str, Any]:
    """A Pod that asks for a type, or does not."""
    annotations = {"accel.io/type": kind} if kind else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "example/train"}], **spec},
    }


def create(cluster: ControlPlane, namespace: str, obj: dict[str, Any], dry: bool = False) -> Any:
    """POST it; the answer whatever it is."""
    return cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", obj, {"dryRun": "All"} if dry else None)


def test_a_pod_is_stored_with_its_chips_and_bound_to_the_right_node(cluster: ControlPlane, namespace: str) -> None:
    """The whole promise, with the real scheduler and one node of several that fits."""
    node = next(row for row in rows() if row["name"] == "v4-2x2x1")
    cluster.fake_nodes([{**node, "name": "v4-2x2x1-free"}])  # others may have taken the first one
    stored = create(cluster, namespace, pod())

    assert stored.status == 201, stored.body
    container = stored.body["spec"]["containers"][0]
    assert {"google.com/tpu": "4"} == container["resources"]["limits"] == container["resources"]["requests"]
    assert {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v4-podslice",
        "cloud.google.com/gke-tpu-topology": "2x2x1",
    } == stored.body["spec"]["nodeSelector"]
    assert "google.com/tpu" in [t.get("key") for t in stored.body["spec"]["tolerations"]]
    bound = cluster.wait_for("the pod to be bound", lambda: cluster.pods(namespace)[0]["spec"].get("nodeName"))
    assert bound in ("v4-2x2x1", "v4-2x2x1-free")


@pytest.mark.parametrize("where", ["unlabelled", "kube-system", "release"])
def test_other_namespaces_are_not_touched(cluster: ControlPlane, injector: Release, where: str) -> None:
    """An annotation means nothing where the admin did not opt in, and never in the namespaces that must always work."""
    labels = {"accel.io/injection": "enabled"}
    namespace = {
        "unlabelled": lambda: cluster.namespace(),
        "kube-system": lambda: "kube-system",
        "release": lambda: injector.namespace,
    }[where]()
    if where != "unlabelled":
        cluster.kubectl("label", "--overwrite", "namespace", namespace, *(f"{k}={v}" for k, v in labels.items()))
    secure = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    container = {
        "name": "main",
        "image": "example/train",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    sent = pod(name=f"left-alone-{time.time_ns()}", containers=[container], securityContext=secure)
    stored = create(cluster, namespace, sent, dry=True)
    cluster.kubectl("label", "namespace", namespace, "accel.io/injection-")

    assert stored.status == 201, stored.body
    assert "nodeSelector" not in stored.body["spec"]
    assert "accel.io/injected" not in stored.body["metadata"]["annotations"]


def test_kubectl_shows_why_a_type_is_refused(cluster: ControlPlane, namespace: str, tmp_path: Any) -> None:
    """The message names what was meant, and the reason is Invalid."""
    refused = create(cluster, namespace, pod("tpu-v4-17"))

    assert (422, "Invalid") == (refused.status, refused.body["reason"])
    assert 'accel.io/type: "tpu-v4-17" is not in the catalogue' in refused.body["message"]
    assert "tpu-v4-16" in refused.body["message"]
    manifest = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{"accel.io/type":"tpu-v4-17"}}'
    manifest += ',"spec":{"containers":[{"name":"c","image":"i"}]}}'
    shown = cluster.kubectl("create", "-n", namespace, "-f", "-", input=manifest, check=False)
    assert shown.returncode != 0
    assert "tpu-v4-16" in shown.stderr


def test_warnings_reach_the_client(cluster: ControlPlane, namespace: str) -> None:
    """One of N hosts: allowed, with a warning."""
    stored = create(cluster, namespace, pod("tpu-v4-16"), dry=True)

    assert stored.status == 201
    assert any("tpu-v4-16 has 2 hosts" in warning for warning in stored.warnings)


@pytest.mark.parametrize("case", PLAIN, ids=[case.name for case in PLAIN])
def test_golden_cases_are_stored_as_the_command_prints_them(cluster: ControlPlane, case: Case) -> None:
    """Dry run of every Pod case without a config; what the API server defaults comes on top."""
    assert [] == goldens.amiss(case, goldens.create(cluster, case))


def test_a_limit_range_defaults_and_bounds_as_without_us(cluster: ControlPlane, namespace: str) -> None:
    """cpu and memory are up to the namespace; a maximum of chips is checked on the injected value."""
    limits = [
        {"type": "Container", "default": {"memory": "1Gi"}},
        {"type": "Pod", "max": {"google.com/tpu": "4"}},  # per Container a maximum would be a default too
    ]
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "limits", "namespace": namespace},
            "spec": {"limits": limits},
        }
    )
    fits = cluster.wait_for("the limit range", lambda: defaulted(create(cluster, namespace, pod(), dry=True).body))
    too_many = create(cluster, namespace, pod("tpu-v5e-8"), dry=True)

    assert {"google.com/tpu": "4", "memory": "1Gi"} == fits["spec"]["containers"][0]["resources"]["limits"]
    assert 403 == too_many.status
    assert "maximum google.com/tpu usage per Pod is 4" in too_many.body["message"]


def test_a_default_of_gpus_is_nobodys_word(cluster: ControlPlane, namespace: str) -> None:
    """LimitRanger gives every container a GPU before we are called: only the chosen one keeps its own number."""
    spec = {"limits": [{"type": "Container", "default": {"nvidia.com/gpu": "1"}}]}
    metadata = {"name": "gpus", "namespace": namespace}
    cluster.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": spec})
    names = ("main", "side")
    body = {
        "metadata": {"name": "serve", "annotations": {"accel.io/type": "nvidia-l4", "accel.io/count": "2"}},
        "spec": {"containers": [{"name": name, "image": "example/serve"} for name in names]},
    }

    def filled_in() -> Any:
        stored = create(cluster, namespace, body, dry=True)
        noted = "kubernetes.io/limit-ranger" in stored.body["metadata"].get("annotations", {})
        return stored if noted or not stored.ok else None

    stored = expect(cluster.wait_for("the limit range", filled_in), "the pod")
    amounts = {c["name"]: c["resources"]["limits"]["nvidia.com/gpu"] for c in stored["spec"]["containers"]}
    assert amounts == {"main": "2", "side": "0"}

    template = {"spec": {**body["spec"], "restartPolicy": "Never"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": body["metadata"], "spec": {"template": template}}
    cluster.kubectl("create", "-n", namespace, "-f", "-", input=json.dumps(job))
    (made,) = cluster.wait_for("its Pod", lambda: cluster.pods(namespace))
    amounts = {c["name"]: c["resources"]["limits"]["nvidia.com/gpu"] for c in made["spec"]["containers"]}
    assert amounts == {"main": "2", "side": "0"}


def defaulted(stored: Any) -> Any:
    """The Pod, once the limit range is known to the API server."""
    return stored if "memory" in stored["spec"]["containers"][0]["resources"]["limits"] else None


def test_a_quota_counts_injected_chips(cluster: ControlPlane, namespace: str) -> None:
    """Four chips are allowed, so the second Pod of four is refused."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "chips", "namespace": namespace},
        "spec": {"hard": {"requests.google.com/tpu": "4"}},
    }
    cluster.apply(quota)
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/chips"
    cluster.wait_for("the quota to be counted", lambda: cluster.get(path).get("status", {}).get("hard"))

    assert 201 == create(cluster, namespace, pod(name="first")).status
    second = create(cluster, namespace, pod(name="second"))
    assert 403 == second.status
    assert "exceeded quota: chips" in second.body["message"]


def test_pod_security_judges_the_injected_pod(cluster: ControlPlane) -> None:
    """A restricted namespace takes an injected Pod that is otherwise restricted: nothing we add needs privilege."""
    namespace = cluster.namespace(
        {"accel.io/injection": "enabled", "pod-security.kubernetes.io/enforce": "restricted"}, prefix="restricted"
    )
    container = {
        "name": "main",
        "image": "example/train",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    secure = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}

    assert 403 == create(cluster, namespace, pod(), dry=True).status
    stored = create(cluster, namespace, pod(containers=[container], securityContext=secure), dry=True)
    assert 201 == stored.status, stored.body
    assert "google.com/tpu" in stored.body["spec"]["containers"][0]["resources"]["limits"]


def test_when_the_service_is_down_only_those_who_asked_wait(
    cluster: ControlPlane, injector: Release, namespace: str
) -> None:
    """failurePolicy Fail is safe, because the API server calls us only for objects that asked. Runs last."""
    injector.kubelet.close()
    refused = create(cluster, namespace, pod(), dry=True)
    started = time.monotonic()
    plain = create(cluster, namespace, pod(None), dry=True)

    assert refused.status == 500, refused.body
    assert "failed calling webhook" in refused.body["message"]
    assert 201 == plain.status
    print(f"a Pod that did not ask was created in {1000 * (time.monotonic() - started):.0f} ms")
