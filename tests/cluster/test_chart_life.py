"""The life of an installation: upgrades, rollbacks, certificates from elsewhere, the end; by the real Helm."""

import base64
import contextlib
import http.client
import json
import re
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from certs.pki import KeyPair, issue, new_ca, service_names
from tests.support.background import Background
from tests.support.chart import at, merged
from tests.support.checkout import ACCEL, ROOT
from tests.support.page import of_page

from . import monitoring
from .chart import Release, bundles, chips, create, install
from .conftest import build
from .controlplane import PROGRAMS, ControlPlane, expect
from .kubelet import RunningPod
from .process import ClusterError, answers
from .rest import Answer

QUICK = at("webhook.lameDuckSeconds", 1)
"""Nobody calls while these replicas end, so they need not wait for it."""

SECURITY = ROOT / "docs" / "security.md"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@pytest.fixture(scope="module")
def plane(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module's own: its releases would inject what other tests create."""
    build(pytestconfig, *PROGRAMS, "helm")
    with ControlPlane(tmp_path_factory.mktemp("life")) as cluster:
        yield cluster


class Traffic(Background):
    """Annotated pods, asked for one after the other (dry run) for the length of a `with`."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        self.answers: list[Answer] = []
        self._cluster = cluster
        self._namespace = namespace
        super().__init__(self._ask)

    def _ask(self) -> None:
        while not self.over.is_set():
            self.answers.append(create(self._cluster, self._namespace))

    def lost(self) -> list[Any]:
        """What became of the pods that were not injected."""
        return [a.body for a in self.answers if not a.ok or chips(a) != "4"]


def gauge(pod: RunningPod, metric: str) -> float:
    """A value without labels from the webhook's /metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{pod.ports['metrics']}/metrics") as answer:
        found = re.search(rf"^{metric} (\S+)$", answer.read().decode(), re.MULTILINE)
    assert found, metric
    return float(found[1])


def test_upgrade_and_rollback_keep_the_ca(plane: ControlPlane, labelled: str) -> None:
    """An upgrade that adds an entry and a replica, the same again, and the way back: caBundle stays as it was."""
    more = {**QUICK, "replicas": 3, "config": {"detect": ["nvidia.com/gpu"]}}
    with install(plane, values=QUICK) as release:
        release.run_pods(2)
        before = bundles(release)
        (bundle,) = set(before.values())
        release.upgrade(more)
        release.run_pods(3)
        release.wait_for("the new entry's caBundle", lambda: bundles(release).get("detect.accel.io") == bundle)
        assert bundles(release) == {**before, "detect.accel.io": bundle}
        release.upgrade(more, "--force-conflicts")
        assert bundles(release) == {**before, "detect.accel.io": bundle}
        release.rollback(1)
        release.run_pods(2)
        assert bundles(release) == before
        assert chips(create(plane, labelled)) == "4"


def test_upgrade_from_an_earlier_rendering(plane: ControlPlane, labelled: str) -> None:
    """A release that was made without some of the entries is upgraded to all of them, and then all are trusted."""

    def earlier(chart: Path) -> None:
        kinds = chart / "files" / "kinds.yaml"
        text = kinds.read_text()
        kinds.write_text(text[: text.index("- name: rayclusters")])

    with install(plane, edit=earlier) as release:
        release.run_pods(2)
        before = bundles(release)
        assert "rayjobs.workloads.accel.io" not in before
        restored = ROOT / "charts" / "accel-injector" / "files" / "kinds.yaml"
        (release.chart / "files" / "kinds.yaml").write_text(restored.read_text())
        with Traffic(plane, labelled) as traffic:
            release.upgrade()
            release.wait_for("all entries' caBundle", lambda: set(bundles(release).values()) == set(before.values()))
        assert "rayjobs.workloads.accel.io" in bundles(release)
        assert traffic.lost() == []


def test_what_a_replacing_upgrade_takes_away_is_repaired(plane: ControlPlane, labelled: str) -> None:
    """--force-replace empties the CA's Secret and every caBundle; the replicas fill both again."""
    with install(plane) as release:
        release.run_pods(2)
        plane.wait_for("an upgrade that no replica's write comes between", lambda: replaced(release))

        def repaired() -> bool:
            found = set(bundles(release).values())
            return len(found) == 1 and found != {""} and all(create(plane, labelled).ok for _ in range(4))

        release.wait_for("the repair", repaired)
        assert chips(create(plane, labelled)) == "4"


def replaced(release: Release) -> bool:
    """helm upgrade --force-replace; False where a replica wrote caBundle between Helm's own read and write."""
    try:
        release.upgrade({}, "--force-replace", "--server-side=false")
    except ClusterError as error:
        if "has been modified" not in str(error):
            raise
        return False
    return True


def test_rolling_update_loses_no_call(plane: ControlPlane, labelled: str) -> None:
    """While every replica is replaced, each pod that is asked for is injected."""
    values = {"webhook": {"lameDuckSeconds": 3}}
    with install(plane, values=values) as release:
        release.run_pods(2)
        old = {pod.name for pod in release.pods}
        with Traffic(plane, labelled) as traffic:
            release.upgrade({**values, "podAnnotations": {"example.com/rolled": "yes"}})
            release.run_pods(2)
        assert not old & {pod.name for pod in release.pods}
        print(f"{len(traffic.answers)} pods asked for during the update")
        assert len(traffic.answers) > 10
        assert traffic.lost() == []


def state(pod: RunningPod) -> dict[str, Any]:
    """What the certificates' container says of itself."""
    found: dict[str, Any] = json.loads((pod.volume("tls") / "state.json").read_text())
    return found


def test_new_ca_loses_no_call(plane: ControlPlane, labelled: str) -> None:
    """`accel certs rotate`, with the chart's overlap: a new CA signs, and each Pod is injected meanwhile."""
    values = {"tls": {"overlap": "3s"}}
    with install(plane, values=values) as release:
        release.run_pods(2)
        before = {state(pod)["leafAuthority"] for pod in release.pods}
        command = [ACCEL, "certs", "rotate", f"--namespace={release.namespace}", f"--kubeconfig={plane.kubeconfig}"]
        with Traffic(plane, labelled) as traffic:
            # The first CA starts to sign once it has been in every entry for the overlap.
            release.wait_for("a rotation", lambda: subprocess.run(command, capture_output=True).returncode == 0)

            def rotated() -> bool:
                return all(s["ready"] and s["leafAuthority"] not in before for s in map(state, release.pods))

            release.wait_for("both replicas to serve with the new CA", rotated)
        print(f"{len(traffic.answers)} pods asked for during the rotation")
        assert traffic.lost() == []


def test_config_changes_without_a_restart(plane: ControlPlane, labelled: str) -> None:
    """A changed site config reaches the replicas through the mounted ConfigMap, and no pod is replaced."""
    with install(plane) as release:
        release.run_pods(2)
        pods = [pod.name for pod in release.pods]
        assert "nodeSelector" in create(plane, labelled).body["spec"]
        release.upgrade({"config": {"platform": "none"}})

        def follows() -> bool:
            return not any("nodeSelector" in create(plane, labelled).body["spec"] for _ in range(4))

        release.wait_for("both replicas to follow", follows)
        release.run_pods(2)
        assert [pod.name for pod in release.pods] == pods
        assert [pod.restarts for pod in release.pods] == [{}, {}]


def test_wrong_config_is_not_used(plane: ControlPlane, labelled: str) -> None:
    """A site config that cannot be read is refused by running replicas, which stay ready and say so in a metric."""
    with install(plane) as release:
        release.run_pods(2)
        # The chart's schema knows every key; it does not know that a default must be among the allowed ones.
        release.upgrade({"config": {"schedulers": {"defaults": [{"scheduler": "kai-scheduler"}]}}})
        release.wait_for(
            "both to refuse it",
            lambda: all(gauge(pod, "accel_webhook_config_reload_success") == 0 for pod in release.pods),
        )
        assert all(answers(pod.probe("readinessProbe")) for pod in release.pods)
        assert chips(create(plane, labelled)) == "4"


def test_without_a_replica(plane: ControlPlane, labelled: str) -> None:
    """Objects that asked are refused, others are created; one command switches that off."""
    with install(plane) as release:
        release.run_pods(2)
        release.kubelet.close()
        refused = create(plane, labelled)
        assert refused.status == 500
        assert "pods.accel.io" in refused.body["message"]
        assert create(plane, labelled, {}).ok
        notes = release.helm("get", "notes", release.name).stdout
        (command,) = re.findall(r"^\s*kubectl (delete mutatingwebhookconfiguration \S+)$", notes, re.MULTILINE)
        plane.kubectl(*command.split())
        plane.wait_for("the API server to notice", lambda: create(plane, labelled).ok)
        assert chips(create(plane, labelled)) is None


def test_failure_policy_ignore(plane: ControlPlane, labelled: str) -> None:
    """With failurePolicy Ignore, an annotated object is created unchanged if no replica answers."""
    with install(plane, values=at("webhook.failurePolicy", "Ignore")):
        plane.wait_for("the API server to notice", lambda: create(plane, labelled).ok)
        assert chips(create(plane, labelled)) is None


def objects(cluster: ControlPlane) -> set[str]:
    """Every object that the API server has, but for those that only record that something was."""
    groups = [f"/apis/{group['preferredVersion']['groupVersion']}" for group in cluster.get("/apis")["groups"]]
    found = set()
    for prefix in ("/api/v1", *groups):
        for resource in cluster.get(prefix)["resources"]:
            if "list" in resource["verbs"] and resource["name"] not in ("events", "leases", "componentstatuses"):
                items = cluster.get(f"{prefix}/{resource['name']}")["items"]
                names = (f"{o['metadata'].get('namespace', '')}/{o['metadata']['name']}" for o in items)
                found |= {f"{prefix} {resource['name']} {name}" for name in names}
    return found


def test_uninstall_leaves_nothing(plane: ControlPlane) -> None:
    """After helm uninstall, the API server has the objects that it had before helm install, and no other."""
    namespace = plane.namespace()
    before = objects(plane)
    values = merged(QUICK, at("metrics.dashboard.enabled", True))
    with install(plane, namespace=namespace, values=values) as release:
        release.run_pods(2)
        assert len(objects(plane) - before) > 10
        release.uninstall()
        release.wait_for("everything to go", lambda: not (objects(plane) - before), 60)
        release.wait_for("the processes to end", lambda: not release.kubelet.ending and not release.pods)


# Certificates from elsewhere


def serving(release: Release, ca: KeyPair) -> dict[str, str]:
    """The data of a kubernetes.io/tls Secret for the release's Service."""
    leaf = issue(ca, service_names(release.fullname, release.namespace), datetime.now(UTC))
    files = {"tls.crt": leaf.certificate, "tls.key": leaf.key, "ca.crt": ca.certificate}
    return {name: base64.b64encode(data).decode() for name, data in files.items()}


def secret(release: Release, name: str, data: dict[str, str]) -> None:
    """Create the Secret, or replace its data."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "kubernetes.io/tls", "data": data}
    path = f"/api/v1/namespaces/{release.namespace}/secrets/{name}"
    query = {"fieldManager": "tests", "force": "true"}
    expect(
        release.cluster.request("PATCH", path, json.dumps(body), query, content="application/apply-patch+yaml"), name
    )


def fingerprint(pod: RunningPod) -> str:
    """What the pod's webhook serves with, by its own log."""
    lines = (pod.root / "webhook.log").read_text().splitlines()
    used = [json.loads(line) for line in lines if "certificate in use" in line]
    return str(used[-1]["sha256"])


def test_existing_secret(plane: ControlPlane, labelled: str) -> None:
    """One container, no rights, the Secret's files; a renewed certificate is served without a restart."""
    ca = new_ca(datetime.now(UTC))
    values = {"tls": {"mode": "existing-secret", "existingSecret": "given", "caBundle": ca.certificate.decode()}}
    with install(plane, values=values) as release:
        secret(release, "given", serving(release, ca))
        release.run_pods(2)
        assert [list(pod.processes) for pod in release.pods] == [["webhook"], ["webhook"]]
        assert chips(create(plane, labelled)) == "4"
        old = [fingerprint(pod) for pod in release.pods]
        with Traffic(plane, labelled) as traffic:
            secret(release, "given", serving(release, ca))
            release.wait_for("the new certificate", lambda: not {fingerprint(pod) for pod in release.pods} & set(old))
        assert traffic.lost() == []
        assert [pod.restarts for pod in release.pods] == [{}, {}]


def test_existing_secret_as_the_command_makes_it(plane: ControlPlane, labelled: str, tmp_path: Path) -> None:
    """What `accel certs issue` prints and writes is what the chart takes."""
    namespace = plane.namespace()
    names = ["--service=accel-injector", f"--namespace={namespace}", f"--dir={tmp_path}", "--secret=made"]
    made = subprocess.run([ACCEL, "certs", "issue", *names], check=True, capture_output=True, text=True)
    plane.kubectl("apply", "-f", "-", input=made.stdout)
    ca = (tmp_path / "ca.crt").read_text()
    values = {"tls": {"mode": "existing-secret", "existingSecret": "made", "caBundle": ca}}
    with install(plane, namespace=namespace, values=values) as release:
        release.run_pods(2)
        assert chips(create(plane, labelled)) == "4"


def test_cert_manager(plane: ControlPlane, labelled: str) -> None:
    """With the Secret and the caBundle as cert-manager and its injector write them; an upgrade keeps the latter."""
    plane.install_crds(*monitoring.crds())
    values = merged(QUICK, at("tls.mode", "cert-manager"))
    with install(plane, values=values) as release:
        ca = new_ca(datetime.now(UTC))
        certificate = plane.get(
            f"/apis/cert-manager.io/v1/namespaces/{release.namespace}/certificates/{release.fullname}-tls"
        )
        assert certificate["spec"]["dnsNames"][0] == f"{release.fullname}.{release.namespace}.svc"
        secret(release, certificate["spec"]["secretName"], serving(release, ca))
        inject(release, ca)
        release.run_pods(2)
        assert chips(create(plane, labelled)) == "4"
        before = bundles(release)
        release.upgrade(merged(values, at("logLevel", "debug")))
        release.run_pods(2)
        assert bundles(release) == before


def inject(release: Release, ca: KeyPair) -> None:
    """Play cert-manager's CA injector: it finds its annotation, and fills in every entry."""
    configuration = release.webhook_configuration
    source = configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
    assert source == f"{release.namespace}/{release.fullname}-tls"
    for webhook in configuration["webhooks"]:
        webhook["clientConfig"]["caBundle"] = base64.b64encode(ca.certificate).decode()
    path = f"{CONFIGURATIONS}/{release.fullname}"
    expect(release.cluster.request("PUT", path, configuration, {"fieldManager": "cainjector"}), "injection")


def test_changes_of_mode(plane: ControlPlane, labelled: str) -> None:
    """From certificates of its own to given ones and back, as the chart's page says: the former takes two upgrades."""
    ca = new_ca(datetime.now(UTC))
    given = {"tls": {"mode": "existing-secret", "existingSecret": "given", "caBundle": ca.certificate.decode()}}
    with install(plane, values=QUICK) as release:
        release.run_pods(2)
        secret(release, "given", serving(release, ca))
        with pytest.raises(ClusterError, match=r"conflict.*caBundle"):
            release.upgrade(merged(QUICK, given))
        release.upgrade(merged(QUICK, given), "--force-conflicts")
        release.run_pods(2)
        # The replicas that are gone now repaired their caBundle as long as they had the right to.
        release.upgrade(merged(QUICK, given), "--force-conflicts")
        assert set(bundles(release).values()) == {base64.b64encode(ca.certificate).decode()}
        release.wait_for("an injected pod", lambda: (answer := create(plane, labelled)).ok and chips(answer) == "4")
        release.upgrade(QUICK)
        release.run_pods(2)
        release.wait_for("an injected pod", lambda: (answer := create(plane, labelled)).ok and chips(answer) == "4")
        assert bundles(release)["pods.accel.io"] != base64.b64encode(ca.certificate).decode()


def test_callers_without_a_certificate(plane: ControlPlane, labelled: str) -> None:
    """With a client CA, an API server without a client certificate is rejected, and one with a certificate is not."""
    with install(plane, values=at("tls.clientCA", {"configMap": "callers", "names": ["one", "two"]})) as release:
        body = {"metadata": {"name": "callers"}, "data": {"ca.crt": plane.ca.certificate.decode()}}
        expect(plane.request("POST", f"/api/v1/namespaces/{release.namespace}/configmaps", body), "callers")
        release.run_pods(2)
        assert create(plane, labelled).status == 500
        assert create(plane, labelled, {}).ok
        for name, status in (("one", 200), ("two", 200), ("three", 0)):
            assert call(release, release.pods[0], name) == status, name
        plane.restart_apiserver(f"--admission-control-config-file={credentials(release, 'one')}")
        release.wait_for("an injected pod", lambda: (answer := create(plane, labelled)).ok and chips(answer) == "4")


def credentials(release: Release, name: str) -> Path:
    """The API server's files as docs/security.md has them, with a client certificate of that name."""
    folder = release.cluster.directory / "webhooks"
    folder.mkdir()
    pair = release.cluster.ca.client(name)
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    admission, kubeconfig = (block.text for block in of_page(SECURITY) if block.info == "yaml (argo)")
    service = f"{release.fullname}.{release.namespace}.svc:{release.port}"  # for port 443 the name alone would do
    for file, text in (("admission.yaml", admission), ("kubeconfig.yaml", kubeconfig)):
        local = text.replace("/etc/kubernetes/webhooks", str(folder))
        (folder / file).write_text(local.replace("accel-injector.accel-system.svc", service))
    return folder / "admission.yaml"


def call(release: Release, pod: RunningPod, name: str) -> int:
    """POST a review to a replica with a client certificate of that name; the HTTP status, 0 where it hangs up."""
    pair = release.cluster.ca.client(name)
    file = release.directory / f"{name}.pem"
    file.write_bytes(pair.certificate + pair.key)
    trust = ssl.create_default_context(cadata=base64.b64decode(bundles(release)["pods.accel.io"]).decode())
    trust.check_hostname = False
    trust.load_cert_chain(file)
    request = {"uid": "1", "operation": "CREATE", "object": {"kind": "Pod"}, "kind": {"group": "", "kind": "Pod"}}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    connection = http.client.HTTPSConnection("127.0.0.1", pod.ports["https"], context=trust)
    with contextlib.closing(connection):
        try:
            connection.request("POST", "/mutate", json.dumps(review), {"Content-Type": "application/json"})
            return connection.getresponse().status
        except OSError:
            return 0
