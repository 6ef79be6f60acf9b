"""The pages' commands for a cluster, run as they stand: by a shell, in the page's order, on a real API server.

Each page begins in a state of its own: without the chart where the page installs it, else with it; the namespace team-a
is there unless the page makes it. `charts/accel-injector` is a copy whose Service leads to loopback (chart.py).
"""

import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import page
from tests.support.checkout import ROOT
from tests.support.page import Command

from . import binaries
from .chart import Release, replace
from .conftest import build
from .controlplane import PROGRAMS, ControlPlane
from .kubelet import Kubelet
from .nodes import rows

NAMESPACE, TEAM = "accel-system", "team-a"
REVIEWS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/accel-injector"
PAGES = [path for path in page.PAGES if any(block.info == "console (cluster)" for block in page.of_page(path))]
SECONDS = 120  # of one command


class Shell:
    """The user's terminal, in a folder that looks like the checkout; the kubelets are played while a command runs."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self.folder = release.directory / "checkout"
        (self.folder / "charts").mkdir(parents=True)
        (self.folder / "charts" / "accel-injector").symlink_to(release.chart)
        (self.folder / "examples").symlink_to(ROOT / "examples")
        programs = {binaries.ensure(name).parent for name in ("helm", "kubectl")}
        environment = page.environment(KUBECONFIG=str(release.cluster.kubeconfig), HOME=str(self.folder))
        path = ":".join([*map(str, programs), environment["PATH"]])
        self.environment = {k: v for k, v in environment.items() if "proxy" not in k.lower()} | {"PATH": path}
        tests = "app.kubernetes.io/name=accel-injector-test"
        self._tests = Kubelet(release.cluster, NAMESPACE, tests, release.directory / "tests")

    def run(self, command: Command) -> None:
        """Run it to its end, which must be a good one, and let what it started come up."""
        print(f"$ {command.text}")
        done = self._finish(command.text)
        print(done.stdout)
        assert done.returncode == 0, f"{command.text}\n{done.stdout}"
        assert command.printed in ("", done.stdout)
        if command.text.startswith(("helm install", "helm upgrade")):
            self.serve()

    def serve(self) -> None:
        """Until both replicas are ready and trusted, and the first CA has become the signing one."""
        self.release.run_pods(2)
        self.release.wait_for("every caBundle, and the CA", lambda: self._trusted() and self._signing())

    def close(self) -> None:
        self._tests.close()

    def _finish(self, text: str) -> "subprocess.CompletedProcess[str]":
        command = ["bash", "-o", "pipefail", "-c", text]
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        stopwatch = threading.Timer(SECONDS, process.kill)
        stopwatch.start()
        printed: list[str] = []
        reader = threading.Thread(target=lambda: printed.append(process.communicate()[0]))
        reader.start()
        while reader.is_alive():
            if not text.startswith("helm uninstall"):  # pods outlive their ConfigMap, which only real kubelets keep
                self.release.sync()
                self._tests.sync()
            reader.join(0.1)
        stopwatch.cancel()
        return subprocess.CompletedProcess(command, process.returncode, "".join(printed))

    def _trusted(self) -> bool:
        answer = self.release.cluster.request("GET", REVIEWS)
        return answer.ok and all(w["clientConfig"].get("caBundle") for w in answer.body["webhooks"])

    def _signing(self) -> bool:
        secret = self.release.cluster.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/accel-injector-ca")
        return bool(secret.get("data", {}).get("ca.key"))


@pytest.fixture(scope="module")
def plane(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of this module's own, with nodes for the types of pages and the one that kind has."""
    build(pytestconfig, *PROGRAMS, "helm")
    with ControlPlane(tmp_path_factory.mktemp("docs")) as cluster:
        cluster.fake_nodes(rows())
        cluster.fake_node("kind-control-plane")
        yield cluster


@pytest.fixture
def shell(plane: ControlPlane) -> Iterator[Shell]:
    """A terminal; what a page left is gone after it."""
    with Release(plane, "accel-injector", NAMESPACE) as release:
        replace(release.chart / "values.yaml", "nodeSelector: {}", "nodeSelector: {example.com/run-by: tests}")
        replace(release.chart / "values.yaml", "overlap: 2m", "overlap: 1s")
        opened = Shell(release)
        yield opened
        opened.close()
    plane.kubectl("delete", "namespace", NAMESPACE, TEAM, "--ignore-not-found", "--timeout=60s")
    shutil.rmtree(release.directory)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_of_a_page(plane: ControlPlane, shell: Shell, path: Path) -> None:
    """Every one ends well, from the first to the last."""
    blocks = [block for block in page.of_page(path) if block.info == "console (cluster)"]
    every = [command for block in blocks for command in page.commands(block)]
    if not any(command.text.startswith(f"kubectl create namespace {TEAM}") for command in every):
        plane.kubectl("create", "namespace", TEAM)
    if not any(command.text.startswith("helm install accel-injector ") for command in every):
        install = "helm install accel-injector charts/accel-injector --set config.platform=gke"
        shell.run(Command(f"{install} -n {NAMESPACE} --create-namespace", ""))
    for command in every:
        shell.run(command)
