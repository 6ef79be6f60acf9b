"""`accel certs run` beside a real API server, as a process, with the rights that the chart gives it and no others.

Service and webhook are not needed here: what is proved is that at every moment each replica's certificate is
accepted by whoever trusts the caBundle of any one entry.
"""

import base64
import json
import os
import re
import shutil
import stat
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from certs import directory, keyring, pki
from certs.api import Conflict, connect
from certs.keyring import Keyring
from certs.rotation import Policy
from certs.run import Loop
from certs.store import Store
from tests.support.background import Background
from tests.support.chart import one, path_of, render
from tests.support.checkout import ACCEL

from .controlplane import ControlPlane, expect
from .process import Process, free_port, wait_for

MWC = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ENTRIES = ("pods.accel.io", "jobset.workloads.accel.io")
CERTS = [ACCEL, "certs"]


@dataclass
class Release:
    """What the chart renders for self-managed certificates, in a namespace of the test's own."""

    cluster: ControlPlane
    namespace: str
    directory: Path
    replicas: list[Process] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Of everything but the Secret; unique in the cluster, as configurations have no namespace."""
        return f"accel-injector-{self.namespace}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the Service."""
        return pki.service_names(self.name, self.namespace)

    @property
    def secret_name(self) -> str:
        """Of the CA's Secret."""
        return f"{self.name}-ca"

    def install(self) -> None:
        """The account, its Secret, its rights and their limit as the chart renders them; a configuration of our own."""
        for found in self._objects():
            body, query = json.dumps(found), {"fieldManager": "helm"}
            answer = self.cluster.request("PATCH", path_of(found), body, query, content="application/apply-patch+yaml")
            expect(answer, found["kind"])
        configuration = {"metadata": {"name": self.name}, "webhooks": [self.entry(name) for name in ENTRIES]}
        expect(self.cluster.request("POST", MWC, configuration), "configuration")
        account = self.directory / "account"
        account.mkdir()
        (account / "token").write_text(self.cluster.token(self.namespace, self.name))
        (account / "ca.crt").write_bytes(self.cluster.ca.certificate)

    def remove(self) -> None:
        """What does not go with the namespace."""
        for found in self._objects():
            if "namespace" not in found["metadata"]:
                self.cluster.request("DELETE", path_of(found))
        self.cluster.request("DELETE", f"{MWC}/{self.name}")

    def binding(self) -> dict[str, Any]:
        """Of the ClusterRole."""
        return one(self._objects(), "ClusterRoleBinding", self.name)

    def _objects(self) -> list[dict[str, Any]]:
        shown = (f"--show-only=templates/{name}.yaml" for name in ("serviceaccount", "self-managed", "certs-policy"))
        return render({}, f"--namespace={self.namespace}", *shown, name=self.name)

    def entry(self, name: str) -> dict[str, Any]:
        """One webhook entry that no object ever matches."""
        return {
            "name": name,
            "clientConfig": {"service": {"name": self.name, "namespace": self.namespace, "path": "/mutate"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            "namespaceSelector": {"matchLabels": {"accel.io/nobody": "here"}},
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }

    def start(self, number: int = 0, *flags: str) -> Process:
        """Start a replica, with a directory of its own (`folder`)."""
        environment = {
            **{key: value for key, value in os.environ.items() if "proxy" not in key.lower()},
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.cluster.port),
            "ACCEL_SERVICE_ACCOUNT_DIR": str(self.directory / "account"),
        }
        names = {"secret": self.secret_name, "service": self.name, "webhook-config": self.name}
        options = {"namespace": self.namespace, **names}
        command = [*CERTS, "run", *(f"--{key}={value}" for key, value in options.items())]
        command += [f"--dir={self.folder(number)}", "--overlap=2s", *flags]
        process = Process(f"certs-{number}", command, self.directory / f"certs-{number}.log", environment)
        self.replicas.append(process)
        return process

    def run(self, command: str, *flags: str) -> subprocess.CompletedProcess[str]:
        """Run another `accel certs` command as the admin."""
        options = {"namespace": self.namespace, "secret": self.secret_name, "webhook-config": self.name}
        arguments = [f"--{key}={value}" for key, value in options.items()]
        return subprocess.run(
            [*CERTS, command, *arguments, f"--kubeconfig={self.cluster.kubeconfig}", *flags],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={key: value for key, value in os.environ.items() if "proxy" not in key.lower()},
        )

    def folder(self, number: int = 0) -> Path:
        """The directory of a replica."""
        return self.directory / f"replica-{number}"

    def state(self, number: int = 0) -> dict[str, Any]:
        """A replica's state.json; empty before it is written."""
        path = self.folder(number) / "state.json"
        return dict(json.loads(path.read_bytes())) if path.exists() else {}

    def secret(self) -> dict[str, Any]:
        """The CA Secret."""
        return dict(self.cluster.get(f"/api/v1/namespaces/{self.namespace}/secrets/{self.secret_name}"))

    def configuration(self) -> dict[str, Any]:
        """The webhook configuration."""
        return dict(self.cluster.get(f"{MWC}/{self.name}"))

    def bundles(self) -> dict[str, bytes]:
        """Each entry's caBundle."""
        hooks = self.configuration()["webhooks"]
        return {hook["name"]: base64.b64decode(hook["clientConfig"].get("caBundle") or "") for hook in hooks}

    def patch(self, *operations: Mapping[str, Any]) -> None:
        """Edit the configuration by hand."""
        answer = self.cluster.request(
            "PATCH", f"{MWC}/{self.name}", list(operations), content="application/json-patch+json"
        )
        expect(answer, "patch of the configuration")

    def accepted(self, number: int = 0) -> bool:
        """Whether everybody who trusts any one entry accepts the replica's certificate now."""
        leaf = directory.leaf(self.folder(number))
        return leaf is not None and all(
            pki.valid_at(leaf.certificate, bundle, self.names, datetime.now(UTC)) for bundle in self.bundles().values()
        )

    def wait_ready(self, *numbers: int) -> None:
        """Until these replicas say that they are ready, and are."""
        for number in numbers or (0,):
            wait_for(f"replica {number} to be ready", lambda n=number: self.state(n).get("ready"), 30, self.replicas)
            assert self.accepted(number)

    def signer(self, number: int = 0) -> str:
        """Who signed a replica's certificate."""
        return str(self.state(number).get("leafAuthority", ""))


@pytest.fixture
def release(cluster: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Release]:
    """An installed release without replicas."""
    made = Release(cluster, namespace, tmp_path)
    made.install()
    yield made
    for replica in made.replicas:
        replica.stop()
    made.remove()


class Sampler(Background):
    """Looks without pause, from a thread, whether every replica's certificate is accepted."""

    def __init__(self, release: Release, replicas: int) -> None:
        self._look: Callable[[int], bool] = release.accepted
        self._release = release
        self._replicas = range(replicas)
        self.samples = 0
        self.refused: list[str] = []
        super().__init__(self._work)

    def _work(self) -> None:
        while not self.over.is_set():
            for number in self._replicas:
                self.samples += 1
                if not self._look(number):
                    self.refused.append(f"replica {number} at {datetime.now(UTC):%H:%M:%S.%f}")


def test_an_empty_secret_is_filled(release: Release) -> None:
    """The first replica creates the CA, fills every entry, and has a certificate that they accept."""
    replica = release.start()
    release.wait_ready()

    state = release.state()
    assert state["entries"] == dict.fromkeys(ENTRIES, True)
    assert state["problem"] == ""
    assert set(release.bundles().values()) == {(release.folder() / "ca.crt").read_bytes()}
    wait_for("the CA to sign", lambda: "ca.key" in release.secret()["data"], 30, [replica])
    assert sorted(release.secret()["data"]) == ["ca.crt", "ca.key", "keyring.json"]

    key = release.folder() / "tls.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert os.readlink(key) == "..data/tls.key"
    assert sorted(p.name for p in release.folder().iterdir() if not p.name.startswith("..")) == [
        "ca.crt",
        "state.json",
        "tls.crt",
        "tls.key",
    ]
    assert "PRIVATE" not in replica.log.read_text()


def test_rights_are_the_charts(release: Release) -> None:
    """The service account may touch its two objects and nothing beside them."""
    account = release.cluster.as_service_account(release.namespace, release.name)
    secrets = f"/api/v1/namespaces/{release.namespace}/secrets"

    assert account.request("GET", f"{secrets}/{release.secret_name}").ok
    assert account.request("GET", f"{MWC}/{release.name}").ok
    assert account.request("GET", secrets).status == 403
    assert account.request("POST", secrets, {"metadata": {"name": "another"}}).status == 403
    assert account.request("DELETE", f"{secrets}/{release.secret_name}").status == 403
    assert account.request("GET", MWC).status == 403
    assert account.request("PUT", f"{MWC}/{release.name}", release.configuration()).status == 403


def test_replicas_race_for_an_empty_secret(release: Release) -> None:
    """Three replicas that start at once agree on one CA."""
    for number in range(3):
        release.start(number)
    release.wait_ready(0, 1, 2)

    assert len({release.signer(number) for number in range(3)}) == 1
    assert {len(pki.split(bundle)) for bundle in release.bundles().values()} == {1}


def test_a_stale_writer_loses(release: Release) -> None:
    """A write based on an outdated version gets a Conflict and changes nothing."""
    store = Store(connect(str(release.cluster.kubeconfig)), release.namespace, release.secret_name, release.name)
    now = datetime.now(UTC)
    first, second = (Keyring(signing=pki.new_ca(now)) for _ in range(2))

    stale = store.read()
    store.write_keyring(stale, first)
    with pytest.raises(Conflict):
        store.write_keyring(stale, second)
    assert store.read().keyring == first

    store.write_bundle(stale, first.bundle())
    with pytest.raises(Conflict):
        store.write_bundle(stale, second.bundle())
    assert set(release.bundles().values()) == {first.bundle()}


def test_the_secret_keeps_what_is_not_ours(release: Release) -> None:
    """Labels, annotations and keys that others put on the Secret are still there after a write."""
    path = f"/api/v1/namespaces/{release.namespace}/secrets/{release.secret_name}"
    theirs = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "data": {"note": "aGVsbG8="}}
    chart = release.secret()["metadata"]["labels"]
    expect(release.cluster.request("PATCH", path, theirs), "the others' edit")
    replica = release.start()
    wait_for("the CA to sign", lambda: "ca.key" in release.secret()["data"], 30, [replica])

    secret = release.secret()
    assert secret["metadata"]["labels"] == {**chart, "a": "b"}
    assert secret["metadata"]["annotations"] == {"c": "d"}
    assert secret["data"]["note"] == "aGVsbG8="


