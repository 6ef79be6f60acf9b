"""The chart on a test cluster: installed by the real Helm, its pods run as processes with the chart's own arguments.

    with install(cluster, values={"logLevel": "debug"}) as release:
        release.run_pods(2)                  # until two replicas are ready; call it again after an upgrade
        release.pods[0].processes["webhook"].signal(signal.SIGKILL)
        release.sync()                       # one step of what kubelets do; run_pods repeats it
        release.upgrade({"replicas": 3}); release.rollback(); release.uninstall()

Only the Service is not as it is shipped: its type is ExternalName (see the text of controlplane.py) and its port that
of a relay on loopback, which passes connections to the pods that are ready. Pods are not given to a node, so that
nobody else reports on them. Install once at a time on one cluster: every installation's webhooks see every labelled
namespace.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.support.chart import CHART, PLATFORM, merged

from .controlplane import ControlPlane, Launch, expect
from .kubelet import Kubelet, RunningPod
from .process import ClusterError, Process, free_port
from .rest import Answer

RELAY = Path(__file__).with_name("relay.py")
NOWHERE = {"nodeSelector": {"example.com/run-by": "tests"}}
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
READY_SECONDS = 120
SYNC_SECONDS = 0.15  # each step asks the API server a few times
INJECTED = {"accel.io/injection": "enabled"}
KEY = {"accel.io/type": "tpu-v4-8"}

T = TypeVar("T")


class Release:
    """One installation. Ends, with its namespace, at the end of a `with`."""

    def __init__(self, cluster: ControlPlane, name: str, namespace: str) -> None:
        self.cluster = cluster
        self.name = name
        self.namespace = namespace
        self.directory = cluster.directory / namespace
        self.directory.mkdir()
        self.chart = self.directory / "chart"
        self.port = 0
        self._backends = self.directory / "backends.json"
        self._routed = self._backends.with_suffix(".ready")
        self._backends.write_text("[]")
        self._relay = self._start_relay()
        loopback_copy(self.chart, self.port)
        self.kubelet = Kubelet(cluster, namespace, f"app.kubernetes.io/instance={name}", self.directory / "pods")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # --- helm ------------------------------------------------------------------------------------------------------

    def helm(self, *args: str, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        """Run helm in the release's namespace, with values where they are given."""
        given = [] if values is None else ["--values", "-"]
        text = None if values is None else json.dumps(merged(PLATFORM, NOWHERE, values))
        return self.cluster.helm(*args, "--namespace", self.namespace, *given, input=text)

    def upgrade(self, values: Mapping[str, Any] | None = None, *args: str) -> None:
        """helm upgrade to these values alone."""
        self.helm("upgrade", self.name, str(self.chart), *args, values=values or {})

    def rollback(self, revision: int = 0, *args: str) -> None:
        """helm rollback; 0 is the revision before."""
        self.helm("rollback", self.name, *([str(revision)] if revision else []), *args)

    def uninstall(self, *args: str) -> None:
        self.helm("uninstall", self.name, *args)

    # --- pods ------------------------------------------------------------------------------------------------------

    @property
    def pods(self) -> list[RunningPod]:
        """The pods that run, by name."""
        return [self.kubelet.pods[name] for name in sorted(self.kubelet.pods)]

    @property
    def deployment(self) -> dict[str, Any]:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{self.fullname}"
        found: dict[str, Any] = self.cluster.get(path)
        return found

    @property
    def fullname(self) -> str:
        """The name of the Deployment, the Service and the webhook configuration."""
        return self.name if "accel-injector" in self.name else f"{self.name}-accel-injector"

    @property
    def webhook_configuration(self) -> dict[str, Any]:
        kind = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        found: dict[str, Any] = self.cluster.get(f"{kind}/{self.fullname}")
        return found

    def run_pods(self, count: int, seconds: float = READY_SECONDS) -> None:
        """Play the kubelets until the Deployment has rolled out: `count` pods of its newest template, all ready."""

        def rolled_out() -> bool:
            deployment = self.deployment
            status = deployment["status"]
            numbers = (status.get("replicas"), status.get("updatedReplicas"), status.get("availableReplicas"))
            seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
            ports = sorted(pod.ports["https"] for pod in self.pods)
            ours = not self.kubelet.ending and sorted(json.loads(self._routed.read_text())) == ports
            # A pod that is being deleted is not counted any more, and still runs here.
            return seen and numbers == (count,) * 3 and len(ports) == count and ours

        try:
            self.wait_for(f"{count} pods of {self.fullname} to be ready", rolled_out, seconds)
        except ClusterError as error:
            logs = [process.tail() for pod in self.pods for process in pod.processes.values()]
            raise ClusterError("\n".join([str(error), *logs])) from None

    def wait_for(self, what: str, probe: Callable[[], T], seconds: float = READY_SECONDS) -> T:
        """Play the kubelets until `probe` returns something true, and return that."""

        def step() -> T:
            self.sync()
            time.sleep(SYNC_SECONDS)
            return probe()

        return self.cluster.wait_for(what, step, seconds)

    def sync(self) -> None:
        """One step of the kubelets, and of the Service's endpoints."""
        self.kubelet.sync()
        backends = [{"port": p.ports["https"], "ready": p.probe("readinessProbe")} for p in self.pods]
        text = json.dumps(backends)
        if text != self._backends.read_text():
            new = self._backends.with_suffix(".new")
            new.write_text(text)
            new.replace(self._backends)

    def close(self) -> None:
        """End the processes, remove the release and its namespace."""
        self.kubelet.close()
        self.cluster.end(self._relay)
        self.cluster.helm("uninstall", self.name, "--namespace", self.namespace, "--ignore-not-found", check=False)
        self.cluster.delete_namespace(self.namespace)

    def _start_relay(self) -> Process:
        def attempt() -> Launch:
            self.port = free_port()
            command = [sys.executable, str(RELAY), str(self.port), str(self._backends)]
            return Launch(command, self._routed.exists)

        return self.cluster.launch(f"relay-{self.namespace}", attempt)


