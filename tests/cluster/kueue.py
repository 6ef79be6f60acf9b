"""Kueue, run beside the control plane, for Jobs, JobSets, Ray's and Kubeflow's kinds.

Without its own certificate management it wants files under /etc, so it keeps that: it writes its certificates to a
Secret and into its CRDs and webhook configurations, and waits until a kubelet has mounted them. Here we are that.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from . import binaries
from .controllers import (
    Object,
    Project,
    loopback_service,
    mount,
    rendered,
    resources,
    settings,
    wait_for_webhook,
    written,
)
from .controlplane import ControlPlane, Launch
from .process import Process, answers, free_port, listening

KUEUE = Project("kueue", "config.kueue.x-k8s.io/v1beta2", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues", "ClusterQueue")
NAMESPACE = "kueue-system"
SERVICE = "kueue-webhook-service"
SECRET = "kueue-webhook-server-cert"

# What it queues in the tests' common cluster. Its webhooks for the kinds left out (pods, Deployments ...) would be
# called in everybody's tests, so their entries are dropped too.
FRAMEWORKS = {
    "batch/job": "jobs",
    "jobset.x-k8s.io/jobset": "jobsets",
    "ray.io/rayjob": "rayjobs",
    "ray.io/raycluster": "rayclusters",
    "ray.io/rayservice": "rayservices",
    "kubeflow.org/mpijob": "mpijobs",
    "kubeflow.org/pytorchjob": "pytorchjobs",
    "kubeflow.org/tfjob": "tfjobs",
}
OWN = ("clusterqueues", "cohorts", "resourceflavors", "workloads")


def start_kueue(cluster: ControlPlane, frameworks: Mapping[str, str] = FRAMEWORKS) -> Process:
    """Install its CRDs, webhooks, Service and Secret, and run it. `frameworks`: integration -> resource."""
    crds, webhooks = rendered(cluster, KUEUE.tool)
    cluster.apply(*loopback_service(NAMESPACE, SERVICE))
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": NAMESPACE}})
    certificates = cluster.directory / "kueue" / "certificates"
    certificates.mkdir(parents=True)

    def attempt() -> Launch:
        port, health = free_port(), free_port()
        cluster.install_crds(*(with_port(crd, port) for crd in crds))
        cluster.apply(*(with_port(selected(webhook, frameworks), port) for webhook in webhooks))
        config = configuration(port, health, certificates, frameworks)
        command = [str(binaries.ensure("kueue")), f"--config={config}"]

        def ready() -> bool:
            mounted = mount(cluster, NAMESPACE, SECRET, certificates)
            return mounted and answers(f"http://127.0.0.1:{health}/readyz") and listening(port)

        return Launch(command, ready)

    process = cluster.launch("kueue", attempt)
    wait_for_webhook(cluster, KUEUE, webhooks)
    return process


def configuration(port: int, health: int, certificates: Path, frameworks: Iterable[str]) -> Path:
    """Write Kueue's Configuration beside its certificates."""
    own = {"enable": True, "webhookServiceName": SERVICE, "webhookSecretName": SECRET}
    document = {
        "apiVersion": KUEUE.config,
        **settings(port, health, certificates),
        "internalCertManagement": own,
        "integrations": {"frameworks": list(frameworks)},
        "featureGates": {"VisibilityOnDemand": False},  # it would listen on every address
    }
    return written(document, certificates.parent)


def selected(webhook: Object, frameworks: Mapping[str, str]) -> Object:
    """Return the webhook configuration with only the entries for what is queued here."""
    wanted = {*frameworks.values(), *OWN}
    return {**webhook, "webhooks": [entry for entry in webhook["webhooks"] if resources(entry) & wanted]}


def with_port(source: Object, port: int) -> Object:
    """Return a copy of a CRD or webhook configuration whose Service is called on this port."""
    copy: Object = json.loads(json.dumps(source))
    conversion = copy.get("spec", {}).get("conversion", {}).get("webhook")
    for entry in [*copy.get("webhooks", []), *([conversion] if conversion else [])]:
        entry["clientConfig"]["service"]["port"] = port
    return copy
