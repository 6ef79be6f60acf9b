"""Through a real API server: 32 clients create Pods one after another, and a JobSet creates a thousand at once.

Everything shares the machine's cores here, as in a small cluster. The whole request is measured, of which the webhook
call is a part.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from benchmarks import cluster as bed
from benchmarks import load, machine, manifests
from benchmarks.cluster import Cluster
from benchmarks.sameness import Different, difference
from benchmarks.sample import Figure
from benchmarks.servers import Server
from tests.cluster.controlplane import expect
from tests.cluster.metrics import Histogram

CLIENTS = 32
SLICES, HOSTS = 16, 64
PODS = SLICES * HOSTS
NODES = 8
BURST_SECONDS = 240
BURST_PEERS = ("accel", "floor", "none")


@dataclass
class Row:
    """One peer, as the API server's clients and the API server itself see it."""

    rate: Figure = field(default_factory=lambda: Figure("pods/s"))
    p50: Figure = field(default_factory=lambda: Figure("ms"))
    p99: Figure = field(default_factory=lambda: Figure("ms"))
    webhook: Figure = field(default_factory=lambda: Figure("ms"))  # mean of the API server's own histogram


def check(cluster: Cluster, namespaces: dict[str, str]) -> None:
    """Raises Different unless every peer injects the same."""
    want = bed.created(cluster, namespaces["accel"])
    for name, namespace in namespaces.items():
        found = bed.created(cluster, namespace)
        if (found == want) == (name == "none"):
            raise Different(f"{name}: {difference(want, found)}")


def throughput(
    cluster: Cluster, servers: list[Server], namespaces: dict[str, str], *, rounds: int = 4, seconds: float = 4.0
) -> dict[str, Row]:
    """Pods per second, as a dry run; each response must have status 201 and the injected resource."""
    check(cluster, namespaces)
    body = cluster.directory / "pod.json"
    body.write_text(json.dumps(bed.pod()))
    admin = cluster.directory / "admin"
    rows = {name: Row() for name in namespaces}
    ours = [*cluster.pids, *(server.process.pid for server in servers)]
    for number in range(rounds):
        for name, row in machine.turn(number, rows.items()):
            marker = "" if name == "none" else '"google.com/tpu":"4"'
            asked = load.Load(
                body, CLIENTS, seconds, status=201, contains=marker, cert=admin / "tls.crt", key=admin / "tls.key"
            )
            before = cluster.webhook_histogram(bed.entry(name))
            with machine.Watch(ours) as watch:
                result = load.run(_apiserver(cluster, namespaces[name]), asked)
                watch.own = result.client * seconds
            row.rate.add(result.rate, watch.others)
            row.p50.add(result.p50 / 1000, watch.others)
            row.p99.add(result.p99 / 1000, watch.others)
            row.webhook.add(_mean(before, cluster.webhook_histogram(bed.entry(name))))
    return rows


def _apiserver(cluster: Cluster, namespace: str) -> Server:
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    process = cluster.process("kube-apiserver")
    return Server("kube-apiserver", process, cluster.port, cluster.directory / "ca.crt", path=path)


def _mean(before: Histogram, after: Histogram) -> float:
    """Mean milliseconds of the calls between two readings; 0 if there was none."""
    calls = after.count - before.count
    return (after.sum - before.sum) / calls * 1000 if calls else 0.0


@dataclass(frozen=True)
class Burst:
    """One JobSet's Pods: seconds until the last one was created and until the last one ran; refused requests."""

    created: float
    running: float
    failures: int
    others: float  # share of the machine that others used meanwhile


def nodes(cluster: Cluster) -> None:
    """Nodes for the Pods of bursts. Each takes many Pods, unlike real TPU nodes, so that a few are enough."""
    labels = {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v4-podslice",
        "cloud.google.com/gke-tpu-topology": "2x2x2",
    }
    room = {"google.com/tpu": "100k", "cpu": "100k", "memory": "1Pi", "pods": "1000"}
    cluster.fake_nodes({"name": f"benchmark-{n}", "labels": labels, "allocatable": room} for n in range(NODES))


def bursts(cluster: Cluster, servers: list[Server], rounds: int = 3) -> dict[str, list[Burst]]:
    """A JobSet of PODS Pods for each peer in turn, each in its own namespace; each round starts with another peer."""
    found: dict[str, list[Burst]] = {name: [] for name in BURST_PEERS}
    ours = [*cluster.pids, *(server.process.pid for server in servers)]
    for number in range(rounds):
        first = number % len(BURST_PEERS)
        for name in (*BURST_PEERS[first:], *BURST_PEERS[:first]):
            found[name].append(burst(cluster, name, ours))
    return found


def burst(cluster: Cluster, name: str, pids: list[int]) -> Burst:
    """Create the JobSet, wait until all its Pods run, delete it. The times are from the audit log."""
    namespace = cluster.namespace({bed.LABEL: name}, prefix=f"burst-{name}")
    path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets"
    body = manifests.jobset("train", [manifests.slices(manifests.ANNOTATED, HOSTS, SLICES)])
    watch = machine.Watch(pids)

    def ready() -> bool:
        jobs = cluster.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"]
        return sum(job.get("status", {}).get("ready") or 0 for job in jobs) == PODS

    with watch:
        began = datetime.now(UTC)
        expect(cluster.request("POST", path, body), "a JobSet")
        cluster.wait_for(f"{PODS} Pods of {name} to run", ready, BURST_SECONDS)
        ran = datetime.now(UTC)
    events = [e for e in cluster.audit(namespace=namespace, resource="pods") if _is_create(e)]
    good = [e for e in events if e["responseStatus"]["code"] == 201]
    last = max(_time(e["stageTimestamp"]) for e in good)
    cluster.request("DELETE", f"{path}/train")
    cluster.delete_namespace(namespace)
    cluster.wait_for("the Pods to go", lambda: not cluster.pods(namespace), BURST_SECONDS)
    return Burst((last - began).total_seconds(), (ran - began).total_seconds(), len(events) - len(good), watch.others)


def _is_create(event: dict[str, Any]) -> bool:
    return event["verb"] == "create" and "subresource" not in event["objectRef"]


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