def install(
    cluster: ControlPlane,
    name: str = "accel-injector",
    namespace: str = "",
    values: Mapping[str, Any] | None = None,
    edit: Callable[[Path], None] = lambda chart: None,
) -> Release:
    """helm install; without a namespace, into one of its own that admits restricted pods alone.

    `edit` may change the copy of the chart before it is installed.
    """
    release = Release(cluster, name, namespace or cluster.namespace(RESTRICTED, prefix="accel-system"))
    try:
        edit(release.chart)
        release.helm("install", name, str(release.chart), values=values or {})
    except BaseException:
        release.close()
        raise
    return release


def loopback_copy(target: Path, port: int) -> None:
    """Copy the chart, with a Service that leads to a loopback port."""
    shutil.copytree(CHART, target)
    replace(
        target / "templates" / "service.yaml", "  type: ClusterIP", "  type: ExternalName\n  externalName: localhost"
    )
    replace(target / "templates" / "service.yaml", "port: 443", f"port: {port}")
    replace(target / "templates" / "_helpers.tpl", "port: 443", f"port: {port}")


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1, f"{file.name} has {text.count(old)} of {old!r}: the copy for tests needs one"
    file.write_text(text.replace(old, new))


def create(cluster: ControlPlane, namespace: str, annotations: Mapping[str, str] = KEY, name: str = "a") -> Answer:
    """Ask for a pod, dry run."""
    body = {
        "metadata": {"name": name, "annotations": dict(annotations)},
        "spec": {"containers": [{"name": "main", "image": "example.invalid/main"}]},
    }
    return cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body, {"dryRun": "All"})


def chips(answer: Answer) -> str | None:
    """The TPU limit of the pod as it would be stored."""
    limits: dict[str, str] = expect(answer, "a pod")["spec"]["containers"][0].get("resources", {}).get("limits", {})
    return limits.get("google.com/tpu")


def bundles(release: Release) -> dict[str, str]:
    """caBundle by entry."""
    return {w["name"]: w["clientConfig"].get("caBundle", "") for w in release.webhook_configuration["webhooks"]}
