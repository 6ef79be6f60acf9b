"""The real TorchX client with our named resources: what it sends, and what is stored.

TorchX sets no pod annotations and makes one task for each replica. Volcano itself is not here: a small CRD keeps its
Jobs.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from . import torchx
from .conftest import build
from .controlplane import ControlPlane

pytestmark = pytest.mark.usefixtures("injector")

Object = dict[str, Any]


@pytest.fixture(scope="module")
def command(cluster: ControlPlane, pytestconfig: pytest.Config) -> Path:
    """The torchx command, once the API server serves Volcano's Jobs."""
    cluster.install_crds(torchx.VOLCANO_JOB)
    build(pytestconfig)
    return torchx.client()


def submit(cluster: ControlPlane, command: Path, namespace: str, *args: str) -> Object:
    """torchx run --scheduler kubernetes with these arguments of utils.sh; return the stored Job."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(cluster.directory / "home")}
    done = subprocess.run(
        [
            *(str(command), "run", "--workspace", "", "--scheduler", "kubernetes"),
            *("--scheduler_args", f"namespace={namespace},queue=research"),
            *("utils.sh", "--image", "example/train", *args, "python", "train.py"),
        ],
        env={**environment, "KUBECONFIG": str(cluster.kubeconfig)},
        cwd=cluster.directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (job,) = cluster.get(f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs")["items"]
    assert done.stdout.strip().endswith(f"{namespace}:{job['metadata']['name']}"), done.stdout
    found: Object = job
    return found


def test_a_slice_of_two_hosts(cluster: ControlPlane, namespace: str, command: Path) -> None:
    """-h tpu_v4_16 with two replicas: two tasks, each one host's share, that start without Volcano's gang."""
    spec = submit(cluster, command, namespace, "--num_replicas", "2", "-h", "tpu_v4_16")["spec"]

    assert spec["schedulerName"] == "default-scheduler"
    assert spec["minAvailable"] == 0
    assert spec["minSuccess"] == 2
    assert spec["queue"] == "research"
    assert len(spec["tasks"]) == 2
    for task in spec["tasks"]:
        assert (task["replicas"], task["minAvailable"]) == (1, 0)
        pod = task["template"]
        (container,) = pod["spec"]["containers"]
        assert container["resources"] == {"limits": {"google.com/tpu": "4"}, "requests": {"google.com/tpu": "4"}}
        assert pod["spec"]["nodeSelector"] == {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v4-podslice",
            "cloud.google.com/gke-tpu-topology": "2x2x2",
        }
        assert pod["spec"]["tolerations"] == [{"key": "google.com/tpu", "operator": "Exists"}]
        assert "schedulerName" not in pod["spec"]
        assert pod["metadata"]["annotations"]["accel.io/injected"] == "tpu-v4-16"
        assert pod["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"


def test_gpus(cluster: ControlPlane, namespace: str, command: Path) -> None:
    """-h nvidia_h100_80gb_x8: eight devices, and the Job stays Volcano's."""
    spec = submit(cluster, command, namespace, "-h", "nvidia_h100_80gb_x8")["spec"]

    assert spec["schedulerName"] == "volcano"
    assert "minAvailable" not in spec
    (task,) = spec["tasks"]
    (container,) = task["template"]["spec"]["containers"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "8"}, "requests": {"nvidia.com/gpu": "8"}}
    assert task["template"]["spec"]["nodeSelector"] == {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}


def test_a_name_that_is_not_there(cluster: ControlPlane, namespace: str, command: Path) -> None:
    """TorchX names the nearest, out of our list."""
    with pytest.raises(AssertionError, match="Did you mean `tpu_v4_1"):
        submit(cluster, command, namespace, "-h", "tpu_v4_17")
