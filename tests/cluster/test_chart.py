"""The chart on a real API server with the real Helm: every value, and an installation as it stands."""

import base64
import json
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.support import chart as rendering
from tests.support.chart import at, merged, path_of

from . import monitoring
from .chart import INJECTED, Release, bundles, chips, create, install
from .conftest import build
from .controlplane import PROGRAMS, ControlPlane, expect
from .kubelet import Kubelet
from .rest import Answer

FORCED = "application/apply-patch+yaml"


@pytest.fixture(scope="module")
def plane(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module's own: its releases would inject what other tests create."""
    build(pytestconfig, *PROGRAMS, "helm")
    with ControlPlane(tmp_path_factory.mktemp("chart")) as cluster:
        cluster.install_crds(*monitoring.crds())
        yield cluster


@pytest.fixture(scope="module")
def shared(plane: ControlPlane) -> Iterator[Release]:
    """A release with all defaults and two replicas, which tests leave as they found it."""
    with install(plane) as release:
        release.run_pods(2)
        yield release


# Rendering, judged by the API server


@pytest.fixture(scope="module")
def judged(plane: ControlPlane) -> dict[str, Answer]:
    """What the API server said to each object so far: most are the same with another value."""
    for name in (rendering.NAMESPACE, f"{rendering.NAME}-test"):
        expect(plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}}), name)
    account = {"metadata": {"name": f"{rendering.NAME}-test"}}  # a pod is refused before its account is there
    path = f"/api/v1/namespaces/{rendering.NAMESPACE}/serviceaccounts"
    expect(plane.request("POST", path, account), "account")
    return {}


def judge(cluster: ControlPlane, judged: dict[str, Answer], values: Mapping[str, Any]) -> int:
    """Render, and let the API server say whether it would take each object, fields checked strictly."""
    new = 0
    for found in rendering.render(values, *(f"--api-versions={version}" for version in rendering.MONITORING)):
        text = json.dumps(found)
        if text not in judged:
            query = {"dryRun": "All", "fieldManager": "helm", "fieldValidation": "Strict"}
            judged[text] = cluster.request("PATCH", path_of(found), text, query, content=FORCED)
            new += 1
        assert judged[text].ok, (path_of(found), judged[text].body)
    return new


@pytest.mark.parametrize("path", rendering.OTHERS)
def test_every_value_is_accepted(plane: ControlPlane, judged: dict[str, Answer], path: str) -> None:
    """With each value as it is and with another one, the API server takes all objects, monitoring's included."""
    ca = base64.b64encode(plane.ca.certificate).decode()
    for values in rendering.both_ways(path):
        if values.get("tls", {}).get("mode") == "existing-secret":
            values = merged(values, at("tls.caBundle", ca))
        judge(plane, judged, values)
    assert len(judged) >= 15


def test_judgement_is_strict(plane: ControlPlane, judged: dict[str, Answer]) -> None:
    """An unknown field in an object would have been found."""
    (rule,) = (o for o in rendering.render(at("metrics.prometheusRule.enabled", True)) if o["kind"] == "PrometheusRule")
    rule["spec"]["groups"][0]["rules"][0]["annotation"] = {}
    query = {"dryRun": "All", "fieldManager": "helm", "fieldValidation": "Strict"}
    answer = plane.request("PATCH", path_of(rule), json.dumps(rule), query, content=FORCED)
    assert not answer.ok
    assert "annotation" in answer.body["message"]


# An installation


def test_injects_where_it_is_asked_to(shared: Release, labelled: str) -> None:
    """Annotated pods of labelled namespaces, and nothing else: not the release's own namespace, labelled or not."""
    cluster = shared.cluster
    assert chips(create(cluster, labelled)) == "4"
    assert chips(create(cluster, labelled, {})) is None
    other = cluster.namespace()
    assert chips(create(cluster, other)) is None
    cluster.delete_namespace(other)
    for namespace in ("kube-system", shared.namespace):
        label = {"metadata": {"labels": INJECTED}}
        expect(cluster.request("PATCH", f"/api/v1/namespaces/{namespace}", label), namespace)
    allowed = create(cluster, "kube-system")
    assert chips(allowed) is None
    assert create(cluster, shared.namespace).status == 403  # PodSecurity restricted: it was not ours to judge


def test_refusal_reaches_the_client(shared: Release, labelled: str) -> None:
    """A type that does not exist is denied with our message, as Invalid."""
    answer = create(shared.cluster, labelled, {"accel.io/type": "tpu-v4-17"})
    assert answer.status == 422
    assert answer.body["reason"] == "Invalid"
    assert "tpu-v4-17" in answer.body["message"]


