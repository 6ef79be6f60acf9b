"""Other people's controllers, run beside the control plane: JobSet, LeaderWorkerSet, Kueue, KubeRay, Kubeflow.

    start(cluster, JOBSET)      # the session fixtures of conftest.py do this once a run

Each runs as an ordinary process with the admin's rights; its CRDs and webhook configurations come from its own
module, with a loopback address instead of its Service. Nothing of theirs is copied here.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from . import binaries
from .controlplane import ControlPlane, Launch
from .process import answers, free_port, listening

Object = dict[str, Any]

# What Kueue queues here. Its webhooks for the kinds left out (pods, Deployments ...) would be called in everybody's
# tests, so their entries are dropped too.
KUEUE_FRAMEWORKS = {
    "batch/job": "jobs",
    "jobset.x-k8s.io/jobset": "jobsets",
    "ray.io/rayjob": "rayjobs",
    "ray.io/raycluster": "rayclusters",
    "ray.io/rayservice": "rayservices",
    "kubeflow.org/mpijob": "mpijobs",
    "kubeflow.org/pytorchjob": "pytorchjobs",
    "kubeflow.org/tfjob": "tfjobs",
}
KUEUE_OWN = {"clusterqueues", "cohorts", "resourceflavors", "workloads"}


@dataclass(frozen=True)
class Project:
    """A project whose module ships a chart, and whose manager reads a Configuration of controller-runtime's shape.

    `resource` is the path of a kind that its mutating webhook sees: requests to it tell when the webhook works.
    `extra` is added to the Configuration. `resources`: keep only webhook entries for these; all where empty.
    """

    tool: str
    config: str
    resource: str
    kind: str
    extra: Mapping[str, Any] = field(default_factory=dict)
    resources: frozenset[str] = frozenset()


JOBSET = Project(
    "jobset",
    "config.jobset.x-k8s.io/v1alpha1",
    "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
    "JobSet",
)
LWS = Project(
    "lws",
    "config.lws.x-k8s.io/v1alpha1",
    "/apis/leaderworkerset.x-k8s.io/v1/namespaces/default/leaderworkersets",
    "LeaderWorkerSet",
)
KUEUE = Project(
    "kueue",
    "config.kueue.x-k8s.io/v1beta2",
    "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
    "ClusterQueue",
    extra={
        "integrations": {"frameworks": list(KUEUE_FRAMEWORKS)},
        "featureGates": {"VisibilityOnDemand": False},  # it would listen on every address
    },
    resources=frozenset({*KUEUE_FRAMEWORKS.values(), *KUEUE_OWN}),
)


def start(cluster: ControlPlane, project: Project) -> None:
    """Install the project's CRDs, run its manager, and point its webhook configurations at it."""
    objects = list(rendered(cluster, project))
    crds = [o for o in objects if o["kind"] == "CustomResourceDefinition"]
    webhooks = [o for o in objects if o["kind"].endswith("WebhookConfiguration")]
    port = 0

    def attempt() -> Launch:
        nonlocal port
        port, health = free_port(), free_port()
        cluster.install_crds(*(pointed(cluster, crd, port) for crd in crds))
        config = write_configuration(cluster, project, port, health)
        command = [str(binaries.ensure(project.tool)), f"--config={config}"]
        ready = f"http://127.0.0.1:{health}/readyz"
        return Launch(command, lambda: answers(ready) and listening(port))

    cluster.launch(project.tool, attempt)
    cluster.apply(*(pointed(cluster, selected(webhook, project), port) for webhook in webhooks))
    wait_for_webhook(cluster, project, webhooks)


def rendered(cluster: ControlPlane, project: Project) -> Iterator[Object]:
    """Yield the objects of the project's chart, its CRDs included."""
    chart = binaries.source(project.tool) / "charts" / project.tool
    text = cluster.helm("template", project.tool, str(chart), "--include-crds", "-n", f"{project.tool}-system").stdout
    yield from (document for document in yaml.safe_load_all(text) if document)


def write_configuration(cluster: ControlPlane, project: Project, port: int, health: int) -> Path:
    """Write the manager's configuration: loopback only, our certificates, no leader election, no metrics."""
    folder = cluster.certificates(f"{project.tool}-certs")
    configuration = {
        "apiVersion": project.config,
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(folder)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        **project.extra,
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(configuration))
    return path


def selected(configuration: Object, project: Project) -> Object:
    """Return the webhook configuration with only the entries for the project's `resources`."""
    if not project.resources:
        return configuration
    kept = [entry for entry in configuration["webhooks"] if resources(entry) & project.resources]
    return {**configuration, "webhooks": kept}


def resources(entry: Object) -> set[str]:
    """Return the resources that a webhook entry is called for, without subresources."""
    return {name.split("/")[0] for rule in entry["rules"] for name in rule["resources"]}


def pointed(cluster: ControlPlane, source: Object, port: int) -> Object:
    """Return a copy of a CRD or webhook configuration whose Service is a loopback URL with our CA."""
    copy: Object = json.loads(json.dumps(source))
    conversion = copy.get("spec", {}).get("conversion", {}).get("webhook")
    for entry in [*copy.get("webhooks", []), *([conversion] if conversion else [])]:
        path = entry["clientConfig"]["service"]["path"]
        bundle = base64.b64encode(cluster.ca.certificate).decode()
        entry["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
    return copy


def wait_for_webhook(cluster: ControlPlane, project: Project, configurations: list[Object]) -> None:
    """Wait until the API server calls the project's mutating webhook; a new configuration takes it a moment."""
    plural = project.resource.rsplit("/", 1)[1]
    entries = [e for o in configurations if o["kind"].startswith("Mutating") for e in o["webhooks"]]
    name = next(entry["name"] for entry in entries if plural in resources(entry))
    group, version = project.resource.split("/")[2:4]
    body = {"apiVersion": f"{group}/{version}", "kind": project.kind, "metadata": {"name": "probe"}, "spec": {}}

    def called() -> int:
        cluster.request("POST", project.resource, body, {"dryRun": "All"})
        return cluster.webhook_histogram(name).count

    cluster.wait_for(f"the API server to call {name}", called)


def start_kuberay(cluster: ControlPlane) -> None:
    """Install KubeRay's CRDs and run its operator, without its optional webhook."""
    cluster.install_crds(*sorted((binaries.source("kuberay") / "config" / "crd" / "bases").glob("*.yaml")))

    def attempt() -> Launch:
        health = free_port()
        command = [str(binaries.ensure("kuberay")), "--enable-leader-election=false", "--metrics-addr=0"]
        command.append(f"--health-probe-bind-address=127.0.0.1:{health}")
        return Launch(command, lambda: answers(f"http://127.0.0.1:{health}/readyz"))

    cluster.launch("kuberay", attempt)
