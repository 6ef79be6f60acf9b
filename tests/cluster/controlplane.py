"""A real control plane on loopback: etcd, API server, controller manager, scheduler, and kwok for fake nodes.

    with ControlPlane(directory) as cluster:        # in tests: the session fixture `cluster`
        ns = cluster.namespace({"accel.io/injection": "enabled"})       # in tests: the fixture `namespace`
        cluster.fake_node("v4", labels={...}, taints=["google.com/tpu"], allocatable={"google.com/tpu": "4"})
        cluster.kubectl("get", "pods", "-n", ns).stdout
        answer = cluster.request("POST", f"/api/v1/namespaces/{ns}/pods", pod, {"dryRun": "All"})
        answer.status, answer.body, answer.warnings # the object as stored, the texts of the Warning headers
        cluster.wait_for("the pod to run", lambda: cluster.pods(ns)[0]["status"].get("phase") == "Running")

What else there is (each is documented at its definition):

    cluster.kubeconfig, .server, .port, .ca         admin's kubeconfig, URL, port, the TinyCA behind all of it
    cluster.client                                  kubernetes.client.ApiClient of the admin
    cluster.token(ns, sa), .service_account_kubeconfig(ns, sa), .as_service_account(ns, sa).request(...)
    cluster.apply(objects or files), .get(path), .pods(ns), .complete(ns), .install_crds(...), .helm(...)
    cluster.namespace(labels), .delete_namespace(name), .fake_node(...), .fake_nodes(nodes.rows())
    cluster.launch(name, attempt), .end(process)    another program beside it
    cluster.certificates(name, dns...)              a folder with tls.crt, tls.key, ca.crt for it
    cluster.restart_apiserver(), .metrics(), .samples(metric), .webhook_histogram(webhook), .audit()

Nodes are kwok's: pods bound to them become Running at once, and pods of Jobs succeed when `complete` says so.
There is no kube-proxy and no kubelet; a Service of type ExternalName with externalName localhost lets webhooks be
called through a Service. Everything is ended by its process id, and dies with us (process.py). Failures raise
ClusterError.
"""

import base64
import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import kubernetes.client
import yaml

from . import binaries, commands, metrics, nodes
from .metrics import Histogram, Sample
from .process import ClusterError, Process, answers, free_port, wait_for
from .rest import Answer, Api
from .tinyca import Pair, TinyCA, signing_key

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl")
START_SECONDS = 180  # it takes 5 to 15; a machine that builds something meanwhile is slower
STARTS = 4  # tries when another program took the port between our look and the start
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RUN_SECONDS = 180  # of one kubectl or helm command

T = TypeVar("T")


@dataclass(frozen=True)
class Launch:
    """One try to start a program: the command, what is true once it serves, and its own environment variables."""

    command: Sequence[str]
    ready: Callable[[], bool] = lambda: True
    env: Mapping[str, str] = field(default_factory=dict)


