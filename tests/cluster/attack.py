"""What one namespace's user can send, and hopes that others pay for: the objects, and who sends them.

    with Objects(cluster, namespace, ROWS["large answers"](cluster, namespace)) as attack: ...
    with Silence(ports) as attack: ...              # connections that never say a word
    attack.answers, attack.sentence, attack.failures

Everything is dry run, to loopback, and bounded in count. What the API server refuses by itself before it asks a
webhook is not here. Metadata, names and numbers it looks at only afterwards, so all of these reach the webhook.
"""

import http.client
import itertools
import json
import resource
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from tests.support.background import Background

from .controlplane import ControlPlane, expect

Object = dict[str, Any]

PODS = "/api/v1/namespaces/{}/pods"
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets"
RAYS = "/apis/ray.io/v1/namespaces/{}/rayclusters"
VCJOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs"
LWS = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/{}/leaderworkersets"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings"

TPU, SLICES = {"accel.io/type": "tpu-v4-8"}, {"accel.io/type": "tpu-v4-16"}
DIGITS = "9" * 100_000

SENDERS = 2
MAX_SENT = 20_000
TIMEOUT_SECONDS = 90  # an API server gives up on a request after 60

SILENT = 8_000  # connections to one port
OTHER_FILES = 1_000
MAX_RENEWED = 100_000
PAUSE_SECONDS = 0.005  # between one that is replaced and the next


@dataclass(frozen=True)
class Request:
    """One object, and where it is sent to; `path` has a {} for the namespace."""

    name: str
    path: str
    object: Object
    method: str = "POST"


# Objects


def container(name: str, **limits: str) -> Object:
    return {"name": name, "image": "example.invalid/main", "resources": {"limits": limits}}


def template(*containers: Object, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    return {"metadata": {"annotations": annotations or {}}, "spec": {"containers": [*containers], **spec}}


def pod(*containers: Object, **annotations: str) -> Object:
    return {"metadata": {"name": "a", "annotations": annotations}, "spec": {"containers": [*containers]}}


def jobset(count: int, name: str, annotations: dict[str, str], **each: Callable[[int], str]) -> Object:
    """So many replicated jobs of one host each; `each` makes fields of their own for them."""
    job = {"spec": {"template": template(container("main"), restartPolicy="Never")}}
    jobs = [{"name": f"j{n}", **{k: v(n) for k, v in each.items()}, "template": job} for n in range(count)]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"replicatedJobs": jobs},
    }


def vcjob(*tasks: Object) -> Object:
    """A Volcano Job. Its CRD has no schema here, so the webhook sees every value as it was sent."""
    named = [{"name": f"t{n}", "replicas": 1, "template": task} for n, task in enumerate(tasks)]
    spec = {"minAvailable": 1, "schedulerName": "volcano", "tasks": named}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec}


def ray(head: Object) -> Object:
    """A RayCluster with this template. Its CRD has no schema here, either."""
    metadata, spec = {"name": "a"}, {"headGroupSpec": {"rayStartParams": {}, "template": head}}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec}


def lws(containers: int) -> Object:
    """A LeaderWorkerSet with one template of so many containers."""
    worker = template(*(container(f"c{n}") for n in range(containers)), annotations={"accel.io/container": "c0"})
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"generateName": "a-", "annotations": SLICES},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": worker}},
    }


# Rows: from a cluster and a namespace to what is sent


def long_numbers(_cluster: ControlPlane, _namespace: str) -> list[Request]:
    """Numbers of 100,000 digits: an annotation of a Pod, and a limit in a kind whose limits nobody validates."""
    return [
        Request("shm", PODS, pod(container("main"), **TPU, **{"accel.io/shm": DIGITS})),
        Request("limit", VCJOBS, vcjob(template(container("main", **{"accel.io/tpu-v4-8": DIGITS})))),
    ]


def unknown_keys(_cluster: ControlPlane, _namespace: str) -> list[Request]:
    """1,000 misspelt annotations, above 100 templates."""
    misspelt = {f"accel.io/typ{n}": "x" for n in range(1000)}
    return [Request("keys", JOBSETS, jobset(100, "a", {**SLICES, **misspelt}))]


def large_answers(_cluster: ControlPlane, _namespace: str) -> list[Request]:
    """Small objects that ask for much: what is injected repeats their words, or is added to each container.

    A Pod's containers are few, since the API server needs 13 s to find fault with 5,000 that have no name, and gives
    up on 10,000, whether a webhook is asked or not. In a RayCluster it sends 300,000 of them on as they are.
    """
    hosts = template(container("main"), subdomain="s" * 20_000, restartPolicy="Never")
    pods = {"metadata": {"name": "a", "annotations": {"accel.io/type": "tpu-v5p-17920"}}, "spec": {"template": hosts}}
    return [
        Request("name", JOBSETS, jobset(300, "x" * 50_000, SLICES)),
        Request("subdomain", JOBS, {"apiVersion": "batch/v1", "kind": "Job", **pods}),
        Request("containers of a pod", PODS, pod(*({},) * 1000, **TPU)),
        Request("containers of a RayCluster", RAYS, ray(template(*({},) * 300_000, annotations=TPU))),
    ]


