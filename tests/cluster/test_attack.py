"""No object of one namespace delays another: one attacks, and another's Pods are created as usual.

Two replicas of the chart stand behind the relay that plays their Service, with the chart's own timeout. The attacker is
an account with every right in its namespace. `make attack` goes on for a minute a row, and does the same to a webhook
that answers everything with one constant: what is slow there too is the API server's share, or the machine's.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.process import peak_memory

from . import constant
from .attack import ROWS, Objects, Silence
from .chart import INJECTED, RELAY, Release, install
from .conftest import build
from .controllers import JOBSET, LWS, rendered
from .controlplane import PROGRAMS, ControlPlane, Launch, expect
from .crd import ANYTHING, crd
from .kubelet import RunningPod
from .load import POD, Load, calls, injected
from .process import Process, answers, free_port

SECONDS, SOAK_SECONDS = 3, 60
REPLICAS = 2
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
SILENCE, NOTHING = "silent connections", "nothing"
LIBRARIES = [{"hostPath": "/opt/drivers", "mountPath": "/opt/drivers"}]
PROFILE = {"types": ["nvidia-*"], "modes": ["plugin"], "namespaces": ["*"], "libraries": LIBRARIES}
CONFIG = {"detect": ["nvidia.com/gpu"], "hostProfiles": {"drivers": PROFILE}, "tpu": {"environment": "full"}}
VALUES = {"config": CONFIG}
SCHEMALESS = (("batch.volcano.sh/v1alpha1", "Job"), ("ray.io/v1", "RayCluster"))


@dataclass(frozen=True)
class Target:
    """A webhook with two replicas: who attacks it, who is to notice nothing, and its processes by their ports."""

    name: str
    good: str
    bad: str
    processes: dict[int, Process]

    def fine(self, pod: Any) -> bool:
        """Whether a Pod came back as this webhook makes it."""
        if self.name == "constant":
            return bool(pod["metadata"].get("labels") == constant.LABELS)
        return injected(pod)

    @property
    def mebibytes(self) -> int:
        """The most memory that one of its living processes ever held; 0 where there is no /proc to read it from."""
        if not Path("/proc/self/status").exists():
            return 0
        return max((peak_memory(process.pid) for process in self.processes.values() if process.alive), default=0)


@pytest.fixture(scope="module")
def plane(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module's own, with the kinds' CRDs and without their controllers."""
    build(pytestconfig, *PROGRAMS, "helm", "jobset", "lws")
    with ControlPlane(tmp_path_factory.mktemp("attack")) as cluster:
        for project in (JOBSET, LWS):
            cluster.install_crds(*rendered(cluster, project.tool)[0])
        cluster.install_crds(*(crd(version, kind, ANYTHING) for version, kind in SCHEMALESS))
        yield cluster


@pytest.fixture(scope="module")
def release(plane: ControlPlane) -> Iterator[Release]:
    """The chart, with two replicas."""
    with install(plane, values=VALUES) as release:
        release.run_pods(REPLICAS)
        yield release


@pytest.fixture(scope="module")
def ours(plane: ControlPlane, release: Release) -> Iterator[Target]:
    """Us."""
    processes = {pod.ports["https"]: pod.processes["webhook"] for pod in release.pods}
    with namespaces(plane, INJECTED) as (good, bad):
        yield Target("ours", good, bad, processes)


@pytest.fixture(scope="module")
def theirs(plane: ControlPlane, release: Release) -> Iterator[Target]:
    """The webhook that answers with a constant, behind a relay of its own, by entries like ours."""
    processes, urls = {}, {}
    for number, pod in enumerate(release.pods):
        port, url, process = start_constant(plane, pod, number)
        processes[port], urls[port] = process, url
    backends = plane.directory / "constant.json"
    backends.write_text(json.dumps([{"port": port, "ready": url} for port, url in urls.items()]))
    relay = start_relay(plane, backends)
    hooks = [redirected(hook, relay) for hook in release.webhook_configuration["webhooks"]]
    expect(plane.request("POST", CONFIGURATIONS, {"metadata": {"name": "constant"}, "webhooks": hooks}), "the entries")
    with namespaces(plane, constant.LABELS) as (good, bad):
        target = Target("constant", good, bad, processes)
        path = f"/api/v1/namespaces/{good}/pods"
        plane.wait_for(
            "the API server to call it", lambda: target.fine(plane.request("POST", path, POD, {"dryRun": "All"}).body)
        )
        yield target