def test_every_entry_holds_the_ca(shared: Release) -> None:
    """All entries were filled with the same bundle by the replicas themselves."""
    found = bundles(shared)
    assert len(set(found.values())) == 1
    assert b"BEGIN CERTIFICATE" in base64.b64decode(found["pods.accel.io"])


def test_notes_say_what_is_next(shared: Release) -> None:
    """After an installation, the next commands stand on the screen, with this release's names."""
    notes = shared.helm("get", "notes", shared.name).stdout
    assert f"kubectl -n {shared.namespace} rollout status deployment/{shared.fullname}" in notes
    assert "accel.io/injection=enabled" in notes
    assert f"helm test {shared.name} -n {shared.namespace}" in notes
    assert f"kubectl delete mutatingwebhookconfiguration {shared.fullname}" in notes


def test_gitops_tools_see_no_difference(shared: Release) -> None:
    """Applied by another manager, the same manifests would change nothing: what was filled in is not theirs."""
    manifests = shared.helm("get", "manifest", shared.name).stdout
    flags = ["--server-side", "--force-conflicts", "--field-manager=gitops", "-f", "-"]
    done = shared.cluster.kubectl("diff", *flags, input=manifests, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    changed = manifests.replace("timeoutSeconds: 5", "timeoutSeconds: 6")
    assert shared.cluster.kubectl("diff", *flags, input=changed, check=False).returncode == 1


def test_pods_have_no_credentials_but_one(shared: Release) -> None:
    """As admitted by the API server: the token is mounted into the certificates' container alone."""
    for pod in shared.pods:
        holders = [
            c["name"] for c in pod.containers if any("serviceaccount" in m["mountPath"] for m in c["volumeMounts"])
        ]
        assert holders == ["certs"]


def test_rights_are_enough_and_no_more(shared: Release) -> None:
    """The service account reads its Secret and its configuration, and no other object of these kinds."""
    api = shared.cluster.as_service_account(shared.namespace, shared.fullname)
    secrets = f"/api/v1/namespaces/{shared.namespace}/secrets"
    configurations = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    assert api.request("GET", f"{secrets}/{shared.fullname}-ca").ok
    assert api.request("GET", f"{configurations}/{shared.fullname}").ok
    for path in (secrets, f"{secrets}/sh.helm.release.v1.{shared.name}.v1", configurations, f"{configurations}/other"):
        assert api.request("GET", path).status == 403, path
    assert api.request("DELETE", f"{secrets}/{shared.fullname}-ca").status == 403
    assert api.request("DELETE", f"{configurations}/{shared.fullname}").status == 403


def helm_test(release: Release, *args: str) -> subprocess.CompletedProcess[str]:
    """Run `helm test`, and its pod as a process."""
    kubelet = Kubelet(
        release.cluster, release.namespace, "app.kubernetes.io/name=accel-injector-test", release.directory / "tests"
    )
    done: list[subprocess.CompletedProcess[str]] = []

    def run() -> None:
        command = ["test", release.name, "--namespace", release.namespace, "--timeout", "60s", *args]
        done.append(release.cluster.helm(*command, check=False))

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        release.sync()
        kubelet.sync()
        thread.join(0.1)
    log = "".join(path.read_text() for path in release.directory.glob("tests/*/dry-run.log"))
    for path in release.directory.glob("tests/*/dry-run.log"):
        path.unlink()
    kubelet.close()
    done[0].stdout += log
    return done[0]


def test_helm_test(shared: Release) -> None:
    """`helm test` asks for a pod as a user would, says what it got, and leaves nothing."""
    done = helm_test(shared)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "would be stored with 4 google.com/tpu" in done.stdout
    cluster = shared.cluster
    cluster.wait_for(
        "the test's namespace to go",
        lambda: cluster.request("GET", f"/api/v1/namespaces/{shared.fullname}-test").status == 404,
    )
    assert cluster.pods(shared.namespace, "app.kubernetes.io/name=accel-injector-test") == []


def test_replica_that_is_killed_is_replaced(shared: Release, labelled: str) -> None:
    """One of two replicas dies without a word: the other answers, and the kubelet's new one joins it."""
    shared.pods[0].processes["webhook"].signal(signal.SIGKILL)
    shared.sync()
    answers = []
    for _ in range(20):
        shared.sync()
        answers.append(create(shared.cluster, labelled))
    assert chips(answers[-1]) == "4"
    shared.run_pods(2)
    assert shared.pods[0].restarts == {"webhook": 1}