def test_a_clock_far_ahead(release: Release) -> None:
    """A replica whose clock is 300 days ahead goes by the API server's, and starts no rotation."""
    early = lambda: datetime.now(UTC) + timedelta(days=300)  # noqa: E731
    now = datetime.now(UTC)

    def turn(clock: Callable[[], datetime], number: int) -> None:
        api = connect(str(release.cluster.kubeconfig), clock=clock)
        store = Store(api, release.namespace, release.secret_name, release.name)
        log = structlog.testing.CapturingLogger()
        Loop(store, Policy(release.names), release.folder(number), timedelta(hours=1), log, clock=clock).turn()

    turn(early, 0)
    turn(lambda: datetime.now(UTC), 1)

    for number in range(2):
        assert release.accepted(number)
        assert release.state(number)["ready"] is True
    ring = keyring.from_secret(release.secret()["data"], {})
    assert ring.upcoming is not None
    assert pki.not_before(ring.upcoming.certificate) < now


def test_metrics_and_health(release: Release) -> None:
    """The optional port shows expiry, steps and failures, and that the loop runs."""
    port = free_port()
    replica = release.start(0, f"--metrics-bind=127.0.0.1:{port}")
    release.wait_ready()
    wait_for("the first CA to sign", lambda: not release.state()["rotating"], 30, [replica])
    time.sleep(0.2)

    figures = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    value = re.search(r"^accel_certs_leaf_not_after_seconds (\S+)$", figures, re.MULTILINE)
    assert value is not None
    assert float(value[1]) == datetime.fromisoformat(release.state()["leafNotAfter"]).timestamp()
    assert "accel_certs_cabundle_match 1.0" in figures
    assert 'accel_certs_steps_total{action="Promote"} 1.0' in figures
    assert 'accel_certs_failures_total{kind="refused"} 0.0' in figures
    assert urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10).read() == b"ok\n"