def redirected(hook: dict[str, Any], port: int) -> dict[str, Any]:
    """The same entry for the constant's namespaces, by another port of the chart's Service."""
    client = hook["clientConfig"]
    return {
        **hook,
        "name": f"constant.{hook['name']}",
        "namespaceSelector": {"matchLabels": constant.LABELS},
        "clientConfig": {**client, "service": {**client["service"], "port": port}},
    }


@contextmanager
def namespaces(plane: ControlPlane, labels: dict[str, str]) -> Iterator[tuple[str, str]]:
    """One for Pods that are created as ever, and the attacker's."""
    good, bad = (plane.namespace(labels, prefix=prefix) for prefix in ("good", "bad"))
    yield good, bad
    for name in (good, bad):
        plane.delete_namespace(name)


def start_constant(plane: ControlPlane, pod: RunningPod, number: int) -> tuple[int, str, Process]:
    """One replica, with the certificate of one of ours: its port, its readiness URL, its process."""
    ports: list[int] = []
    files = [f"--{flag}-file={pod.volume('tls') / name}" for flag, name in (("cert", "tls.crt"), ("key", "tls.key"))]

    def attempt() -> Launch:
        ports[:] = [free_port(), free_port()]
        module = [sys.executable, "-m", "tests.cluster.constant"]
        command = [*module, f"--port={ports[0]}", f"--metrics-port={ports[1]}", *files]
        return Launch(command, lambda: answers(f"http://127.0.0.1:{ports[1]}/readyz"))

    process = plane.launch(f"constant-{number}", attempt)
    return ports[0], f"http://127.0.0.1:{ports[1]}/readyz", process


def start_relay(plane: ControlPlane, backends: Path) -> int:
    """A relay to these backends; its port."""
    ports: list[int] = []
    ready = backends.with_suffix(".ready")

    def attempt() -> Launch:
        ports[:] = [free_port()]
        command = [sys.executable, str(RELAY), str(ports[0]), str(backends)]
        return Launch(command, lambda: ready.exists() and len(json.loads(ready.read_text())) == REPLICAS)

    plane.launch("relay-constant", attempt)
    return ports[0]


def attacked(plane: ControlPlane, target: Target, row: str, seconds: float) -> None:
    """Load under one row's attack: nothing of it may be lost, and nothing of the attack may go unanswered."""
    sender = attack(plane, target, row)
    before = calls(plane)
    with Load(plane, target.good, target.fine) as load, sender:
        time.sleep(seconds)
    made = calls(plane) - before
    machine = f"load average {os.getloadavg()[0]:.1f}"
    print(f"\n{row}, {target.name}: {report(load)}; {target.mebibytes} MiB; {machine}; {sender.sentence}")
    assert sender.failures == []
    assert load.failures == []
    assert load.unreached == []
    assert made.failed == 0
    assert made.made >= load.answers + sender.answers
    assert [process.alive for process in target.processes.values()] == [True] * REPLICAS


def attack(plane: ControlPlane, target: Target, row: str) -> Objects | Silence:
    """Who sends a row; NOTHING is nobody, for comparison."""
    if row == SILENCE:
        return Silence(list(target.processes))
    return Objects(plane, target.bad, ROWS[row](plane, target.bad) if row != NOTHING else [])


def report(load: Load) -> str:
    """The good namespace's side, in one line."""
    p50, p99 = (f"{load.latency(share) * 1000:.0f}" for share in (0.5, 0.99))
    rate = f"{load.answers / load.seconds:.0f}/s"
    return f"{load.answers} pods ({rate}), {len(load.failures)} failed, p50 {p50} ms, p99 {p99} ms"


@pytest.mark.parametrize("row", [*ROWS, SILENCE])
def test_nobody_else_pays(plane: ControlPlane, release: Release, ours: Target, row: str) -> None:
    """Seconds of each row: no call of the other namespace fails, and no replica outgrows the chart's limit."""
    attacked(plane, ours, row, SECONDS)
    assert ours.mebibytes < limit(release)


@pytest.mark.attack
@pytest.mark.parametrize("row", [NOTHING, *ROWS, SILENCE])
def test_nobody_else_pays_for_a_minute(
    plane: ControlPlane, release: Release, ours: Target, theirs: Target, row: str
) -> None:
    """The same for a minute, and beside it the constant's figures."""
    for target in (ours, theirs):
        attacked(plane, target, row, SOAK_SECONDS)
    assert ours.mebibytes < limit(release)


def limit(release: Release) -> int:
    """MiB that the chart lets a replica have: the kernel would end it there."""
    text: str = release.pods[0].containers[0]["resources"]["limits"]["memory"]
    return int(text.removesuffix("Mi"))
