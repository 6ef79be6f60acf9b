"""Load: annotated pods, asked for at a steady rate (dry run), and what became of every one.

    with Load(cluster, namespace) as load:      # RATE a second, over CONNECTIONS kept connections
        ...                                     # what may not cost a call
    print(load.sentence)                        # how many, at what rate, what was lost
    load.failures                               # each with its time and what the API server said

`load.calls` are the webhook calls meanwhile as the API server itself counted them: how many it made, and how many
failed for it. A machine that is busy asks for fewer; the rate that was reached is part of the sentence, and nothing
hangs on it. It must not judge: which failures are allowed, the tests say.
"""

import http.client
import json
import math
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from tests.support.background import Background

from .chart import KEY
from .controlplane import ControlPlane

RATE = 100.0  # a second
CONNECTIONS = 8
MAX_PODS = 60_000  # pods of one load, whatever a test waits for
TIMEOUT_SECONDS = 60
READY_SECONDS = 180  # that an API server may be away
CHIPS = {"google.com/tpu": "4"}
POD = {
    "metadata": {"name": "a", "annotations": KEY},
    "spec": {"containers": [{"name": "main", "image": "example.invalid/main"}]},
}


@dataclass(frozen=True)
class Failure:
    """One pod that did not come back injected. Times are in seconds since the load began."""

    began: float
    ended: float
    status: int  # 0: no answer at all
    message: str


@dataclass(frozen=True)
class Calls:
    """Webhook calls as an API server counts them from its start on."""

    made: int
    failed: int  # answered by nobody, or by something that is no answer; whatever failurePolicy makes of it

    def __sub__(self, before: Self) -> "Calls":
        if self.made < before.made:
            return self  # it was restarted, and counts anew
        return Calls(self.made - before.made, self.failed - before.failed)


def calls(cluster: ControlPlane) -> Calls:
    """What the API server has counted so far, of all webhooks.

    Source: https://github.com/kubernetes/apiserver/blob/v0.37.2/pkg/admission/metrics/metrics.go
    """
    made = cluster.samples("apiserver_admission_webhook_request_total")
    rejected = cluster.samples("apiserver_admission_webhook_rejection_count")
    opened = cluster.samples("apiserver_admission_webhook_fail_open_count")
    closed = [sample for sample in rejected if sample.labels["error_type"] != "no_error"]
    return Calls(int(sum(s.value for s in made)), int(sum(s.value for s in (*closed, *opened))))


def injected(pod: Any) -> bool:
    """Whether the pod, as it would be stored, got its chips."""
    limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
    return bool(limits == CHIPS)


class Load(Background):
    """Pods, asked for as long as a `with` lasts. `good` says of one that came back whether it is as it should be."""

    def __init__(self, cluster: ControlPlane, namespace: str, good: Callable[[Any], bool] = injected) -> None:
        self.answers = 0
        self.latencies: list[float] = []  # seconds, of every answer
        self.failures: list[Failure] = []
        self.unreached: list[Failure] = []  # by the API server's own absence
        self.seconds = 0.0
        self.calls = Calls(0, 0)
        self._cluster = cluster
        self._good = good
        self._path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
        self._tls = ssl.create_default_context(cadata=cluster.ca.certificate.decode())
        admin = cluster.directory / "admin"
        self._tls.load_cert_chain(admin / "tls.crt", admin / "tls.key")
        self._turns = 0
        self._next = 0.0
        self._lock = threading.Lock()
        super().__init__(*[self._work] * CONNECTIONS)

    def __enter__(self) -> Self:
        self._before = calls(self._cluster)
        self._began = time.monotonic()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self.seconds = self.now
        self.calls = calls(self._cluster) - self._before

    @property
    def now(self) -> float:
        """Seconds since the load began."""
        return time.monotonic() - self._began

    @property
    def sentence(self) -> str:
        """What happened, in one line."""
        rate = self.answers / self.seconds if self.seconds else 0.0
        away = f", {len(self.unreached)} met no API server" if self.unreached else ""
        return (
            f"{self.answers} pods in {self.seconds:.0f} s ({rate:.0f}/s), {len(self.failures)} not injected{away}; "
            f"by the API server {self.calls.made} webhook calls, {self.calls.failed} failed"
        )

    def latency(self, share: float) -> float:
        """Seconds that this share of the answers took at most: 0.99 for p99."""
        return sorted(self.latencies)[math.ceil(share * len(self.latencies)) - 1]

    def _work(self) -> None:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self._cluster.port, timeout=TIMEOUT_SECONDS, context=self._tls
        )
        while self._turn():
            began = self.now
            try:
                status, body = self._ask(connection)
            except (OSError, http.client.HTTPException) as error:
                self.unreached.append(Failure(began, self.now, 0, repr(error)))
                connection.close()
                self._wait_for_the_api_server()
                continue
            self.answers += 1
            self.latencies.append(self.now - began)
            if status != 201 or not self._good(body):
                self.failures.append(Failure(began, self.now, status, str(body.get("message", body))))
        connection.close()

    def _turn(self) -> bool:
        """Wait for the next moment of the rate; what was missed is not caught up. False when it is over."""
        with self._lock:
            now = time.monotonic()
            self._next = max(self._next + 1 / RATE, now)
            self._turns += 1
            wait, rest = self._next - now, self._turns <= MAX_PODS
        return rest and not self.over.wait(wait)

    def _ask(self, connection: http.client.HTTPSConnection) -> tuple[int, Any]:
        connection.request("POST", self._path, json.dumps(POD), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    def _wait_for_the_api_server(self) -> None:
        """As what balances load between API servers does: none is asked before it says that it is ready."""
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end and not self.over.wait(0.2):
            try:
                if self._cluster.request("GET", "/readyz").ok:
                    return
            except OSError:
                pass