def test_a_cleared_bundle_is_repaired(release: Release) -> None:
    """A caBundle that was cleared or replaced in one entry is restored; the rest is left alone."""
    release.start(0, "--poll=1h")
    release.wait_ready()
    before = release.configuration()
    foreign = base64.b64encode(pki.new_ca(datetime.now(UTC)).certificate).decode()

    for number, operation in enumerate(({"op": "remove"}, {"op": "replace", "value": foreign})):
        began = time.monotonic()
        release.patch({**operation, "path": f"/webhooks/{number}/clientConfig/caBundle"})
        wait_for("the repair", release.accepted, 30, release.replicas)
        print(f"repaired after {time.monotonic() - began:.3f} s")

    assert release.configuration()["webhooks"] == before["webhooks"]


def test_an_added_entry_is_filled(release: Release) -> None:
    """An entry that an upgrade adds gets the bundle, and its neighbours keep theirs."""
    release.start(0, "--poll=1h")
    release.wait_ready()

    release.patch({"op": "add", "path": "/webhooks/0", "value": release.entry("job.workloads.accel.io")})
    wait_for("the new entry", lambda: all(release.bundles().values()), 30, release.replicas)

    wait_for("the state", lambda: len(release.state()["entries"]) == 3, 30, release.replicas)
    assert release.state()["entries"] == dict.fromkeys(("job.workloads.accel.io", *ENTRIES), True)


