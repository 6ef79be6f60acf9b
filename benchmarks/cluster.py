"""A control plane for measurements: without client-side rate limits, with a namespace and a webhook for each peer.

The webhook configurations are the chart's entry for Pods, each with its own selector, Service and CA. A Service of type
ExternalName points to loopback, so that the API server uses HTTP/1.1 as it does in a cluster.
"""

import base64
import copy
import json
from pathlib import Path
from typing import Any

import yaml

from benchmarks import reviews
from benchmarks.servers import Server
from tests.cluster import commands
from tests.cluster.controlplane import ControlPlane, Launch, expect
from tests.cluster.process import Process

CHART = Path(__file__).parents[1] / "charts" / "accel-injector"
POLICY = Path(__file__).with_name("policy.yaml")
LABEL = "benchmark"
SERVICES = "benchmark-services"
ENTRY = "pods.accel.io"
CLIENT_LIMIT = 5000
"""Requests per second that controllers may send: their defaults (20 to 50) would hide the cost of a webhook."""

Object = dict[str, Any]


class Cluster(ControlPlane):
    """The test bed's control plane, with controllers that are not rate-limited."""

    def _start_others(self) -> None:
        limits = [f"--kube-api-qps={CLIENT_LIMIT}", f"--kube-api-burst={CLIENT_LIMIT}"]
        manager = [*commands.controller_manager(self.directory, self.kubeconfig), *limits]
        scheduler = [*commands.scheduler(self.kubeconfig), *limits]
        kwok = commands.kwok(self.directory, self.kubeconfig)
        self.launch("kube-controller-manager", lambda: Launch(manager))
        self.launch("kube-scheduler", lambda: Launch(scheduler))
        self.launch("kwok", lambda: Launch(kwok))

    def process(self, name: str) -> Process:
        """The running program of that name."""
        return next(process for process in self._processes if process.name == name)

    @property
    def pids(self) -> list[int]:
        """The processes of the control plane."""
        return [process.pid for process in self._processes]

    def mutating(self) -> list[Object]:
        """Every MutatingWebhookConfiguration."""
        found: list[Object] = self.get("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations")["items"]
        return found


def entry(name: str) -> str:
    """The name of a peer's webhook entry."""
    return f"{name}.{ENTRY}"


def register(cluster: Cluster, servers: list[Server]) -> dict[str, str]:
    """Configure a webhook for each server and the CEL policy. Returns a namespace for each, by name."""
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": SERVICES}})
    template = _chart_entry(cluster)
    for server in servers:
        cluster.apply(_service(server), _configuration(server, template))
    cluster.apply(POLICY)
    names = [*(server.name for server in servers), "cel", "none"]
    namespaces = {name: cluster.namespace({LABEL: name}, prefix=f"benchmark-{name}") for name in names}
    for name, namespace in namespaces.items():
        if name != "none":
            cluster.wait_for(f"{name} to inject", lambda n=namespace: _injects(cluster, n), 60)  # type: ignore[misc]
    return namespaces


def _chart_entry(cluster: Cluster) -> Object:
    shown = "templates/mutatingwebhookconfiguration.yaml"
    options = ["--namespace", "accel-system", "--show-only", shown, "--set", "config.platform=gke"]
    text = cluster.helm("template", "accel-injector", str(CHART), *options).stdout
    found: Object = next(e for e in yaml.safe_load(text)["webhooks"] if e["name"] == ENTRY)
    return found


def _service(server: Server) -> Object:
    metadata = {"name": f"benchmark-{server.name}", "namespace": SERVICES}
    spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": server.port}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def service_names(names: tuple[str, ...]) -> list[str]:
    """The DNS names that a certificate for servers behind these Services must have."""
    return [f"benchmark-{name}.{SERVICES}.svc" for name in names]


def _configuration(server: Server, template: Object) -> Object:
    hook = copy.deepcopy(template)
    hook["name"] = entry(server.name)
    hook["namespaceSelector"] = {"matchLabels": {LABEL: server.name}}
    service = {"namespace": SERVICES, "name": f"benchmark-{server.name}", "port": server.port, "path": server.path}
    hook["clientConfig"] = {"service": service, "caBundle": base64.b64encode(server.ca.read_bytes()).decode()}
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": f"benchmark-{server.name}"}, "webhooks": [hook]}


def pod() -> Object:
    """The recorded JobSet Pod as a client would create it: without the fields that the API server sets."""
    found = reviews.object_of(reviews.load("jobset-pod"))
    for field in ("managedFields", "namespace", "ownerReferences"):
        found["metadata"].pop(field, None)
    found.pop("status", None)
    return found


def created(cluster: Cluster, namespace: str) -> Object:
    """The Pod as it would be stored, without the fields that differ between Pods."""
    answer = cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod(), {"dryRun": "All"})
    stored: Object = expect(answer, f"a Pod in {namespace}")
    for field in ("name", "uid", "creationTimestamp", "managedFields", "namespace"):
        stored["metadata"].pop(field, None)
    return stored


def _injects(cluster: Cluster, namespace: str) -> bool:
    return '"google.com/tpu": "4"' in json.dumps(created(cluster, namespace))
