"""No webhook call is lost: pods are asked for all the time while certificates and replicas change under them.

Two replicas of the chart stand behind the relay that plays their Service. Overlap and lame-duck time are 5 s here,
by the chart's own values. Each test prints what was asked for and what was lost; how fast is never asserted.
"""

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.background import Background
from tests.support.chart import at, merged
from tests.support.checkout import ACCEL

from .chart import RELAY, Release, bundles, create, install
from .conftest import build
from .controlplane import PROGRAMS, ControlPlane, Launch, expect
from .kubelet import RunningPod
from .load import Failure, Load, calls, injected
from .process import free_port

# The API server waits long: a busy machine must not look like a lost call.
VALUES = merged(at("webhook.lameDuckSeconds", 5), at("webhook.timeoutSeconds", 30), at("tls.overlap", "5s"))
ROLL_SECONDS = 180  # of two replicas on a busy machine
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
CALLED = "failed calling webhook"  # what the API server says of a call that nobody answered as they should


@pytest.fixture(scope="module")
def plane(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module's own: its webhooks would be called for what other tests create."""
    build(pytestconfig, *PROGRAMS, "helm")
    with ControlPlane(tmp_path_factory.mktemp("lost")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def release(plane: ControlPlane) -> Iterator[Release]:
    """Two replicas; every test leaves two."""
    with install(plane, values=VALUES) as release:
        release.run_pods(2, ROLL_SECONDS)
        yield release


@contextmanager
def no_call_lost(plane: ControlPlane, namespace: str, what: str) -> Iterator[Load]:
    """Load for the length of a `with`, of which nothing may be lost."""
    with Load(plane, namespace) as load:
        yield load
    print(f"\n{what}: {load.sentence}")
    assert load.failures == []
    assert load.unreached == []
    assert load.calls.failed == 0
    assert load.calls.made >= load.answers > 0


def more(load: Load, release: Release, count: int) -> None:
    """Until so many further pods were answered."""
    wanted = load.answers + count
    release.wait_for(f"{count} more pods", lambda: load.answers >= wanted, ROLL_SECONDS)


def used_certificates(pod: RunningPod) -> int:
    """How many certificates a replica has served with, by its own log."""
    return (pod.root / "webhook.log").read_text().count('"certificate in use"')


def state(pod: RunningPod) -> dict[str, Any]:
    """What the certificates' container says."""
    found: dict[str, Any] = json.loads((pod.volume("tls") / "state.json").read_text())
    return found


def test_one_replica_restarted(plane: ControlPlane, release: Release, labelled: str) -> None:
    """SIGTERM to one of two; a kubelet's new process takes its place."""
    pod = release.pods[0]
    with no_call_lost(plane, labelled, "one replica restarted") as load:
        more(load, release, 50)
        pod.processes["webhook"].signal(signal.SIGTERM)
        release.wait_for("its end and its successor", lambda: pod.restarts.get("webhook") == 1, ROLL_SECONDS)
        release.run_pods(2, ROLL_SECONDS)
        more(load, release, 50)
    assert '"cut_off":0' in (pod.root / "webhook.log").read_text().replace(" ", "")


def test_both_replicas_replaced(plane: ControlPlane, release: Release, labelled: str) -> None:
    """`kubectl rollout restart`: one after the other goes, and its successor comes first."""
    old = {pod.name for pod in release.pods}
    with no_call_lost(plane, labelled, "both replicas replaced") as load:
        more(load, release, 50)
        plane.kubectl("rollout", "restart", "deployment", release.fullname, "--namespace", release.namespace)
        release.run_pods(2, ROLL_SECONDS)
        more(load, release, 50)
    assert not old & {pod.name for pod in release.pods}


def test_one_replica_killed(plane: ControlPlane, release: Release, labelled: str) -> None:
    """SIGKILL to one of two: what fails was asked for before the relay had dropped it, and nothing after that."""
    pod = release.pods[0]
    with Load(plane, labelled) as load:
        more(load, release, 50)
        killed = load.now
        pod.processes["webhook"].signal(signal.SIGKILL)
        pod.processes["webhook"].reap(5)
        plane.wait_for("the relay to drop it", lambda: pod.ports["https"] not in routed(release))
        dropped = load.now
        more(load, release, 50)
        release.run_pods(2, ROLL_SECONDS)
        more(load, release, 50)
    print(f"\none replica killed, dropped after {dropped - killed:.1f} s: {load.sentence}")
    assert [failure for failure in load.failures if failure.began > dropped or CALLED not in failure.message] == []
    assert load.unreached == []


def routed(release: Release) -> list[int]:
    """The ports that the relay passes connections to."""
    found: list[int] = json.loads((release.directory / "backends.ready").read_text())
    return found


def test_a_cleared_bundle(plane: ControlPlane, release: Release, labelled: str) -> None:
    """Somebody takes the caBundle of pods.accel.io away: calls fail for want of trust, until it is written again."""
    before = bundles(release)
    index = list(before).index("pods.accel.io")
    operation = {"op": "remove", "path": f"/webhooks/{index}/clientConfig/caBundle"}
    with Load(plane, labelled) as load:
        more(load, release, 50)
        cleared = load.now
        path = f"{CONFIGURATIONS}/{release.fullname}"
        answer = plane.request("PATCH", path, [operation], content="application/json-patch+json")
        assert "caBundle" not in expect(answer, "clearing")["webhooks"][index]["clientConfig"]
        plane.wait_for("the repair", lambda: bundles(release) == before)
        repaired = load.now
        release.wait_for("calls to go well again", lambda: well(load, 200), ROLL_SECONDS)
    last = max((failure.ended for failure in load.failures), default=cleared)
    print(
        f"\ncaBundle cleared, there again after {repaired - cleared:.2f} s, "
        f"last failure after {last - cleared:.2f} s: {load.sentence}"
    )
    assert [failure for failure in load.failures if not untrusted(failure)] == []
    assert load.unreached == []


def well(load: Load, count: int) -> bool:
    """Whether so many pods were answered since the last failure."""
    answers, failures = load.answers, len(load.failures)
    end = time.monotonic() + 60
    while load.answers < answers + count and len(load.failures) == failures and time.monotonic() < end:
        time.sleep(0.05)
    return len(load.failures) == failures


def untrusted(failure: Failure) -> bool:
    """A call that the API server itself broke off, since nobody had signed for the certificate."""
    return CALLED in failure.message and "x509" in failure.message


def test_api_server_restarted(plane: ControlPlane, release: Release, labelled: str) -> None:
    """While it is away nobody is asked; what is asked before and after is answered, and no replica turns unready."""
    start = calls(plane)
    with Load(plane, labelled) as load, Readiness(release) as readiness:
        more(load, release, 50)
        before = calls(plane) - start
        plane.restart_apiserver()
        more(load, release, 200)
    print(f"\nAPI server restarted: {load.sentence}; {readiness.looks} looks at readiness, {readiness.unready} unready")
    assert load.unreached, "it was not away"
    assert before.failed == 0
    assert load.calls.failed == 0
    # An API server that is about to end may refuse; it must not store what was not injected.
    assert [failure for failure in load.failures if CALLED in failure.message or failure.status == 201] == []
    assert readiness.looks > 0
    assert readiness.unready == []
    release.run_pods(2, ROLL_SECONDS)
    assert [process.alive for pod in release.pods for process in pod.processes.values()] == [True] * 4


class Readiness(Background):
    """Looks all the time, from a thread, whether each replica says that it is ready."""

    def __init__(self, release: Release) -> None:
        self.looks = 0
        self.unready: list[str] = []
        self._urls = [pod.probe("readinessProbe") for pod in release.pods]
        super().__init__(self._look)

    def _look(self) -> None:
        while not self.over.wait(0.1):
            for url in self._urls:
                self.looks += 1
                try:
                    urllib.request.urlopen(url, timeout=30).close()
                except urllib.error.HTTPError as error:
                    self.unready.append(error.read().decode())


def test_serve_has_no_token(release: Release) -> None:
    """The process that reads other people's bytes: no token, no CA key, in its files, arguments and environment."""
    assert (
        release.cluster.get(f"/api/v1/namespaces/{release.namespace}/serviceaccounts/{release.fullname}")[
            "automountServiceAccountToken"
        ]
        is False
    )
    for pod in release.pods:
        assert pod.object["spec"]["automountServiceAccountToken"] is False
        token = (pod.volume("api-access") / "token").read_bytes()
        webhook, certs = pod.containers
        assert (webhook["name"], certs["name"]) == ("webhook", "certs")
        folders = [pod.volume(mount["name"]) for mount in webhook["volumeMounts"]]
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        assert {"tls.crt", "state.json", "config.yaml"} <= {path.name for path in files}
        assert [path for path in files if token in path.read_bytes() or path.name in ("token", "ca.key")] == []
        process = Path(f"/proc/{pod.processes['webhook'].pid}")
        for what in ("environ", "cmdline"):
            text = (process / what).read_bytes()
            assert text
            assert token not in text
            assert b"serviceaccount" not in text
        assert "env" not in webhook


def test_service_account_wrote_nothing_else(plane: ControlPlane, release: Release) -> None:
    """By the audit log of all the tests above: two objects, changed, and nothing that was forbidden."""
    user = f"system:serviceaccount:{release.namespace}:{release.fullname}"
    events = [event for event in plane.audit() if event["user"]["username"] == user]
    done = {(e["verb"], e["objectRef"]["resource"], e["objectRef"]["name"]) for e in events}
    print(f"\n{len(events)} writes of the service account")
    assert done == {
        ("update", "secrets", f"{release.fullname}-ca"),
        ("patch", "mutatingwebhookconfigurations", release.fullname),
    }
    # A Secret or a configuration that another replica was quicker with is a conflict, and nothing worse.
    assert {event["responseStatus"]["code"] for event in events} <= {200, 409, 422}


@pytest.mark.soak
def test_five_cas(plane: ControlPlane, release: Release, labelled: str) -> None:
    """`accel certs rotate`, five times: both replicas serve with each new CA."""
    command = [ACCEL, "certs", "rotate", f"--namespace={release.namespace}", f"--kubeconfig={plane.kubeconfig}"]
    start = [state(pod)["rotations"] for pod in release.pods]
    with no_call_lost(plane, labelled, "five CAs, two replicas") as load:
        for number in range(1, 6):
            release.wait_for("rotate to be taken: the one before must be over", taken(command))
            wanted = [count + number for count in start]
            release.wait_for(f"CA {number}", rotated(release, wanted), ROLL_SECONDS)
        more(load, release, 50)


def taken(command: list[str]) -> Callable[[], bool]:
    """Whether the command succeeds: in the first overlap of an installation there is no CA to rotate yet."""
    return lambda: subprocess.run(command, check=False, capture_output=True).returncode == 0


def rotated(release: Release, wanted: list[int]) -> Callable[[], bool]:
    """Whether each replica has seen so many CAs and serves with the last."""

    def look() -> bool:
        states = [state(pod) for pod in release.pods]
        signers = {s["leafAuthority"] for s in states}
        return [s["rotations"] for s in states] == wanted and all(s["ready"] for s in states) and len(signers) == 1

    return look


@pytest.mark.soak
def test_twenty_leaves(plane: ControlPlane, release: Release, labelled: str) -> None:
    """Leaves that live 18 s: the two replicas serve with 20 new ones."""
    release.upgrade(merged(VALUES, at("tls.leafLifetime", "18s")))
    release.run_pods(2, ROLL_SECONDS)
    with no_call_lost(plane, labelled, "20 leaves") as load:
        start = sum(used_certificates(pod) for pod in release.pods)
        release.wait_for("20 leaves", lambda: sum(used_certificates(pod) for pod in release.pods) >= start + 20, 600)
        more(load, release, 50)
    release.upgrade(VALUES)
    release.run_pods(2, ROLL_SECONDS)


RELAYS, ROUNDS, PAUSE_SECONDS, DELAY_SECONDS = 8, 30, 5.0, 0.002


@pytest.mark.soak
def test_calls_five_seconds_apart(plane: ControlPlane, release: Release) -> None:
    """8 relays that take 2 ms either way, 30 calls through each, 5 s apart: no connection ends under a call.

    Servers often close idle connections after 5 s, just when the next call is on its way.
    """
    namespace = plane.namespace({"example.com/delayed": "yes"})
    with ExitStack() as stack:
        stack.callback(plane.delete_namespace, namespace)
        ports = [stack.enter_context(delayed(release, number)) for number in range(RELAYS)]
        path = f"{CONFIGURATIONS}/delayed"
        expect(plane.request("POST", CONFIGURATIONS, configuration(release, ports)), "the configuration")
        stack.callback(plane.request, "DELETE", path)
        plane.wait_for("the API server to call them", lambda: injected(create(plane, namespace).body))
        answers = []
        for _ in range(ROUNDS):
            time.sleep(PAUSE_SECONDS)
            answers.append(create(plane, namespace))
        made = [plane.webhook_histogram(entry(number)).count for number in range(RELAYS)]
    lost = [answer.body for answer in answers if not answer.ok or not injected(answer.body)]
    print(f"\n{RELAYS} relays, {min(made)} to {max(made)} calls through each, {len(lost)} of {ROUNDS} pods lost")
    assert lost == []
    assert min(made) >= ROUNDS


def entry(number: int) -> str:
    """Name of one relay's entry."""
    return f"relay{number}.delayed.example.com"


@contextmanager
def delayed(release: Release, number: int) -> Iterator[int]:
    """The port of one more relay to the release's replicas, a slow one."""
    backends = release.directory / f"delayed-{number}.json"
    backends.write_text((release.directory / "backends.json").read_text())
    ports: list[int] = []

    def attempt() -> Launch:
        ports.append(free_port())
        command = [sys.executable, str(RELAY), str(ports[-1]), str(backends), str(DELAY_SECONDS)]
        return Launch(command, lambda: bool(json.loads(read(backends.with_suffix(".ready")))))

    relay = release.cluster.launch(f"delayed-{number}-{release.namespace}", attempt)
    yield ports[-1]
    release.cluster.end(relay)


def read(path: Path) -> str:
    """A list that may not be there yet."""
    return path.read_text() if path.exists() else "[]"


def configuration(release: Release, ports: list[int]) -> dict[str, Any]:
    """One entry for each relay: the chart's Service and what it is trusted by, at another port."""
    trust = bundles(release)["pods.accel.io"]
    service = {"name": release.fullname, "namespace": release.namespace, "path": "/mutate"}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    hooks = [
        {
            "name": entry(number),
            "clientConfig": {"service": {**service, "port": port}, "caBundle": trust},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"example.com/delayed": "yes"}},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 30,
            "admissionReviewVersions": ["v1"],
        }
        for number, port in enumerate(ports)
    ]
    return {"metadata": {"name": "delayed"}, "webhooks": hooks}
