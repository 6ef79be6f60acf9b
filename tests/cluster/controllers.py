"""Other people's controllers, run beside the control plane: JobSet, LeaderWorkerSet and KubeRay.

    start(cluster, JOBSET)      # the session fixtures of conftest.py do this once a run

Kueue and Kubeflow, which manage certificates in ways of their own, are in kueue.py and kubeflow.py. Each runs as an
ordinary process with the admin's rights; its CRDs and webhook configurations come from its own module, with a
loopback address instead of its Service. Nothing of theirs is copied here.
"""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from . import binaries
from .controlplane import ControlPlane, Launch, write_private
from .process import answers, free_port, listening

Object = dict[str, Any]


@dataclass(frozen=True)
class Project:
    """A project whose module ships a chart, and whose manager reads a Configuration of controller-runtime's shape.

    `config` is the Configuration's apiVersion. `resource` is the path of a kind that its mutating webhook sees:
    requests to it tell when the webhook works.
    """

    tool: str
    config: str
    resource: str
    kind: str


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


def start(cluster: ControlPlane, project: Project) -> None:
    """Install the project's CRDs, run its manager, and point its webhook configurations at it."""
    crds, webhooks = rendered(cluster, project.tool)
    folder = cluster.certificates(project.tool)
    port = 0

    def attempt() -> Launch:
        nonlocal port
        port, health = free_port(), free_port()
        configuration = {"apiVersion": project.config, **settings(port, health, folder)}
        command = [str(binaries.ensure(project.tool)), f"--config={written(configuration, folder)}"]
        ready = f"http://127.0.0.1:{health}/readyz"
        return Launch(command, lambda: answers(ready) and listening(port))

    cluster.install_crds(*crds)
    cluster.launch(project.tool, attempt)
    cluster.apply(*(pointed(cluster, webhook, port) for webhook in webhooks))
    wait_for_webhook(cluster, project, webhooks)


def rendered(cluster: ControlPlane, tool: str) -> tuple[list[Object], list[Object]]:
    """Return the CRDs and the webhook configurations of the tool's chart."""
    chart = binaries.source(tool) / "charts" / tool
    text = cluster.helm("template", tool, str(chart), "--include-crds", "-n", f"{tool}-system").stdout
    objects = [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]
    crds = [o for o in objects if o["kind"] == "CustomResourceDefinition"]
    return crds, [o for o in objects if o["kind"].endswith("WebhookConfiguration")]


def settings(port: int, health: int, certificates: Path) -> Object:
    """Return a manager's Configuration: loopback only, no leader election, no metrics, no certificates of its own."""
    return {
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
    }


def written(configuration: Object, folder: Path) -> Path:
    """Write a manager's Configuration into the folder; return the file."""
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(configuration))
    return path


def resources(entry: Object) -> set[str]:
    """Return the resources that a webhook entry is called for, without subresources."""
    return {name.split("/")[0] for rule in entry["rules"] for name in rule["resources"]}


def pointed(cluster: ControlPlane, configuration: Object, port: int) -> Object:
    """Return a webhook configuration with a loopback URL and our CA in place of its Service."""
    copy: Object = json.loads(json.dumps(configuration))
    bundle = base64.b64encode(cluster.ca.certificate).decode()
    for entry in copy["webhooks"]:
        path = entry["clientConfig"]["service"]["path"]
        entry["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
    return copy


def wait_for_webhook(cluster: ControlPlane, project: Project, configurations: list[Object]) -> None:
    """Wait until the API server calls the project's mutating webhook, and is answered.

    A new configuration takes the API server a moment; a new manager answers 404 until it has all its handlers.
    """
    plural = project.resource.rsplit("/", 1)[1]
    entries = [e for o in configurations if o["kind"].startswith("Mutating") for e in o["webhooks"]]
    name = next(entry["name"] for entry in entries if plural in resources(entry))
    group, version = project.resource.split("/")[2:4]
    body = {"apiVersion": f"{group}/{version}", "kind": project.kind, "metadata": {"name": "probe"}, "spec": {}}

    def called() -> bool:
        answer = cluster.request("POST", project.resource, body, {"dryRun": "All"})
        return "failed calling webhook" not in str(answer.body) and cluster.webhook_histogram(name).count > 0

    cluster.wait_for(f"the API server to call {name}", called)


def loopback_service(namespace: str, name: str) -> list[Object]:
    """Return a Service that leads to loopback, in its namespace: for those who insist on being called by a Service."""
    metadata = {"name": name, "namespace": namespace}
    spec = {"type": "ExternalName", "externalName": "localhost"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec},
    ]


def mount(cluster: ControlPlane, namespace: str, secret: str, folder: Path) -> bool:
    """Write a Secret's certificate and key to the folder, once, as a kubelet would; False while it has none yet."""
    if (folder / "tls.crt").exists():
        return True
    data = cluster.get(f"/api/v1/namespaces/{namespace}/secrets/{secret}").get("data", {})
    if "tls.key" not in data:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("tls.key", "tls.crt"):  # in this order: who waits for them looks for the certificate
        write_private(folder / name, base64.b64decode(data[name]).decode())
    return True


def only_v1(file: Path) -> Object:
    """Read a CRD without its older versions: Ray's schemas are so large that each costs the API server seconds."""
    crd: Object = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
    crd["spec"]["versions"] = [version for version in crd["spec"]["versions"] if version["name"] == "v1"]
    return crd


def start_kuberay(cluster: ControlPlane) -> None:
    """Install KubeRay's CRDs and run its operator, without its optional webhook."""
    bases = binaries.source("kuberay") / "config" / "crd" / "bases"
    cluster.install_crds(*(only_v1(bases / f"ray.io_{kind}s.yaml") for kind in ("raycluster", "rayjob", "rayservice")))

    def attempt() -> Launch:
        health = free_port()
        command = [str(binaries.ensure("kuberay")), "--enable-leader-election=false", "--metrics-addr=0"]
        command.append(f"--health-probe-bind-address=127.0.0.1:{health}")
        return Launch(command, lambda: answers(f"http://127.0.0.1:{health}/readyz"))

    cluster.launch("kuberay", attempt)
