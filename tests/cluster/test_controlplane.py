"""The test bed itself: an API server that answers, a scheduler that places pods, nodes that run them."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes.client
import pytest

from tests.support.checkout import ROOT

from .binaries import PROGRAMS, ensure, version
from .controlplane import ControlPlane
from .process import ClusterError, Process, wait_for

TPU_V4 = {
    "cloud.google.com/gke-tpu-accelerator": "tpu-v4-podslice",
    "cloud.google.com/gke-tpu-topology": "2x2x1",
}


def pod(name: str, selector: dict[str, str] | None = None, limits: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod of one container that tolerates TPU nodes."""
    container = {"name": "main", "image": "example.invalid/main", "resources": {"limits": limits or {}}}
    spec: dict[str, Any] = {"containers": [container], "nodeSelector": selector or {}}
    spec["tolerations"] = [{"key": "google.com/tpu", "operator": "Exists"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_versions_are_the_pinned_ones(cluster: ControlPlane) -> None:
    """The API server and kubectl report the version that go.mod pins."""
    pinned = version(PROGRAMS["kube-apiserver"])
    assert cluster.get("/version")["gitVersion"] == pinned
    assert f"Server Version: {pinned}" in cluster.kubectl("version").stdout


def test_pod_runs_on_the_node_that_its_selector_names(cluster: ControlPlane, nodes: None, namespace: str) -> None:
    """The scheduler takes the fake node with the labels and the chips, and kwok runs the pod there."""
    cluster.apply({**pod("tpu", TPU_V4, {"google.com/tpu": "4"}), "metadata": {"name": "tpu", "namespace": namespace}})
    cluster.wait_for("the pod to run", lambda: cluster.pods(namespace)[0]["status"]["phase"] == "Running")
    assert cluster.pods(namespace)[0]["spec"]["nodeName"] == "v4-2x2x1"


def test_pod_that_fits_no_node_stays_pending(cluster: ControlPlane, nodes: None, namespace: str) -> None:
    """Five chips are on no v4 host: the scheduler says so instead of binding the pod."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    assert cluster.request("POST", path, pod("big", TPU_V4, {"google.com/tpu": "5"})).ok

    def unschedulable() -> bool:
        conditions = cluster.pods(namespace)[0]["status"].get("conditions", [])
        return any(c["reason"] == "Unschedulable" for c in conditions)

    cluster.wait_for("the scheduler's verdict", unschedulable)
    assert "nodeName" not in cluster.pods(namespace)[0]["spec"]


def test_request_keeps_status_message_and_warnings(cluster: ControlPlane, namespace: str) -> None:
    """A refused object has its message, an accepted one its Warning headers, and dry run stores nothing."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    refused = cluster.request("POST", path, {"metadata": {"name": "empty"}, "spec": {"containers": []}})
    assert refused.status == 422
    assert "spec.containers" in refused.body["message"]
    unknown = {**pod("dry"), "spec": {**pod("dry")["spec"], "colour": "red"}}
    answer = cluster.request("POST", path, unknown, {"dryRun": "All", "fieldValidation": "Warn"})
    assert answer.ok
    assert answer.warnings == ('unknown field "spec.colour"',)
    assert cluster.pods(namespace) == []


def test_service_account_has_only_its_own_rights(cluster: ControlPlane, namespace: str) -> None:
    """A service account's token works, and RBAC holds for it."""
    api = cluster.as_service_account(namespace, "default")
    assert api.request("GET", f"/api/v1/namespaces/{namespace}/secrets").status == 403
    who = api.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert who.body["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:default"
    kubeconfig = cluster.service_account_kubeconfig(namespace, "default")
    done = cluster.kubectl("--kubeconfig", str(kubeconfig), "auth", "whoami", "-o", "name", check=False)
    assert done.returncode == 0, done.stderr


def test_client_library_and_audit_log(cluster: ControlPlane, namespace: str) -> None:
    """The Python client is the admin, and what it writes stands in the audit log."""
    core = kubernetes.client.CoreV1Api(cluster.client)
    body = kubernetes.client.V1ConfigMap(metadata=kubernetes.client.V1ObjectMeta(name="written"))
    core.create_namespaced_config_map(namespace, body)
    events = cluster.audit(namespace=namespace, name="written")
    assert [event["verb"] for event in events] == ["create"]
    assert events[0]["user"]["username"] == "admin"


def test_restart_keeps_port_and_objects(cluster: ControlPlane, namespace: str) -> None:
    """The API server comes back where it was, and the other programs find it again."""
    port = cluster.port
    cluster.restart_apiserver()
    assert cluster.port == port
    assert cluster.get(f"/api/v1/namespaces/{namespace}")["status"]["phase"] == "Active"
    cluster.delete_namespace(cluster.namespace())  # the controller manager made its service account


def test_webhook_histogram_counts_calls(cluster: ControlPlane, namespace: str) -> None:
    """Calls of a webhook entry that nothing answers are counted, and timed."""
    entry = {
        "name": "nobody.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/mutate"},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    cluster.apply({**kind, "metadata": {"name": "nobody"}, "webhooks": [entry]})
    try:
        configmaps = f"/api/v1/namespaces/{namespace}/configmaps"

        def counted() -> int:
            assert cluster.request("POST", configmaps, {"metadata": {"generateName": "c-"}}).ok
            return cluster.webhook_histogram("nobody.example.com").count

        assert cluster.wait_for("the configuration to take effect", counted) == 1
        histogram = cluster.webhook_histogram("nobody.example.com", operation="CREATE")
        assert histogram.count == max(histogram.buckets.values())
        assert histogram.above(25.0) == 0
    finally:
        cluster.kubectl("delete", "mutatingwebhookconfiguration", "nobody")


def test_programs_die_with_whoever_started_them(tmp_path: Path) -> None:
    """Nothing survives a killed test run: the kernel ends the program when its parent is killed."""
    code = (
        "import sys, time, pathlib\n"
        "from tests.cluster.process import Process\n"
        "p = Process('sleep', ['/bin/sleep', '600'], pathlib.Path(sys.argv[1]))\n"
        "print(p.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    root = ROOT
    command = [sys.executable, "-c", code, str(tmp_path / "log")]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    wait_for("the child to end", lambda: not exists(child), 10)


def exists(pid: int) -> bool:
    """Whether the process runs; one that ended but was not reaped by init yet does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_process_that_dies_is_reported_with_its_log(tmp_path: Path) -> None:
    """Whoever waits for something learns that the program died, and its last words."""
    program = Process("false", ["/bin/sh", "-c", "echo out of luck; exit 3"], tmp_path / "log")
    with pytest.raises(ClusterError, match=r"ended with code 3(.|\n)*out of luck"):
        wait_for("luck", lambda: False, 10, [program])


def test_built_programs_are_cached(cluster: ControlPlane) -> None:
    """A second request for a program is answered from the cache."""
    assert ensure("kwok") == ensure("kwok")
    assert os.access(ensure("kwok"), os.X_OK)