def many_parts(cluster: ControlPlane, namespace: str) -> list[Request]:
    """Thousands of parts that are looked for among each other: by their group, their name, their place in a list."""
    named = ",".join(f"c{n}" for n in range(4000))
    stored = expect(cluster.request("POST", LWS.format(namespace), lws(3000)), "the LeaderWorkerSet")
    name = stored["metadata"]["name"]
    again = lws(3000)
    again["metadata"] |= {"name": name, "resourceVersion": stored["metadata"]["resourceVersion"]}
    again["spec"]["replicas"] = 2  # an update that changes nothing is not sent to a webhook
    detected = template(container("main", **{"nvidia.com/gpu": "1"}))
    return [
        Request("groups", JOBSETS, jobset(2000, "a", SLICES, groupName=lambda n: f"g{n}")),
        Request("names", PODS, pod(*(container(f"c{n}") for n in range(4000)), **TPU, **{"accel.io/container": named})),
        Request("tasks", VCJOBS, vcjob(*(detected,) * 2000)),
        Request("update", f"{LWS}/{name}", again, "PUT"),
    ]


ROWS: dict[str, Callable[[ControlPlane, str], list[Request]]] = {
    "long numbers": long_numbers,
    "unknown keys": unknown_keys,
    "large answers": large_answers,
    "many parts": many_parts,
}


# Senders


class Objects(Background):
    """Sends a row's objects one after the other, from SENDERS connections, as a user who has rights in one namespace.

    They go through the row once at least, and then on until the `with` ends.
    """

    def __init__(self, cluster: ControlPlane, namespace: str, requests: list[Request]) -> None:
        self._verdicts: Counter[str] = Counter()
        self.failures: list[str] = []
        self._cluster, self._namespace = cluster, namespace
        self._tls = ssl.create_default_context(cadata=cluster.ca.certificate.decode())
        self._headers = {"Authorization": f"Bearer {token(cluster, namespace)}", "Content-Type": "application/json"}
        self._requests = [(request, json.dumps(request.object)) for request in requests]
        self._turns = itertools.count()
        super().__init__(*[self._work] * SENDERS)

    @property
    def answers(self) -> int:
        """How many objects got an answer. A webhook was called for each."""
        return self._verdicts.total()

    @property
    def sentence(self) -> str:
        """What became of them, in one line."""
        return ", ".join(f"{count} {what}" for what, count in sorted(self._verdicts.items()))

    def _work(self) -> None:
        at = http.client.HTTPSConnection("127.0.0.1", self._cluster.port, timeout=TIMEOUT_SECONDS, context=self._tls)
        while self._requests and (turn := next(self._turns)) < MAX_SENT:
            if turn >= len(self._requests) and self.over.is_set():
                break
            request, body = self._requests[turn % len(self._requests)]
            try:
                self._send(at, request, body)
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(f"{request.name}: {error!r}")
                at.close()
        at.close()

    def _send(self, at: http.client.HTTPSConnection, request: Request, body: str) -> None:
        path = f"{request.path.format(self._namespace)}?dryRun=All"
        at.request(request.method, path, body, self._headers)
        response = at.getresponse()
        text = response.read()
        if response.status >= 500:
            self.failures.append(f"{request.name}: {response.status} {text[:500]!r}")
        self._verdicts[f"{request.name} {verdict(response.status, text)}"] += 1


def verdict(status: int, text: bytes) -> str:
    """What became of an object: a webhook's denial, the API server's own refusal after it, or neither."""
    if b"denied the request" in text:
        return "denied"
    return "admitted" if status < 300 else f"refused later ({status})"


def token(cluster: ControlPlane, namespace: str) -> str:
    """Of an account that may do everything in its namespace, and nothing elsewhere."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    body = {"metadata": {"name": "all"}, "roleRef": role, "subjects": [subject]}
    answer = cluster.request("POST", ROLES.format(namespace), body)
    assert answer.ok or answer.status == 409, answer.body
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    cluster.wait_for("the account", lambda: cluster.request("GET", path).ok)
    return cluster.token(namespace, "default")


class Silence(Background):
    """Keeps SILENT connections open at each port, and replaces the oldest by new ones, as long as a `with` lasts."""

    answers = 0  # nobody says anything

    def __init__(self, ports: list[int]) -> None:
        self.opened = 0
        self.failures: list[str] = []
        self._ports = ports
        self._held: deque[socket.socket] = deque()
        super().__init__(self._renew)

    def __enter__(self) -> Self:
        for port in self._ports * silent(len(self._ports)):
            self._open(port)
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        for connection in self._held:
            connection.close()

    @property
    def sentence(self) -> str:
        """How many there were, in one line."""
        return f"{self.opened} opened, {len(self._held) // len(self._ports)} at once to each replica"

    def _renew(self) -> None:
        for port in itertools.islice(itertools.cycle(self._ports), MAX_RENEWED):
            if self.over.wait(PAUSE_SECONDS):
                break
            self._held.popleft().close()
            try:
                self._open(port)
            except OSError as error:
                self.failures.append(repr(error))

    def _open(self, port: int) -> None:
        self._held.append(socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS))
        self.opened += 1


def silent(ports: int) -> int:
    """How many connections to each of so many ports this process may have: SILENT, or what open files allow."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return SILENT if hard == resource.RLIM_INFINITY else min(SILENT, (hard - OTHER_FILES) // ports)
