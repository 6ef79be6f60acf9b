"""`accel check` as a process, on a real API server with the chart installed: each state that it reports, produced."""

import ast
import base64
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from certs import keyring
from certs.pki import KeyPair, issue, new_ca, service_names
from tests.support.checkout import ACCEL, ROOT
from webhook.check.cluster import NODE_PAGES, PAGE

from . import kueue, monitoring
from .chart import INJECTED, Release, bundles, install
from .conftest import build
from .controlplane import PROGRAMS, ControlPlane, expect
from .process import free_port

ADMISSION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
V4 = {"cloud.google.com/gke-tpu-accelerator": "tpu-v4-podslice", "cloud.google.com/gke-tpu-topology": "2x2x1"}
PROFILE = {
    "types": ["nvidia-*"],
    "namespaces": ["host-*"],
    "libraries": [{"hostPath": "/opt/nvidia/lib", "mountPath": "/usr/local/nvidia/lib64"}],
    "modes": ["host"],
    "exclusiveNode": True,
}
VALUES = {"replicas": 1, "config": {"hostProfiles": {"nvidia": PROFILE}}, "webhook": {"lameDuckSeconds": 1}}

Found = dict[str, dict[str, Any]]

PRINTED: set[str] = set()
"""What the command printed in this module's tests: `status message` of every finding, and every detail."""


