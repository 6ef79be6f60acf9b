"""Kubeflow's training operator v1, run beside the control plane for PyTorchJob, TFJob and MPIJob.

It has its own way with certificates: it writes them to a Secret, waits until a kubelet has mounted that at a fixed
path, and serves what is in TMPDIR. Here we are the kubelet. It knows no flag for the webhook's host, so this one
program listens on every address, as long as the tests that use it run.
"""

import contextlib
from pathlib import Path
from typing import Any

import yaml

from . import binaries
from .controllers import loopback_service, mount
from .controlplane import ControlPlane, Launch
from .process import answers, free_port

KINDS = ("pytorchjob", "tfjob", "mpijob")
NAMESPACE = "kubeflow"
SERVICE = "training-operator"
SECRET = "training-operator-webhook-cert"
CONFIGURATION = "validator.training-operator.kubeflow.org"  # the name that its certificates are written into
MOUNTED = Path("/tmp/k8s-webhook-server/serving-certs/tls.crt")  # it only looks whether this exists


def start_training_operator(cluster: ControlPlane) -> None:
    """Install the CRDs, the Service and Secret that it wants, and run it."""
    manifests = binaries.source("training-operator") / "manifests" / "base"
    cluster.install_crds(*(manifests / "crds" / f"kubeflow.org_{kind}s.yaml" for kind in KINDS))
    cluster.apply(*loopback_service(NAMESPACE, SERVICE))
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": NAMESPACE}})
    scratch = cluster.directory / "training-operator"

    def attempt() -> Launch:
        port, health = free_port(), free_port()
        cluster.apply(validating_webhook(manifests / "webhook" / "manifests.yaml", port))
        command = [str(binaries.ensure("training-operator")), f"--webhook-server-port={port}"]
        command += ["--metrics-bind-address=0", f"--health-probe-bind-address=127.0.0.1:{health}"]
        command += [f"--enable-scheme={kind}" for kind in KINDS]

        def ready() -> bool:
            if mount(cluster, NAMESPACE, SECRET, scratch / "k8s-webhook-server" / "serving-certs"):
                MOUNTED.parent.mkdir(parents=True, exist_ok=True)
                MOUNTED.touch()
            return answers(f"http://127.0.0.1:{health}/readyz")

        return Launch(command, ready, {"TMPDIR": str(scratch)})

    try:
        cluster.launch("training-operator", attempt)
    finally:
        with contextlib.suppress(FileNotFoundError):
            MOUNTED.unlink()


def validating_webhook(file: Path, port: int) -> dict[str, Any]:
    """Return its webhook configuration under the name that it looks for, for the kinds that it is run for."""
    configuration: dict[str, Any] = yaml.safe_load(file.read_text())
    plurals = {f"{kind}s" for kind in KINDS}
    entries = [e for e in configuration["webhooks"] if set(e["rules"][0]["resources"]) <= plurals]
    for entry in entries:
        entry["clientConfig"]["service"].update(name=SERVICE, namespace=NAMESPACE, port=port)
    return {**configuration, "metadata": {"name": CONFIGURATION}, "webhooks": entries}
