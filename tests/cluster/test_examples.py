"""The examples on a real API server: every one is valid there, and becomes what `accel inject` prints."""

import json
from pathlib import Path

import pytest
import yaml

from tests.support.checkout import EXAMPLES
from tests.support.stored import missing
from webhook import load
from webhook.manifest import inject

from .controlplane import ControlPlane

pytestmark = pytest.mark.usefixtures("injector", "jobset_controller", "lws_controller")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_online_is_offline(cluster: ControlPlane, namespace: str, path: Path) -> None:
    """Created in dry run, with all validation; what the webhook patches is the command's result."""
    answer = cluster.kubectl("create", "-n", namespace, "--dry-run=server", "-o", "yaml", "-f", str(path))
    objects = list(yaml.safe_load_all(answer.stdout))

    for result, obj in zip(inject.results(path.read_text(), load.load()), objects, strict=True):
        if obj["kind"] not in ("Service", "Deployment"):  # not ours, and only checked: its Pods are injected
            assert "accel.io/injected" in json.dumps(obj)
            assert [] == missing(result.value, obj)