@pytest.fixture(scope="module")
def plane(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module's own: what is labelled in it is what the tests labelled."""
    build(pytestconfig, *PROGRAMS, "helm", "kueue")
    with ControlPlane(tmp_path_factory.mktemp("check")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def release(plane: ControlPlane) -> Iterator[Release]:
    """The chart with one replica that serves."""
    with install(plane, values=VALUES) as installed:
        installed.run_pods(1)
        yield installed


@pytest.fixture
def labelled(plane: ControlPlane, release: Release) -> Iterator[str]:
    """A labelled namespace."""
    name = plane.namespace(INJECTED)
    yield name
    plane.delete_namespace(name)


def run(namespace: str, kubeconfig: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """The command as a user has it."""
    environment = {k: v for k, v in os.environ.items() if "proxy" not in k.lower() and not k.startswith("KUBE")}
    command = [ACCEL, "check", f"--namespace={namespace}", f"--kubeconfig={kubeconfig}", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    PRINTED.update(lines_of(done.stdout) if "-ojson" in flags else done.stdout.splitlines())
    return done


def lines_of(report: str) -> Iterator[str]:
    for finding in json.loads(report)["findings"]:
        yield f"{finding['status']} {finding['message']}"
        yield from finding["details"]


def check(release: Release, *flags: str, kubeconfig: Path | None = None) -> Found:
    """The findings by check; what the exit code says is tested on the way."""
    done = run(
        release.namespace, kubeconfig or release.cluster.kubeconfig, f"--release={release.name}", "-ojson", *flags
    )
    assert "" == done.stderr
    report = json.loads(done.stdout)
    found = {finding["check"]: finding for finding in report["findings"]}
    print("\n".join(f"{f['status']:8} {n:20} {f['message']} {f['details']} {f['fix']}" for n, f in found.items()))
    assert done.returncode == int(any(finding["status"] == "failed" for finding in found.values()))
    return found


def statuses(found: Found) -> dict[str, str]:
    """What is not in order."""
    return {name: finding["status"] for name, finding in found.items() if finding["status"] != "ok"}


def patch(release: Release, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit each entry of the webhook configuration, as a person with kubectl does."""
    body = release.webhook_configuration
    for entry in body["webhooks"]:
        edit(entry)
    replace_entries(release, body["webhooks"])


def replace_entries(release: Release, entries: list[dict[str, Any]]) -> None:
    operations = json.dumps([{"op": "replace", "path": "/webhooks", "value": entries}])
    release.cluster.kubectl("patch", "mutatingwebhookconfiguration", release.fullname, "--type=json", "-p", operations)


@contextmanager
def without_certs(release: Release) -> Iterator[None]:
    """While nobody repairs caBundle; afterwards it is repaired."""
    release.pods[0].processes["certs"].signal(signal.SIGSTOP)
    try:
        yield
    finally:
        release.pods[0].processes["certs"].signal(signal.SIGCONT)
        patch(release, lambda entry: entry["clientConfig"].pop("caBundle", None))
        release.cluster.wait_for("caBundle to be repaired", lambda: all(bundles(release).values()))


def pod(kind: str = "tpu-v4-8", name: str = "train") -> dict[str, Any]:
    """A Pod that asks."""
    containers = [{"name": "main", "image": "example/train"}]
    return {"metadata": {"name": name, "annotations": {"accel.io/type": kind}}, "spec": {"containers": containers}}


def create(plane: ControlPlane, namespace: str, obj: Mapping[str, Any]) -> None:
    expect(plane.request("POST", f"/api/v1/namespaces/{namespace}/pods", obj), "a pod")


def job(kind: str) -> dict[str, Any]:
    """A Job that asks by its template and waits."""
    template = {**pod(kind), "spec": {**pod()["spec"], "restartPolicy": "Never", "subdomain": "train"}}
    del template["metadata"]["name"]
    return {"metadata": {"name": "train"}, "spec": {"suspend": True, "template": template}}


def create_job(plane: ControlPlane, namespace: str, obj: Mapping[str, Any]) -> None:
    expect(plane.request("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", obj), "a Job")


def test_nobody_opted_in(release: Release) -> None:
    """A new installation: everything is ok, and the one remaining step is reported."""
    found = check(release)

    assert {"namespaces": "warning", "dry-run": "skipped"} == statuses(found)
    assert "kubectl label namespace NAME accel.io/injection=enabled" == found["namespaces"]["fix"]


def test_all_is_well(plane: ControlPlane, release: Release, labelled: str) -> None:
    """With a node and a Pod everything is ok, and the dry run says what came back."""
    plane.fake_node("v4", labels=V4, taints=["google.com/tpu"], allocatable={"google.com/tpu": "4"})
    create(plane, labelled, pod())
    found = check(release)

    assert {} == statuses(found)
    assert found["dry-run"]["message"] == f"accel.io/type: tpu-v4-8 in {labelled} came back with google.com/tpu: 4"
    assert found["nodes"]["details"][0].startswith("tpu-v4-8: 1 of 1 nodes (cloud.google.com/gke-tpu-accelerator=")
    table = run(release.namespace, plane.kubeconfig)
    assert (0, "") == (table.returncode, table.stderr)
    assert "15 ok" == table.stdout.splitlines()[-1]


def test_labels_in_vain(plane: ControlPlane, release: Release, labelled: str) -> None:
    """kube-system is never injected, and only one value of the label means something."""
    plane.kubectl("label", "namespace", "kube-system", "accel.io/injection=enabled")
    plane.kubectl("label", "namespace", "default", "accel.io/injection=true")
    found = check(release)
    plane.kubectl("label", "namespace", "kube-system", "default", "accel.io/injection-")

    assert {"namespaces": "warning"} == statuses(found)
    assert {
        "kube-system is labelled but never injected",
        'default has accel.io/injection="true", not "enabled"',
    } == set(found["namespaces"]["details"])


def test_no_node_for_a_type(plane: ControlPlane, release: Release, labelled: str) -> None:
    """A type in use without nodes; an autoscaler may still add them."""
    create(plane, labelled, pod("tpu-v6e-8"))
    create_job(plane, labelled, job("tpu-v4-16"))
    found = check(release)

    assert {"nodes": "warning"} == statuses(found)
    single, several = found["nodes"]["details"]
    assert single.startswith("tpu-v6e-8: 0 of 1 nodes")
    assert several.startswith("tpu-v4-16: 0 of 2 nodes")
    assert "autoscaler" in found["nodes"]["fix"]


def test_an_object_that_was_not_injected(plane: ControlPlane, release: Release) -> None:
    """It was created before the namespace was labelled; for one that would be refused the reason is reported."""
    namespace = plane.namespace()
    create(plane, namespace, pod())
    create(plane, namespace, pod("tpu-v4-9", "wrong"))
    create_job(plane, namespace, job("tpu-v4-16"))
    create_jobset(plane, namespace)
    plane.kubectl("label", "namespace", namespace, "accel.io/injection=enabled")
    found = check(release)
    plane.delete_namespace(namespace)

    assert {"objects": "warning", "nodes": "warning"} == statuses(found)
    wrong = f'Pod {namespace}/wrong: accel.io/type: "tpu-v4-9" is not in the catalogue'
    pods, others = [f"Pod {namespace}/train", wrong], [f"{kind} {namespace}/train" for kind in ("Job", "JobSet")]
    assert [*pods, *others] == found["objects"]["details"]


def test_an_object_whose_fields_disagree(plane: ControlPlane, release: Release) -> None:
    """Its annotations say that it was injected, and it has none of what they mean."""
    namespace = plane.namespace()
    body = pod()
    body["metadata"]["annotations"]["accel.io/injected"] = "tpu-v4-8"
    create(plane, namespace, body)
    plane.kubectl("label", "namespace", namespace, "accel.io/injection=enabled")
    found = check(release)
    plane.delete_namespace(namespace)

    assert "warning" == found["agreement"]["status"]
    assert found["agreement"]["details"][0].startswith(f"Pod {namespace}/train: ")


def create_jobset(plane: ControlPlane, namespace: str) -> None:
    """A JobSet of one Job; its controller is not here, and its kind is only as much as we read of it."""
    names = {"kind": "JobSet", "plural": "jobsets", "singular": "jobset"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1alpha2", "served": True, "storage": True, "schema": schema}
    spec = {"group": "jobset.x-k8s.io", "scope": "Namespaced", "names": names, "versions": [version]}
    approved = {"api-approved.kubernetes.io": "unapproved, for a test"}
    plane.install_crds({"metadata": {"name": "jobsets.jobset.x-k8s.io", "annotations": approved}, "spec": spec})
    replicated = {"name": "workers", "replicas": 1, "template": {"spec": job("tpu-v4-16")["spec"]}}
    jobset = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train"},
        "spec": {"replicatedJobs": [replicated]},
    }
    expect(plane.request("POST", f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets", jobset), "a JobSet")


def test_pod_security_against_host_mode(plane: ControlPlane, release: Release) -> None:
    """A namespace may use a host profile, and its PodSecurity level refuses what that mounts."""
    namespace = plane.namespace({**INJECTED, "pod-security.kubernetes.io/enforce": "restricted"}, prefix="host")
    found = check(release)
    plane.delete_namespace(namespace)

    assert {"pod-security": "warning"} == statuses(found)
    [line] = found["pod-security"]["details"]
    assert line == f"{namespace} enforces restricted; host profile nvidia needs /opt/nvidia/lib"


def test_another_injector(plane: ControlPlane, release: Release, labelled: str) -> None:
    """HAMi's webhook, by the name of its entry; its own way out is named."""
    entry = {
        "name": "vgpu.hami.io",
        "clientConfig": {"service": {"name": "hami-scheduler", "namespace": "kube-system", "path": "/webhook"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": 1,
        "admissionReviewVersions": ["v1"],
    }
    expect(plane.request("POST", ADMISSION, {"metadata": {"name": "hami-webhook"}, "webhooks": [entry]}), "HAMi's")
    found = check(release)
    plane.request("DELETE", f"{ADMISSION}/hami-webhook")

    assert {"injectors": "warning"} == statuses(found)
    assert "hami.io/webhook=ignore" in found["injectors"]["fix"]


def test_refused_by_a_quota(plane: ControlPlane, release: Release, labelled: str) -> None:
    """The namespace may have no chips; the API server's words say which quota."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "no-chips", "namespace": labelled}}
    plane.apply({**quota, "spec": {"hard": {"requests.google.com/tpu": "0"}}})
    until_refused(plane, labelled, "exceeded quota")
    found = check(release)

    assert {"dry-run": "warning"} == statuses(found)
    assert found["dry-run"]["message"].startswith(
        f"something else refuses accel.io/type: tpu-v4-8 in {labelled}: pods "
    )
    assert "exceeded quota: no-chips, requested: requests.google.com/tpu=4" in found["dry-run"]["message"]
    assert f"kubectl -n {labelled} get quota" in found["dry-run"]["fix"]


def until_refused(plane: ControlPlane, namespace: str, words: str) -> None:
    """Until the API server has read what refuses such a Pod."""
    path = f"/api/v1/namespaces/{namespace}/pods"

    def refused() -> bool:
        return words in str(plane.request("POST", path, pod(), {"dryRun": "All"}).body)

    plane.wait_for(f"a Pod to be refused with {words!r}", refused)


def test_refused_by_the_webhook(plane: ControlPlane, release: Release, labelled: str) -> None:
    """A policy of the cluster gives every Pod a topology that the type does not have."""
    resource = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    value = '{"cloud.google.com/gke-tpu-topology": "4x4x4"}'
    expression = f'[JSONPatch{{op: "add", path: "/spec/nodeSelector", value: {value}}}]'
    policy = {
        "matchConstraints": {"resourceRules": [resource]},
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": labelled}}}
    binding = {"policyName": "topology", "matchResources": where}
    kinds = {"MutatingAdmissionPolicy": policy, "MutatingAdmissionPolicyBinding": binding}
    api = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "topology"}}
    plane.apply(*({**api, "kind": kind, "spec": spec} for kind, spec in kinds.items()))
    until_refused(plane, labelled, "denied the request")
    found = check(release)
    plane.kubectl("delete", ",".join(kinds), "topology")

    assert {"dry-run": "warning"} == statuses(found)
    assert found["dry-run"]["message"].startswith("the webhook answers, but refuses accel.io/type: tpu-v4-8")
    assert "4x4x4" in found["dry-run"]["message"]
    assert "See docs/troubleshooting.md" == found["dry-run"]["fix"]


def test_kueue_before_us(plane: ControlPlane, release: Release, labelled: str) -> None:
    """Under a name that sorts after Kueue's it takes a chip and a GPU for the same; under the usual one it does not.

    Then Kueue ends: a webhook that cannot be called is not reported as ours.
    """
    process = kueue.start_kueue(plane, {"pod": "pods", "batch/job": "jobs"})
    good, ours = counted(plane, labelled), check(release)
    with away(release), install(plane, name="tpu", values={"replicas": 1}) as late:
        late.run_pods(1)
        elsewhere = plane.namespace(INJECTED)
        bad, theirs = counted(plane, elsewhere), check(late)
        plane.delete_namespace(elsewhere)
    plane.end(process)
    gone = check(release)
    for kind in ("mutating", "validating"):
        plane.kubectl("delete", f"{kind}webhookconfiguration", f"kueue-{kind}-webhook-configuration")

    assert [{"google.com/tpu": "4"}, {"nvidia.com/gpu": "1"}] == sorted(good, key=str)
    assert "ok" == ours["injectors"]["status"]
    assert 1 == len(bad)
    assert "warning" == theirs["injectors"]["status"]
    assert ["kueue-mutating-webhook-configuration (mpod.kb.io)"] == theirs["injectors"]["details"]
    assert theirs["injectors"]["fix"].startswith("Install this release under a name that sorts before theirs")
    assert {"dry-run": "warning"} == {name: status for name, status in statuses(gone).items() if name != "nodes"}
    assert 'failed calling webhook "mpod.kb.io"' in gone["dry-run"]["message"]
    assert "get mutatingwebhookconfigurations" in gone["dry-run"]["fix"]


def counted(plane: ControlPlane, namespace: str) -> list[dict[str, str]]:
    """What Kueue counts for a group of two Pods of two types, by role."""
    labels = {"kueue.x-k8s.io/queue-name": "any", "kueue.x-k8s.io/pod-group-name": "two"}
    for name, kind in (("a", "tpu-v4-8"), ("b", "nvidia-l4")):
        body = pod(kind, name)
        body["metadata"]["labels"] = labels
        body["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] = "2"
        create(plane, namespace, body)
    path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{namespace}/workloads"
    [workload] = plane.wait_for("Kueue to have counted", lambda: plane.get(path)["items"])
    return [role["template"]["spec"]["containers"][0]["resources"]["limits"] for role in workload["spec"]["podSets"]]


def test_edited_failure_policy(release: Release, labelled: str) -> None:
    """One entry differs from the others, and the API server knows who wrote it."""
    release.cluster.kubectl("patch", "mutatingwebhookconfiguration", release.fullname, "-p", failure_policy("Ignore"))
    found = check(release)
    release.helm("upgrade", release.name, str(release.chart), "--force-conflicts", values=VALUES)
    after = check(release)

    assert {"configuration": "failed", "configuration-edits": "warning"} == statuses(found)
    assert "failurePolicy differs: pods.accel.io has Ignore, the others Fail" in found["configuration"]["details"]
    assert ["pods.accel.io: failurePolicy, by kubectl-patch"] == found["configuration-edits"]["details"]
    assert {} == statuses(after)


def failure_policy(value: str) -> str:
    return json.dumps({"webhooks": [{"name": "pods.accel.io", "failurePolicy": value}]})


def restore(release: Release) -> None:
    """What the fix of each edit says."""
    release.helm("upgrade", release.name, str(release.chart), "--force-conflicts", values=VALUES)
    release.run_pods(1)
    release.wait_for("caBundle to be repaired", lambda: all(bundles(release).values()))


def test_edited_fields(release: Release, labelled: str) -> None:
    """One entry with every field changed that decides what is sent, and what becomes of it."""

    def spoil(entry: dict[str, Any]) -> None:
        if entry["name"] != "pods.accel.io":
            return
        entry["clientConfig"]["service"]["path"] = "/other"
        entry.update(reinvocationPolicy="Never", matchPolicy="Exact", sideEffects="NoneOnDryRun", matchConditions=None)
        entry["objectSelector"] = {"matchLabels": {"team": "a"}}

    patch(release, spoil)
    found = check(release)
    restore(release)
    after = check(release)

    assert [
        "pods.accel.io: calls the path /other, not /mutate",
        "pods.accel.io: no matchConditions: objects without annotations are sent too",
        "pods.accel.io: reinvocationPolicy Never: containers that others add later are not injected",
        "pods.accel.io: matchPolicy Exact, not Equivalent",
        "pods.accel.io: sideEffects NoneOnDryRun, not None",
        "pods.accel.io: an objectSelector excludes objects",
    ] == found["configuration"]["details"]
    assert "failed" == found["configuration"]["status"]
    assert {} == statuses(after)


def test_edited_entries(release: Release, labelled: str) -> None:
    """An entry is gone, one leads elsewhere, and one that never refuses would; then the one that detects is gone."""
    configuration = release.webhook_configuration
    kept = [entry for entry in configuration["webhooks"] if entry["name"] != "jobs.workloads.accel.io"]
    by_name = {entry["name"]: entry for entry in kept}
    by_name["cronjobs.workloads.accel.io"]["clientConfig"]["service"]["name"] = "other"
    by_name["jobs.reapply.accel.io"]["failurePolicy"] = "Fail"
    replace_entries(release, kept)
    found = check(release)
    release.upgrade({**VALUES, "config": {**VALUES["config"], "detect": ["nvidia.com/gpu"]}}, "--force-conflicts")
    entries = release.webhook_configuration["webhooks"]
    replace_entries(release, [entry for entry in entries if entry["name"] != "detect.accel.io"])
    blind = check(release)
    restore(release)

    assert [
        "no entry .workloads.accel.io sends CREATE of jobs.batch",
        "jobs.reapply.accel.io: failurePolicy Fail refuses objects without annotations; it must be Ignore",
        f"cronjobs.workloads.accel.io: does not call Service {release.namespace}/accel-injector",
    ] == found["configuration"]["details"]
    assert ["detect.accel.io is missing, though the site config detects resources"] == blind["configuration"]["details"]


def test_edited_selector(release: Release, labelled: str) -> None:
    """An entry that would stop kube-system is found, whoever wrote it."""
    broad = json.dumps({"webhooks": [{"name": "pods.accel.io", "namespaceSelector": None}]})
    release.cluster.kubectl("patch", "mutatingwebhookconfiguration", release.fullname, "-p", broad)
    found = check(release)
    release.helm("upgrade", release.name, str(release.chart), "--force-conflicts", values=VALUES)

    assert "failed" == found["configuration"]["status"]
    problems = found["configuration"]["details"]
    assert "pods.accel.io: namespaceSelector does not require accel.io/injection=enabled" in problems
    sent = f"kube-system, kube-node-lease, {release.namespace}"
    assert f"pods.accel.io: namespaceSelector does not exclude {sent}" in problems


def test_cleared_ca_bundle(release: Release, labelled: str) -> None:
    """No CA is trusted, and nothing repairs it."""
    with without_certs(release):
        patch(release, lambda entry: entry["clientConfig"].pop("caBundle", None))
        found = check(release)

    assert "failed" == found["ca-bundle"]["status"]
    assert "have no readable caBundle" in found["ca-bundle"]["message"]
    assert "logs deploy/accel-injector -c certs" in found["ca-bundle"]["fix"]
    assert "failed" == found["dry-run"]["status"]


def test_wrong_ca_bundle(release: Release, labelled: str) -> None:
    """Another CA is trusted than the one that signs: the API server's own x509 error is reported."""
    other = base64.b64encode(new_ca(datetime.now(UTC)).certificate).decode()
    with without_certs(release):
        patch(release, lambda entry: entry["clientConfig"].update(caBundle=other))
        found = check(release)
        release.cluster.delete_namespace(labelled)
        release.cluster.wait_for("the namespace to be gone", lambda: gone(release.cluster, labelled))
        silent = check(release)

    assert {"ca-bundle": "failed", "dry-run": "failed"} == statuses(found)
    assert "x509" in found["ca-bundle"]["details"][0]
    assert "do not trust the CA in Secret accel-injector-ca" in silent["ca-bundle"]["message"]


def gone(plane: ControlPlane, namespace: str) -> bool:
    return plane.request("GET", f"/api/v1/namespaces/{namespace}").status == 404


def test_nobody_ready(release: Release, labelled: str) -> None:
    """The webhook ends: no replica, no endpoint, and what the API server says when it calls."""
    running = release.pods[0]
    running.processes["webhook"].signal(signal.SIGKILL)
    release.kubelet.patch_status(running, "Running", ready=False)
    release.cluster.wait_for("no replica", lambda: not release.deployment["status"].get("readyReplicas"))
    stopped = check(release)
    # Unlabelled, so that nobody calls: an address of a Service leads out of this machine.
    release.cluster.kubectl("label", "namespace", labelled, "accel.io/injection-")
    with cluster_ip(release):
        empty = check(release)
        expect(release.cluster.request("POST", slices(release), endpoint_slice(release)), "an EndpointSlice")
        ready = check(release)
    release.cluster.request("DELETE", f"{slices(release)}/by-hand")
    running.ready = False
    release.run_pods(1)

    assert {"deployment": "failed", "dry-run": "failed"} == statuses(stopped)
    assert "failed calling webhook" in stopped["dry-run"]["message"]
    assert "0 of 1 replicas are ready" == stopped["deployment"]["message"]
    assert "failed" == empty["endpoints"]["status"]
    assert f"no endpoint of Service {release.namespace}/accel-injector is ready" == empty["endpoints"]["message"]
    assert "1 of 2 endpoints are ready" == ready["endpoints"]["message"]


def test_no_answer(release: Release, labelled: str) -> None:
    """The connection is taken and nothing comes back, as with a firewall in between."""
    webhook = release.pods[0].processes["webhook"]
    webhook.signal(signal.SIGSTOP)
    try:
        found = check(release)
    finally:
        webhook.signal(signal.SIGCONT)

    assert {"dry-run": "failed"} == statuses(found)
    assert "deadline exceeded" in found["dry-run"]["message"]
    assert found["dry-run"]["fix"].startswith("The control plane cannot reach the Pods: open its firewall")


def test_replicas(release: Release) -> None:
    """None is wanted; one of two is ready; a new template is being rolled out."""
    deployment = f"deployment/{release.fullname}"
    kubectl(release, "scale", deployment, "--replicas=0")
    settled(release, replicas=0)
    none = check(release)
    kubectl(release, "scale", deployment, "--replicas=1")
    release.run_pods(1)
    kubectl(release, "scale", deployment, "--replicas=2")
    settled(release, replicas=2, readyReplicas=1)
    one = check(release)
    release.run_pods(2)
    kubectl(release, "scale", deployment, "--replicas=1")
    release.run_pods(1)
    kubectl(release, "rollout", "restart", deployment)
    settled(release, replicas=2, readyReplicas=1)
    rolling = check(release)
    release.run_pods(1)

    assert ("failed", "scaled to 0 replicas: nothing answers") == said_of(none, "deployment")
    assert ("warning", "1 of 2 replicas are ready") == said_of(one, "deployment")
    assert ("warning", "a rollout is in progress") == said_of(rolling, "deployment")


def kubectl(release: Release, *args: str) -> None:
    """kubectl in the release's namespace."""
    release.cluster.kubectl("--namespace", release.namespace, *args)


def said_of(found: Found, name: str) -> tuple[str, str]:
    return found[name]["status"], found[name]["message"]


def settled(release: Release, **numbers: int) -> None:
    """The Deployment's controller has come this far, while no kubelet works."""

    def there() -> bool:
        status = release.deployment["status"]
        return all(status.get(name, 0) == number for name, number in numbers.items())

    release.cluster.wait_for(f"{numbers} of {release.fullname}", there)


def test_another_port(release: Release, labelled: str) -> None:
    """The Service no longer has the port that the entries call."""
    move(release, 8443)
    found = check(release)
    move(release, release.port)

    message = f"the webhook configuration calls port {release.port}, which the Service does not have"
    assert ("failed", message) == said_of(found, "endpoints")


def move(release: Release, port: int) -> None:
    operations = json.dumps([{"op": "replace", "path": "/spec/ports/0/port", "value": port}])
    kubectl(release, "patch", "service", release.fullname, "--type=json", "-p", operations)


def test_a_site_config_that_cannot_be_used(release: Release, labelled: str) -> None:
    """The replicas go on with the last good one, so nothing else shows it."""
    body = json.dumps({"data": {"config.yaml": "platfrom: gke"}})
    kubectl(release, "patch", "configmap", release.fullname, "-p", body)
    found = check(release)
    restore(release)

    assert {"site-config": "failed", "pod-security": "skipped"} == statuses(found)
    assert "platfrom" in found["site-config"]["message"]


@contextmanager
def cluster_ip(release: Release) -> Iterator[None]:
    """The Service as the chart has it; of the tests' own type Kubernetes keeps no endpoints."""
    service = f"/api/v1/namespaces/{release.namespace}/services/{release.fullname}"
    name = release.cluster.get(service)["spec"]["externalName"]
    expect(
        release.cluster.request("PATCH", service, {"spec": {"type": "ClusterIP", "externalName": None}}), "ClusterIP"
    )
    yield
    external = {"type": "ExternalName", "externalName": name, "clusterIP": None, "clusterIPs": None}
    expect(release.cluster.request("PATCH", service, {"spec": external}), "ExternalName")


def slices(release: Release) -> str:
    return f"/apis/discovery.k8s.io/v1/namespaces/{release.namespace}/endpointslices"


def endpoint_slice(release: Release) -> dict[str, Any]:
    """What the controller writes for Pods that are on nodes, which ours are not."""
    every = [("10.1.2.3", True), ("10.1.2.4", False)]
    return {
        "metadata": {"name": "by-hand", "labels": {"kubernetes.io/service-name": release.fullname}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": ready}} for address, ready in every],
        "ports": [{"name": "https", "port": 8443}],
    }


def test_no_rights(plane: ControlPlane, release: Release, labelled: str) -> None:
    """Each check that cannot be made says which right it needs; the others are made."""
    plane.kubectl("create", "clusterrole", "reads-webhooks", "--verb=get", "--resource=mutatingwebhookconfigurations")
    account = f"--serviceaccount={labelled}:default"
    plane.kubectl("create", "clusterrolebinding", "reads-webhooks", "--clusterrole=reads-webhooks", account)
    found = check(release, kubeconfig=plane.service_account_kubeconfig(labelled, "default"))
    plane.kubectl("delete", "clusterrole,clusterrolebinding", "reads-webhooks")

    assert {"api-server", "configuration", "configuration-edits", "expiry"} == found.keys() - statuses(found).keys()
    needs = {name: f["message"] for name, f in found.items() if f["status"] == "skipped"}
    assert {
        "deployment": f"needs get on deployments in {release.namespace}",
        "endpoints": f"needs get on services in {release.namespace}",
        "site-config": f"needs get on configmaps in {release.namespace}",
        "ca-bundle": f"needs get on secrets in {release.namespace}",
        "namespaces": "needs list on namespaces",
        "dry-run": "needs a labelled namespace",
        "objects": "needs list on namespaces",
        "agreement": "needs list on namespaces",
        "nodes": "needs list on nodes",
        "injectors": "needs list on mutatingwebhookconfigurations",
        "pod-security": "needs list on namespaces",
    } == needs


def test_a_token_that_is_not_accepted(plane: ControlPlane, tmp_path: Path) -> None:
    """One line, no traceback."""
    file = tmp_path / "kubeconfig"
    text = json.loads(plane.kubectl("config", "view", "--raw", "-ojson").stdout)
    text["users"][0]["user"] = {"token": "nobody"}
    file.write_text(json.dumps(text))
    done = run("accel-system", file)

    assert (1, "") == (done.returncode, done.stderr)
    assert "does not accept your credentials" in done.stdout


def test_no_api_server(plane: ControlPlane, tmp_path: Path) -> None:
    """Nobody listens there; the other context of the same file works."""
    file = tmp_path / "kubeconfig"
    config = json.loads(plane.kubectl("config", "view", "--raw", "-ojson").stdout)
    there = config["clusters"][0]
    nowhere = {**there["cluster"], "server": f"https://127.0.0.1:{free_port()}"}
    config["clusters"].append({"name": "nowhere", "cluster": nowhere})
    config["contexts"].append(
        {"name": "nowhere", "context": {**config["contexts"][0]["context"], "cluster": "nowhere"}}
    )
    file.write_text(json.dumps(config))
    silent, answered = run("accel-system", file, "--context=nowhere"), run("accel-system", file, "--context=test")

    assert (1, "") == (silent.returncode, silent.stderr)
    assert silent.stdout.startswith("failed   api-server  cannot be reached: GET /version: ")
    assert answered.stdout.startswith("ok       api-server ")


def test_a_certificate_that_ends_soon(plane: ControlPlane) -> None:
    """existing-secret with a leaf of ten minutes; then one of a CA that nobody trusts."""
    namespace = plane.namespace()
    ca, other = new_ca(datetime.now(UTC)), new_ca(datetime.now(UTC))
    values = {"tls": {"mode": "existing-secret", "existingSecret": "given", "caBundle": ca.certificate.decode()}}
    with install(plane, name="short", namespace=namespace, values=values) as short:
        names = service_names(short.fullname, namespace)
        leaves = [issue(by, names, datetime.now(UTC), timedelta(minutes=10)) for by in (ca, other)]
        give(short, leaves[0].certificate, leaves[0].key)
        soon = check(short)
        give(short, leaves[1].certificate, leaves[1].key)
        strange = check(short)

    assert "warning" == soon["expiry"]["status"]
    assert "serving certificate until" in soon["expiry"]["details"][0]
    assert "accel certs issue" in soon["expiry"]["fix"]
    assert "ok" == soon["ca-bundle"]["status"]
    assert "failed" == soon["deployment"]["status"]
    assert "failed" == strange["ca-bundle"]["status"]


def test_a_ca_that_nobody_renews(release: Release, labelled: str) -> None:
    """The certs container stands still: first a fourth of the life is left, then nothing."""
    now = datetime.now(UTC)
    with without_certs(release):
        found = [with_ca(release, new_ca(now - timedelta(days=age), timedelta(days=90))) for age in (80, 91)]
        patch_secret(release, dict.fromkeys(keyring.KEYS, ""))
        empty = check(release)

    late, over = found
    assert ("warning", "a certificate expires soon and was not renewed") == said_of(late, "expiry")
    assert late["expiry"]["details"][0].startswith("CA until ")
    assert "logs deploy/accel-injector -c certs" in late["expiry"]["fix"]
    assert ("failed", "a certificate has expired") == said_of(over, "expiry")
    assert over["expiry"]["details"][0].endswith(": expired")
    assert "failed" == over["dry-run"]["status"]
    assert "failed" == empty["ca-bundle"]["status"]


def with_ca(release: Release, ca: KeyPair) -> Found:
    """What the check reports if this CA signs and is trusted."""
    patch_secret(release, dict.fromkeys(keyring.KEYS, "") | keyring.to_secret(keyring.Keyring(signing=ca)))
    trust(release, ca)
    return check(release)


def patch_secret(release: Release, data: Mapping[str, str]) -> None:
    kubectl(release, "patch", "secret", f"{release.fullname}-ca", "-p", json.dumps({"data": data}))


def test_given_certificates(plane: ControlPlane) -> None:
    """existing-secret without its Secret, with an empty one, and with a leaf that ended."""
    namespace, ca = plane.namespace(), new_ca(datetime.now(UTC) - timedelta(days=2))
    values = {"tls": {"mode": "existing-secret", "existingSecret": "given", "caBundle": ca.certificate.decode()}}
    with install(plane, name="given", namespace=namespace, values=values) as given:
        absent = check(given)
        give(given, b"", b"")
        empty = check(given)
        names = service_names(given.fullname, namespace)
        leaf = issue(ca, names, datetime.now(UTC) - timedelta(days=1), timedelta(hours=1))
        give(given, leaf.certificate, leaf.key)
        ended = check(given)

    assert ("failed", "the Secret with the certificates is missing") == said_of(absent, "ca-bundle")
    assert ("failed", "Secret given contains no readable certificate") == said_of(empty, "ca-bundle")
    assert "accel certs issue" in empty["ca-bundle"]["fix"]
    assert ("failed", "a certificate has expired") == said_of(ended, "expiry")


def test_cert_manager(plane: ControlPlane, release: Release, labelled: str) -> None:
    """Before cert-manager has made the Secret; with another CA in caBundle; near its end; then in order.

    cert-manager itself is not here: its kinds are, and the Secret and caBundle are written as it writes them.
    """
    plane.install_crds(*monitoring.crds())
    with away(release), install(plane, name="managed", values={"replicas": 1, "tls": {"mode": "cert-manager"}}) as ours:
        nothing = check(ours)
        ca, other = new_ca(datetime.now(UTC) - timedelta(days=90)), new_ca(datetime.now(UTC))
        names = service_names(ours.fullname, ours.namespace)
        old, new = (issue(ca, names, datetime.now(UTC) - timedelta(days=age), timedelta(days=90)) for age in (80, 1))
        trust(ours, other)
        give(ours, new.certificate, new.key, f"{ours.fullname}-tls")
        strange = check(ours)
        trust(ours, ca)
        give(ours, old.certificate, old.key, f"{ours.fullname}-tls")
        late = check(ours)
        give(ours, new.certificate, new.key, f"{ours.fullname}-tls")
        ours.run_pods(1)
        served = check(ours)

    fix = f"cert-manager writes it: kubectl -n {ours.namespace} describe certificate {ours.fullname}-tls"
    assert "have no readable caBundle" in nothing["ca-bundle"]["message"]
    assert ("failed", fix) == (nothing["ca-bundle"]["status"], nothing["ca-bundle"]["fix"])
    assert ("skipped", "there is no certificate to check") == said_of(nothing, "expiry")
    assert f"entries do not trust the certificate in Secret {ours.fullname}-tls" in strange["ca-bundle"]["message"]
    assert ("failed", fix) == (strange["ca-bundle"]["status"], strange["ca-bundle"]["fix"])
    assert ("warning", fix) == (late["expiry"]["status"], late["expiry"]["fix"])
    assert "ok" == late["ca-bundle"]["status"]
    assert {} == statuses(served)


def trust(release: Release, ca: KeyPair) -> None:
    """Every entry's caBundle."""
    bundle = base64.b64encode(ca.certificate).decode()
    patch(release, lambda entry: entry["clientConfig"].update(caBundle=bundle))


@contextmanager
def away(release: Release) -> Iterator[None]:
    """While this release injects nothing, so that another one can."""
    release.cluster.kubectl("delete", "mutatingwebhookconfiguration", release.fullname)
    try:
        yield
    finally:
        restore(release)


def give(release: Release, certificate: bytes, key: bytes, name: str = "given") -> None:
    """The Secret that the Deployment mounts."""
    data = {n: base64.b64encode(v).decode() for n, v in {"tls.crt": certificate, "tls.key": key}.items()}
    meta = {"name": name, "namespace": release.namespace}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "kubernetes.io/tls", "data": data}
    release.cluster.apply(secret)


class Old(BaseHTTPRequestHandler):
    """The real API server, but for the version that it says it has."""

    plane: ControlPlane

    def pass_on(self) -> None:
        """Ask as the admin."""
        sent = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        answer = self.plane.request(self.command, self.path, sent or None)
        if self.path == "/version":
            answer.body.update(gitVersion="v1.29.15", minor="29")
        payload = (answer.body if isinstance(answer.body, str) else json.dumps(answer.body)).encode()
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    do_GET = do_POST = pass_on

    def log_message(self, *_: Any) -> None:
        """Silent."""


def test_an_old_api_server(plane: ControlPlane, release: Release, labelled: str, tmp_path: Path) -> None:
    """Older than 1.31 is reported, and everything else is checked too.

    The one state that is not wholly real: an API server of 1.29 would have to be built beside the other, for minutes,
    and today's emulates none older than 1.34. So the real one is asked through a proxy that changes what it says of
    itself.
    """
    handler = type("Handler", (Old,), {"plane": plane})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        text = json.loads(plane.kubectl("config", "view", "--raw", "-ojson").stdout)
        text["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{server.server_port}"}
        text["users"][0]["user"] = {"token": "the-proxy-has-its-own"}
        (tmp_path / "kubeconfig").write_text(json.dumps(text))
        found = check(release, kubeconfig=tmp_path / "kubeconfig")
        server.shutdown()

    assert {"api-server": "failed"} == statuses(found)
    assert "version v1.29.15 drops matchLabelKeys of pod affinities" == found["api-server"]["message"]
    assert "Upgrade the cluster to 1.31 or newer." == found["api-server"]["fix"]


def test_missing_configuration(plane: ControlPlane, release: Release, labelled: str) -> None:
    """Nothing is injected, and the dry run shows it; a wrong release name is distinguished from that.

    Then all else of the release is gone too.
    """
    name = run(release.namespace, plane.kubeconfig, "--release=other", "-ojson")
    with away(release):
        found = check(release)
        for kind in ("deployment", "service", "configmap"):
            kubectl(release, "delete", kind, release.fullname)
        nothing = check(release)

    [wrong] = [f for f in json.loads(name.stdout)["findings"] if f["check"] == "configuration"]
    hint = f"accel check --release accel-injector --namespace {release.namespace}"
    assert ("failed", f"Another release exists: {hint}") == (wrong["status"], wrong["fix"])
    where = f"{release.namespace}/{release.fullname}"
    assert ("failed", f"there is no Deployment {where}") == said_of(nothing, "deployment")
    assert ("failed", f"there is no Service {where}") == said_of(nothing, "endpoints")
    assert ("failed", f"ConfigMap {where} is missing") == said_of(nothing, "site-config")
    assert (
        "there is no MutatingWebhookConfiguration accel-injector: nothing is injected"
        == (found["configuration"]["message"])
    )
    assert "failed" == found["dry-run"]["status"]
    assert "came back without devices" in found["dry-run"]["message"]


def test_more_nodes_than_are_read(plane: ControlPlane, release: Release, labelled: str) -> None:
    """Of 5,001 nodes 5,000 are checked, which is reported. They are not removed, so this test is the last but one."""
    create(plane, labelled, pod("tpu-v5p-8"))
    nodes = CoreV1Api(plane.client)  # keeps its connection, unlike the rest of our requests
    for number in range(NODE_PAGES * PAGE + 1):
        nodes.create_node({"metadata": {"name": f"node-{number}"}})
    found = check(release)

    message = f"some types in use lack nodes now among the first {NODE_PAGES * PAGE}"
    assert ("warning", message) == said_of(found, "nodes")


CHECKS = ROOT / "webhook" / "check"
CALLS = {"failed": "failed", "warning": "warning", "pointless": "skipped"}


def test_every_state_was_produced(request: pytest.FixtureRequest) -> None:
    """Everything that the checks can report about a problem was reported in a test above, for a real cluster.

    Taken from their source: what `failed`, `warning` and `pointless` are called with, and details that are yielded.
    """
    here = {item.name for item in request.session.items if item.path == Path(__file__)}
    if missing := {name for name in globals() if name.startswith("test_")} - here:
        pytest.skip(f"needs the whole file: {', '.join(sorted(missing))} did not run")
    states = [state for path in sorted(CHECKS.glob("*.py")) for state in states_of(path)]
    lines = "\n".join(PRINTED)
    unseen = [f"{where}: {text}" for where, text in states if not re.search(f"^{text}$", lines, re.MULTILINE)]

    print(f"{len(states)} states")
    assert [] == unseen
    assert len(states) > 45


def states_of(path: Path) -> Iterator[tuple[str, str]]:
    """Where in a module a state is reported, and a pattern of a line that reports it."""
    module = ast.parse(path.read_text())
    for function in [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]:
        texts = assigned(module) | assigned(function)
        for node in ast.walk(function):
            where = f"{path.name}:{getattr(node, 'lineno', 0)}"
            match node:
                case ast.Call(func=ast.Name(id=name), args=[message, *_]) if name in CALLS:
                    yield where, f"{CALLS[name]}.* {pattern(message, texts)}"
                case ast.Yield(value=ast.Constant() | ast.JoinedStr() as message):
                    yield where, f".*{pattern(message, texts)}"


def assigned(scope: ast.AST) -> dict[str, ast.expr]:
    """What is assigned to a name in a module or a function."""
    found = [node for node in ast.walk(scope) if isinstance(node, ast.Assign)]
    return {target.id: node.value for node in found for target in node.targets if isinstance(target, ast.Name)}


def pattern(text: ast.expr, texts: Mapping[str, ast.expr]) -> str:
    """A regular expression of a text: what the source spells, and anything where it does not."""
    match text:
        case ast.Constant(value=str(spelt)):
            return re.escape(spelt)
        case ast.JoinedStr(values=parts):
            return "".join(pattern(part, texts) for part in parts)
        case ast.BinOp(left=left, right=right):
            return pattern(left, texts) + pattern(right, texts)
        case ast.Name(id=name) if name in texts:
            return pattern(texts[name], texts)
    return ".*"
