"""Fixtures of the cluster tests: a control plane a run, a namespace a test, controllers on demand."""

from collections.abc import Iterator

import pytest

from . import binaries
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


@pytest.fixture(scope="session")
def nodes(cluster: ControlPlane) -> None:
    """The fake nodes of nodes.yaml."""
    cluster.fake_nodes(rows())