def test_an_entry_can_go(release: Release) -> None:
    """A server-side apply, as Helm 4 does it, can still take away an entry that carries our caBundle."""
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": release.name},
    }

    def apply(*names: str) -> None:
        answer = release.cluster.request(
            "PATCH",
            f"{MWC}/{release.name}",
            json.dumps({**configuration, "webhooks": [release.entry(name) for name in names]}),
            {"fieldManager": "helm"},
            content="application/apply-patch+yaml",
        )
        expect(answer, f"apply of {names}")

    release.cluster.request("DELETE", f"{MWC}/{release.name}")
    apply(*ENTRIES, "job.workloads.accel.io")
    release.start()
    release.wait_ready()
    apply(*ENTRIES)

    assert sorted(release.bundles()) == sorted(ENTRIES)
    assert release.accepted()


def test_the_configuration_may_come_later(release: Release) -> None:
    """Without a configuration a replica has its certificate but is not ready; it is once there is one."""
    configuration = release.configuration()
    release.cluster.request("DELETE", f"{MWC}/{release.name}")
    replica = release.start(0, "--poll=1h")
    wait_for("a certificate", lambda: directory.leaf(release.folder()), 30, [replica])
    wait_for("the state", release.state, 30, [replica])
    assert release.state()["ready"] is False
    assert "is missing" in release.state()["problem"]

    metadata = {"name": release.name}
    expect(release.cluster.request("POST", MWC, {**configuration, "metadata": metadata}), "configuration")
    release.wait_ready()


def test_rotations_on_request(release: Release) -> None:
    """Three rotations with two replicas: each ends on a new CA, and no sample is ever refused."""
    for number in range(2):
        release.start(number)
    release.wait_ready(0, 1)
    wait_for("the first CA to sign", lambda: not release.state()["rotating"], 30, release.replicas)

    with Sampler(release, 2) as sampler:
        for count in range(1, 4):
            old = release.signer()
            asked = release.run("rotate")
            assert asked.returncode == 0, asked.stderr
            assert "Requested" in asked.stdout
            changed = lambda n, old=old: release.signer(n) not in ("", old)  # noqa: E731
            wait_for("both to change", lambda c=changed: c(0) and c(1), 60, release.replicas)
            assert release.state()["rotations"] == count
            assert len({release.signer(0), release.signer(1)}) == 1

    print(f"{sampler.samples} samples, {len(sampler.refused)} refused")
    assert sampler.refused == []
    assert {len(pki.split(bundle)) for bundle in release.bundles().values()} == {4}, "old ones stay trusted"


