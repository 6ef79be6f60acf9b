"""Fixtures of the cluster tests: a control plane a run, a namespace a test, controllers on demand."""

from collections.abc import Iterator

import pytest

from . import binaries, chart, controllers, kubeflow, kueue
from .controlplane import PROGRAMS, ControlPlane
from .nodes import rows


def build(config: pytest.Config, *programs: str) -> None:
    """Build what is not cached, with its progress on the terminal: the first run takes minutes."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        for program in programs:
            binaries.ensure(program)


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane, started once a run; its logs stay in pytest's temporary folder."""
    build(pytestconfig, *PROGRAMS)
    with ControlPlane(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def namespace(cluster: ControlPlane) -> Iterator[str]:
    """A namespace of the test's own, labelled accel.io/injection: enabled."""
    name = cluster.namespace({"accel.io/injection": "enabled"})
    yield name
    cluster.delete_namespace(name)


@pytest.fixture
def labelled(plane: ControlPlane) -> Iterator[str]:
    """The same on a control plane that a module has for itself."""
    name = plane.namespace(chart.INJECTED)
    yield name
    plane.delete_namespace(name)


@pytest.fixture(scope="session")
def nodes(cluster: ControlPlane) -> None:
    """The fake nodes of nodes.yaml."""
    cluster.fake_nodes(rows())


@pytest.fixture(scope="session")
def jobset_controller(cluster: ControlPlane, pytestconfig: pytest.Config) -> None:
    """The JobSet controller, its CRD and its webhooks."""
    build(pytestconfig, "helm", "jobset")
    controllers.start(cluster, controllers.JOBSET)


@pytest.fixture(scope="session")
def lws_controller(cluster: ControlPlane, pytestconfig: pytest.Config) -> None:
    """The LeaderWorkerSet controller, its CRD and its webhooks."""
    build(pytestconfig, "helm", "lws")
    controllers.start(cluster, controllers.LWS)


@pytest.fixture(scope="session")
def kueue_controller(cluster: ControlPlane, pytestconfig: pytest.Config) -> None:
    """Kueue for Jobs, JobSets, Ray and Kubeflow kinds (those whose CRDs are there), with its webhooks for them."""
    build(pytestconfig, "helm", "kueue")
    kueue.start_kueue(cluster)


@pytest.fixture(scope="session")
def kuberay_operator(cluster: ControlPlane, pytestconfig: pytest.Config) -> None:
    """The KubeRay operator and its CRDs."""
    build(pytestconfig, "kuberay")
    controllers.start_kuberay(cluster)


@pytest.fixture(scope="session")
def training_operator(cluster: ControlPlane, pytestconfig: pytest.Config) -> None:
    """Kubeflow's training operator for PyTorchJob, TFJob and MPIJob v1."""
    build(pytestconfig, "training-operator")
    kubeflow.start_training_operator(cluster)


@pytest.fixture(scope="module")
def injector(cluster: ControlPlane, request: pytest.FixtureRequest) -> Iterator[chart.Release]:
    """The chart, installed for this module with its `VALUES`, where it has any; one replica serves."""
    build(request.config, "helm")
    values = {"replicas": 1, **getattr(request.module, "VALUES", {})}
    with chart.install(cluster, values=values) as release:
        release.run_pods(1)
        yield release