class ControlPlane:
    """The running control plane. `directory` must be empty; logs, kubeconfigs and etcd's data go there."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ca = TinyCA()
        self.port = 0
        self._etcd = ""
        self._processes: list[Process] = []
        self._client: Any = None

    # Start and end

    def __enter__(self) -> Self:
        for program in PROGRAMS:
            binaries.ensure(program)
        (self.directory / "home").mkdir(parents=True)
        try:
            self._write_credentials()
            self._start_etcd()
            self._start_apiserver()
            self._start_others()
            self._wait_service_account("default")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End every program; keep the logs, drop etcd's data."""
        for process in reversed(self._processes):
            process.signal(signal.SIGTERM)
        for process in reversed(self._processes):
            process.reap(2)
        self._processes.clear()
        if self._client is not None:
            self._client.close()
        shutil.rmtree(self.directory / "etcd", ignore_errors=True)

    def launch(self, name: str, attempt: Callable[[], Launch], seconds: float = START_SECONDS) -> Process:
        """Start a program and wait until it is ready; it ends with the control plane, or by `end`.

        `attempt` is called again, to choose other ports, where the program says that its address is in use.
        Its output goes to <directory>/<name>.log; HOME is a folder of the control plane's.
        """
        for _ in range(STARTS):
            launch = attempt()
            process = Process(
                name, launch.command, self.directory / f"{name}.log", {**self._environment(), **launch.env}
            )
            self._processes.append(process)
            try:
                wait_for(f"{name} to be ready", launch.ready, seconds, [process])
                return process
            except ClusterError as error:
                self.end(process)
                if "address already in use" not in str(error):
                    raise
        raise ClusterError(f"{name} found its ports taken {STARTS} times in a row")

    def end(self, process: Process) -> None:
        """End one program that `launch` started."""
        process.stop()
        self._processes.remove(process)

    def restart_apiserver(self, *flags: str) -> None:
        """End the API server and start it again on the same port and data, with these flags added."""
        self.end(next(process for process in self._processes if process.name == "kube-apiserver"))
        self._start_apiserver(*flags)

    def wait_for(self, what: str, probe: Callable[[], T], seconds: float = 60) -> T:
        """Return the first true value of `probe`; ClusterError after `seconds`, or when a program dies."""
        return wait_for(what, probe, seconds, self._processes)

    def _environment(self) -> dict[str, str]:
        """Ours, without what would send loopback requests elsewhere or find the user's own cluster."""
        foreign = ("KUBE", "HELM")
        kept = {k: v for k, v in os.environ.items() if "proxy" not in k.lower() and not k.startswith(foreign)}
        return {**kept, "HOME": str(self.directory / "home"), "KUBECONFIG": str(self.kubeconfig)}

    def _start_etcd(self) -> None:
        def attempt() -> Launch:
            self._etcd, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
            ready_url = f"{self._etcd}/readyz"
            return Launch(commands.etcd(self.directory, self._etcd, peer), lambda: answers(ready_url))

        self.launch("etcd", attempt)

    def _start_apiserver(self, *flags: str) -> None:
        first = not self.port

        def attempt() -> Launch:
            if first:
                self.port = free_port()
                self._write_kubeconfig()
            command = commands.apiserver(self.directory, self.port, self._etcd)
            return Launch([*command, *flags], self._apiserver_ready)

        self.launch("kube-apiserver", attempt)

    def _apiserver_ready(self) -> bool:
        try:
            return self.request("GET", "/readyz").ok
        except OSError:
            return False

    def _start_others(self) -> None:
        manager = Launch(commands.controller_manager(self.directory, self.kubeconfig))
        scheduler = Launch(commands.scheduler(self.kubeconfig))
        kwok = Launch(commands.kwok(self.directory, self.kubeconfig))
        self.launch("kube-controller-manager", lambda: manager)
        self.launch("kube-scheduler", lambda: scheduler)
        self.launch("kwok", lambda: kwok)

    # Credentials

    @property
    def server(self) -> str:
        """The API server's URL."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig file (group system:masters)."""
        return self.directory / "admin.kubeconfig"

    @property
    def client(self) -> Any:
        """The admin's kubernetes.client.ApiClient (which has no types)."""
        if self._client is None:
            configuration = kubernetes.client.Configuration(host=self.server)
            configuration.ssl_ca_cert = str(self.directory / "ca.crt")
            configuration.cert_file = str(self.directory / "admin" / "tls.crt")
            configuration.key_file = str(self.directory / "admin" / "tls.key")
            configuration.proxy = None
            self._client = kubernetes.client.ApiClient(configuration)
        return self._client

    def certificates(self, name: str, *dns: str) -> Path:
        """Write a server certificate for loopback and these names; return its folder."""
        return self._write_pair(name, self.ca.server(*dns))

    def token(self, namespace: str, name: str) -> str:
        """Return an hour's token of a service account, from the API server's TokenRequest."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        spec = {"audiences": [commands.ISSUER], "expirationSeconds": 3600}
        answer = self.request("POST", path, {"spec": spec})
        return str(expect(answer, f"a token of {namespace}/{name}")["status"]["token"])

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Write a kubeconfig that speaks as the service account, with its namespace as the default."""
        path = self.directory / f"{namespace}-{name}.kubeconfig"
        write_private(path, self._kubeconfig({"token": self.token(namespace, name)}, namespace))
        return path

    def as_service_account(self, namespace: str, name: str) -> Api:
        """Return an Api whose `request` speaks as the service account."""
        context = ssl.create_default_context(cadata=self.ca.certificate.decode())
        return Api(self.port, context, {"Authorization": f"Bearer {self.token(namespace, name)}"})

    def _write_credentials(self) -> None:
        (self.directory / "ca.crt").write_bytes(self.ca.certificate)
        (self.directory / "audit-policy.json").write_text(json.dumps(commands.AUDIT_POLICY))
        write_private(self.directory / "service-account.key", signing_key().decode())
        self.certificates("apiserver", "kubernetes.default.svc", commands.FIRST_SERVICE_ADDRESS)
        folder = self._write_pair("admin", self.ca.client("admin", "system:masters"))
        self._tls = ssl.create_default_context(cadata=self.ca.certificate.decode())
        self._tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")

    def _write_pair(self, name: str, pair: Pair) -> Path:
        folder = self.directory / name
        folder.mkdir(exist_ok=True)
        (folder / "tls.crt").write_bytes(pair.certificate)
        (folder / "ca.crt").write_bytes(self.ca.certificate)
        write_private(folder / "tls.key", pair.key.decode())
        return folder

    def _write_kubeconfig(self) -> None:
        admin = self.directory / "admin"
        certificate, key = (base64.b64encode((admin / f).read_bytes()).decode() for f in ("tls.crt", "tls.key"))
        user = {"client-certificate-data": certificate, "client-key-data": key}
        write_private(self.kubeconfig, self._kubeconfig(user, "default"))

    def _kubeconfig(self, user: Mapping[str, str], namespace: str) -> str:
        ca = base64.b64encode(self.ca.certificate).decode()
        cluster = {"server": self.server, "certificate-authority-data": ca}
        context = {"cluster": "test", "user": "user", "namespace": namespace}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "user", "user": dict(user)}],
            "contexts": [{"name": "test", "context": context}],
            "current-context": "test",
        }
        return yaml.safe_dump(document)

    # Requests

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        *,
        content: str = "",
    ) -> Answer:
        """Send one request as the admin (see rest.Api.request)."""
        return Api(self.port, self._tls, {}).request(method, path, body, query, content=content)

    def get(self, path: str) -> Any:
        """Return the object or list at an API path; ClusterError where there is none."""
        return expect(self.request("GET", path), path)

    def pods(self, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        """Return the namespace's pods, by name; `selector` is a label selector."""
        answer = self.request("GET", f"/api/v1/namespaces/{namespace}/pods", query={"labelSelector": selector})
        return sorted(expect(answer, f"pods of {namespace}")["items"], key=lambda pod: pod["metadata"]["name"])

    def complete(self, namespace: str) -> None:
        """Let the pods of Jobs that run in the namespace succeed, as if their programs had ended."""
        for pod in self.pods(namespace):
            patch = {"metadata": {"annotations": {commands.COMPLETE: "true"}}}
            self.request("PATCH", f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}", patch)

    def kubectl(self, *args: str, input: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the real kubectl as the admin. With `check`, ClusterError with its stderr where it fails."""
        return self._run("kubectl", args, input, check)

    def helm(self, *args: str, input: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run the real helm as the admin. With `check`, ClusterError with its stderr where it fails."""
        return self._run("helm", args, input, check)

    def apply(self, *objects: Mapping[str, Any] | Path) -> None:
        """Server-side apply of objects and YAML files, through kubectl."""
        parts = [o.read_text() if isinstance(o, Path) else json.dumps(o) for o in objects]
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input="\n---\n".join(parts))

    def install_crds(self, *crds: Mapping[str, Any] | Path) -> None:
        """Create CustomResourceDefinitions (objects, or YAML files of one each) and wait until they are served.

        Some have a megabyte: they are sent as they are, since kubectl would take seconds to read one.
        """
        for crd in crds:
            body, content = (crd.read_text(), "application/yaml") if isinstance(crd, Path) else (crd, "")
            answer = self.request("POST", CRDS, body, content=content)
            if answer.status == 409:
                self.apply(crd)
                answer = self.request("GET", f"{CRDS}/{answer.body['details']['name']}")
            made = expect(answer, "a CustomResourceDefinition")
            self.wait_for(f"{made['metadata']['name']} to be served", partial(self._serves, made["spec"]))

    def _serves(self, spec: Mapping[str, Any]) -> bool:
        """Whether discovery lists a CRD's served versions."""
        versions = [version["name"] for version in spec["versions"] if version["served"]]
        answers = [self.request("GET", f"/apis/{spec['group']}/{version}") for version in versions]
        plural = spec["names"]["plural"]
        return all(a.ok and plural in {r["name"] for r in a.body["resources"]} for a in answers)

    def _run(
        self, program: str, args: Sequence[str], input: str | None, check: bool
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(binaries.ensure(program)), *args],
            input=input,
            capture_output=True,
            text=True,
            env=self._environment(),
            timeout=RUN_SECONDS,
            check=False,
        )
        if check and done.returncode:
            output = f"{done.stderr}{done.stdout}"
            raise ClusterError(f"{program} {' '.join(args)} ended with code {done.returncode}\n{output}")
        return done

    # Namespaces and nodes

    def namespace(self, labels: Mapping[str, str] | None = None, prefix: str = "test") -> str:
        """Create a namespace with a name of its own, ready for pods; return the name."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        body = {"metadata": {"name": name, "labels": dict(labels or {})}}
        expect(self.request("POST", "/api/v1/namespaces", body), f"namespace {name}")
        self._wait_service_account(name)
        return name

    def delete_namespace(self, name: str) -> None:
        """Delete its pods at once, so that they free their nodes; the rest of it goes in the background."""
        self.request("DELETE", f"/api/v1/namespaces/{name}")
        self.request("DELETE", f"/api/v1/namespaces/{name}/pods", {"gracePeriodSeconds": 0})

    def _wait_service_account(self, namespace: str) -> None:
        """A pod is refused until the controller manager has made the namespace's default service account."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        self.wait_for(f"service account {namespace}/default", lambda: self.request("GET", path).ok)

    def fake_node(
        self,
        name: str,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[str] = (),
        allocatable: Mapping[str, str] | None = None,
    ) -> None:
        """Create a node of kwok's and wait until pods can be bound to it.

        `taints` are keys (value present, effect NoSchedule, as on GKE's accelerator nodes); `allocatable` is
        added to 192 CPUs, 1 TiB of memory and 110 pods.
        """
        self.fake_nodes([{"name": name, "labels": labels, "taints": taints, "allocatable": allocatable}])

    def fake_nodes(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Create several nodes (keys: the parameters of `fake_node`) and wait for all of them."""
        names = set()
        for row in rows:
            names.add(row["name"])
            expect(self.request("POST", "/api/v1/nodes", nodes.node(row)), f"node {row['name']}")

        def all_ready() -> bool:
            items = self.get("/api/v1/nodes")["items"]
            return names <= {item["metadata"]["name"] for item in items if nodes.ready(item)}

        self.wait_for(f"{len(names)} nodes to be ready", all_ready)

    # What the API server saw

    def metrics(self) -> str:
        """Return the API server's /metrics; a restart begins anew."""
        return str(expect(self.request("GET", "/metrics"), "metrics"))

    def samples(self, metric: str, **labels: str) -> list[Sample]:
        """Return a metric's samples that carry these label values."""
        return metrics.samples(self.metrics(), metric, **labels)

    def webhook_histogram(self, webhook: str, **labels: str) -> Histogram:
        """Return how long the calls of one webhook entry (such as pods.accel.io) took the API server."""
        return metrics.histogram(self.samples(metrics.WEBHOOK_DURATION, name=webhook, **labels))

    def audit(self, **match: str) -> list[dict[str, Any]]:
        """Return the audit events of writes to objects with these values (namespace, resource, name ...)."""
        path = self.directory / "audit.jsonl"
        events = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [event for event in events if match.items() <= event.get("objectRef", {}).items()]


def expect(answer: Answer, what: str) -> Any:
    """Return the body of a good answer; ClusterError with the API server's message for any other."""
    if not answer.ok:
        message = answer.body.get("message") if isinstance(answer.body, dict) else answer.body
        raise ClusterError(f"{what}: the API server answered {answer.status}: {message}")
    return answer.body


def condition(item: Mapping[str, Any], kind: str) -> str:
    """Return the status of an object's condition (True, False, Unknown), empty where it has none yet."""
    conditions = item.get("status", {}).get("conditions") or ()
    return next((c["status"] for c in conditions if c["type"] == kind), "")


def write_private(path: Path, text: str) -> None:
    """Write a file that only we can read, since it holds a key or a token; nobody sees a part of it."""
    partial = path.with_name(f".{path.name}")
    partial.touch(mode=0o600)
    partial.write_text(text)
    partial.replace(path)