def test_a_distrusted_ca_leaves(release: Release) -> None:
    """After `rotate --distrust` the old CA is gone from every entry, without a refused sample."""
    for number in range(2):
        release.start(number)
    release.wait_ready(0, 1)
    wait_for("the first CA to sign", lambda: not release.state()["rotating"], 30, release.replicas)
    old = release.signer()

    with Sampler(release, 2) as sampler:
        assert release.run("rotate", "--distrust").returncode == 0
        assert "already in progress" in release.run("rotate").stderr or release.signer() != old
        held = lambda: {pki.fingerprint(ca) for b in release.bundles().values() for ca in pki.split(b)}  # noqa: E731
        wait_for("the old one to leave", lambda: old not in held(), 60, release.replicas)

    print(f"{sampler.samples} samples, {len(sampler.refused)} refused")
    assert sampler.refused == []


def test_short_lives(release: Release) -> None:
    """Leaves of 12 s and CAs of 60 s: renewals and a rotation by age, without a refused sample."""
    for number in range(2):
        release.start(number, "--leaf-lifetime=12s", "--ca-lifetime=60s", "--poll=5s")
    release.wait_ready(0, 1)

    leaves = set()
    with Sampler(release, 2) as sampler:
        deadline = time.monotonic() + 120
        while release.state()["rotations"] < 1 and time.monotonic() < deadline:
            leaves |= {(release.folder(number) / "tls.crt").read_bytes() for number in range(2)}
            time.sleep(0.2)

    print(f"{sampler.samples} samples, {len(sampler.refused)} refused, {len(leaves)} certificates")
    assert release.state()["rotations"] == 1
    assert len(leaves) >= 8
    assert sampler.refused == []


def test_an_emptied_secret(release: Release) -> None:
    """A Secret that was emptied is filled again; the CA in use is trusted until all replicas have changed."""
    for number in range(2):
        release.start(number)
    release.wait_ready(0, 1)
    wait_for("the first CA to sign", lambda: not release.state()["rotating"], 30, release.replicas)
    old = release.signer()

    with Sampler(release, 2) as sampler:
        path = f"/api/v1/namespaces/{release.namespace}/secrets/{release.secret_name}"
        expect(release.cluster.request("PATCH", path, {"data": None}), "emptying the Secret")
        changed = lambda: old not in (release.signer(0), release.signer(1))  # noqa: E731
        wait_for("both to change", changed, 60, release.replicas)

    print(f"{sampler.samples} samples, {len(sampler.refused)} refused")
    assert sampler.refused == []


def test_the_api_server_goes_and_comes(release: Release) -> None:
    """While the API server is away a replica stays ready and says why it waits; afterwards it works on."""
    replica = release.start(0, "--poll=1s")
    release.wait_ready()

    seen: list[dict[str, Any]] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.02):
            seen.append(release.state())

    watcher = threading.Thread(target=look)
    watcher.start()
    release.cluster.restart_apiserver()
    wait_for("the problem to pass", lambda: release.state()["problem"] == "", 60, [replica])
    ended.set()
    watcher.join()

    print(f"{len(seen)} looks at state.json, {sum(bool(state['problem']) for state in seen)} with a problem")
    assert all(state["ready"] for state in seen)
    assert any(state["problem"] for state in seen)
    release.patch({"op": "remove", "path": "/webhooks/1/clientConfig/caBundle"})
    wait_for("the repair", release.accepted, 60, [replica])
    assert replica.alive


