"""Records the reviews: starts a real control plane, JobSet's controller and a webhook that allows everything.

    python -m benchmarks.record

Run it when a new API server version changes the reviews. The files are committed.
"""

import base64
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import manifests, reviews
from tests.cluster import controllers
from tests.cluster.controlplane import ControlPlane, expect
from webhook.core import review
from webhook.core.admission import Answer
from webhook.core.schema.admission import Response
from webhook.core.site import Site
from webhook.server.log import configure
from webhook.server.replica import running
from webhook.server.settings import Settings

JOBSETS = (1, 10, 50)


class Recorder:
    """A `decide` function that allows everything and keeps the bodies."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def __call__(self, body: bytes, _site: Site) -> Answer:
        self.bodies.append(body)
        response = Response(uid=review.decode(body).uid, allowed=True)
        return Answer(200, review.encode(response), "unchanged")

    def first(self, kind: str, namespace: str) -> bytes | None:
        """The first review of that kind in that namespace."""
        for body in self.bodies:
            request = review.decode(body)
            if (request.kind.kind, request.namespace) == (kind, namespace):
                return body
        return None


def configuration(port: int, ca: bytes) -> dict[str, Any]:
    """A webhook configuration that sends Pods and JobSets in labelled namespaces to a port on loopback."""
    rules = [
        {"apiGroups": [group], "apiVersions": [version], "operations": ["CREATE"], "resources": [plural]}
        for group, version, plural in (("", "v1", "pods"), ("jobset.x-k8s.io", "v1alpha2", "jobsets"))
    ]
    client = {"url": f"https://127.0.0.1:{port}/mutate", "caBundle": base64.b64encode(ca).decode()}
    entry = {
        "name": "record.example.com",
        "rules": rules,
        "clientConfig": client,
        "namespaceSelector": {"matchLabels": {"record": "true"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": "record"}, "webhooks": [entry]}


def recorded(cluster: ControlPlane, recorder: Recorder, kind: str, create: Callable[[str], None]) -> bytes:
    """Creates an object in a new namespace; returns the first review of this kind."""
    namespace = cluster.namespace({"record": "true"}, prefix="train")
    create(namespace)
    body = cluster.wait_for(f"a review of a {kind}", lambda: recorder.first(kind, namespace), 60)
    assert body is not None
    return body


def record(cluster: ControlPlane, recorder: Recorder) -> dict[str, bytes]:
    """Every review by its name."""

    def post(body: dict[str, Any]) -> Callable[[str], None]:
        group, _, version = body["apiVersion"].rpartition("/")
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        plural = body["kind"].lower() + "s"
        return lambda namespace: expect(
            cluster.request("POST", f"{root}/namespaces/{namespace}/{plural}", body), body["kind"]
        )

    two = manifests.jobset("train", [manifests.slices(manifests.ANNOTATED, 2, 2)])
    plain = manifests.jobset("train", [manifests.slices({}, 2, 2)])
    found = {
        "jobset-pod": recorded(cluster, recorder, "Pod", post(two)),
        "plain-pod": recorded(cluster, recorder, "Pod", post(plain)),
        "pod-20-containers": recorded(cluster, recorder, "Pod", post(manifests.pod(manifests.ANNOTATED, 20))),
    }
    for count in JOBSETS:
        members = [manifests.slices({}, 2, 2, f"slice-{number}") for number in range(count)]
        body = manifests.jobset("train", members, manifests.ANNOTATED)
        found[f"jobset-{count}"] = recorded(cluster, recorder, "JobSet", post(body))
    return found


def main() -> int:
    recorder = Recorder()
    settings = Settings(host="127.0.0.1", port=0, metrics_port=0, self_signed=True)
    with tempfile.TemporaryDirectory() as folder, ControlPlane(Path(folder) / "cluster") as cluster:
        controllers.start(cluster, controllers.JOBSET)
        with running(settings, recorder, configure("warning")) as at:
            cluster.apply(configuration(at.port, at.ca))
            probe = manifests.pod({})
            namespace = cluster.namespace({"record": "true"}, prefix="probe")
            path = f"/api/v1/namespaces/{namespace}/pods"

            def called() -> bool:
                cluster.request("POST", path, probe, {"dryRun": "All"})
                return bool(recorder.bodies)

            cluster.wait_for("the API server to call us", called)
            for name, body in record(cluster, recorder).items():
                reviews.save(name, body)
                print(f"{name}: {len(body)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