def test_a_replica_that_is_cut_off_renews(release: Release) -> None:
    """A replica whose credentials fail goes on renewing from what it knows, and is accepted all the while."""
    replica = release.start(0, "--leaf-lifetime=12s", "--ca-lifetime=1h", "--poll=1s")
    release.wait_ready()
    wait_for("the first CA to sign", lambda: not release.state()["rotating"], 30, [replica])
    token = release.directory / "account" / "token"
    good = token.read_text()

    token.write_text("not-a-token")
    wait_for("the problem", lambda: "401" in release.state()["problem"], 30, [replica])
    leaves = {(release.folder() / "tls.crt").read_bytes()}
    with Sampler(release, 1) as sampler:

        def three() -> bool:
            leaves.add((release.folder() / "tls.crt").read_bytes())
            return len(leaves) == 4

        wait_for("three renewals", three, 60, [replica])
        assert release.state()["ready"] is True
        token.write_text(good)
        wait_for("the problem to pass", lambda: release.state()["problem"] == "", 60, [replica])

    print(f"{sampler.samples} samples, {len(sampler.refused)} refused")
    assert sampler.refused == []


def test_rights_taken_away(release: Release) -> None:
    """A replica that may not write says so in its state and its log, does not end, and goes on once it may."""
    replica = release.start(0, "--poll=1s")
    release.wait_ready()
    path = f"{RBAC}/clusterrolebindings"

    release.cluster.request("DELETE", f"{path}/{release.name}")
    wait_for("the problem", lambda: "forbidden" in release.state()["problem"], 30, [replica])
    release.patch({"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"})
    expect(release.cluster.request("POST", path, release.binding()), "the binding")
    wait_for("the repair", release.accepted, 60, [replica])
    wait_for("the problem to pass", lambda: release.state()["problem"] == "", 60, [replica])

    assert replica.alive


def test_the_token_is_read_again(release: Release) -> None:
    """A token that is refused does not end a replica, and a new one in the file is used at once."""
    token = release.directory / "account" / "token"
    good = token.read_text()
    token.write_text("not-a-token")
    replica = release.start(0, "--poll=1s")
    wait_for("the problem", lambda: "401" in release.state().get("problem", ""), 30, [replica])
    assert not (release.folder() / "tls.crt").exists()

    token.write_text(good)
    release.wait_ready()


def test_a_restarted_container_keeps_its_certificate(release: Release) -> None:
    """The certificate of before a restart is taken up again, also while the API server cannot be reached."""
    replica = release.start()
    release.wait_ready()
    wait_for("the first CA to sign", lambda: not release.state()["rotating"], 30, [replica])
    replica.stop()
    before = {name: (release.folder() / name).read_bytes() for name in ("tls.crt", "tls.key", "state.json")}

    (release.directory / "account" / "token").rename(release.directory / "token")
    (release.directory / "account" / "token").write_text("not-a-token")
    replica = release.start()
    wait_for("a failure", lambda: "401" in replica.log.read_text(), 30, [replica])
    assert {name: (release.folder() / name).read_bytes() for name in before} == before

    shutil.move(release.directory / "token", release.directory / "account" / "token")
    wait_for("nothing to be amiss", lambda: release.run("show").returncode == 0, 30, [replica])
    assert (release.folder() / "tls.crt").read_bytes() == before["tls.crt"]


def test_sigterm_ends_it_at_once(release: Release) -> None:
    """SIGTERM ends the process with code 0 whatever it waits for."""
    replica = release.start(0, "--poll=1h")
    release.wait_ready()

    began = time.monotonic()
    os.kill(replica.pid, 15)
    wait_for("the end", lambda: not replica.alive, 10)
    print(f"ended after {time.monotonic() - began:.3f} s")

    assert "code 0" in replica.report()


def test_show(release: Release) -> None:
    """The exit code of `show` distinguishes an empty Secret, a filled one, and an entry without caBundle."""
    empty = release.run("show")
    assert (empty.returncode, "is empty" in empty.stdout) == (1, True), empty.stdout + empty.stderr
    replica = release.start()
    release.wait_ready()
    wait_for("the CA to sign", lambda: not release.state()["rotating"], 30, [replica])
    replica.stop()

    full = release.run("show", "--output=json")
    assert full.returncode == 0, full.stderr
    assert [row["what"] for row in json.loads(full.stdout)] == ["signing", "entry", "entry"]
    assert release.run("show", f"--dir={release.folder()}").returncode == 0

    release.patch({"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"})
    lacking = release.run("show", "--output=json")
    assert lacking.returncode == 1
    assert [row["good"] for row in json.loads(lacking.stdout)] == [True, False, True]
