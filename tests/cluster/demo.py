"""`make kube-demo`: a real control plane on this machine, the chart installed on it, the examples applied.

It shows what the API server stored and where the scheduler put it, then waits for the user to try their own, or, where
nobody sits at a terminal, ends.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.support.checkout import ROOT

from . import binaries, chart, controllers
from .controlplane import PROGRAMS, ControlPlane
from .nodes import rows

SHOWN = ("pod.yaml", "gpu-pod.yaml", "job.yaml", "jobset-multislice.yaml", "leaderworkerset.yaml")
NAMESPACE = "team-a"
PLACED = 10  # two single Pods, two v4 slices of two hosts, one v5e slice of four
SELECTED = (
    "cloud.google.com/gke-tpu-accelerator",
    "cloud.google.com/gke-tpu-topology",
    "cloud.google.com/gke-accelerator",
)
TPU_ENV = ("MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID", "MEGASCALE_COORDINATOR_ADDRESS")


def main() -> None:
    """Start, apply, show, wait, end."""
    console = Console()
    for program in (*PROGRAMS, "helm", "jobset", "lws"):
        binaries.ensure(program)
    with tempfile.TemporaryDirectory(prefix="accel-demo-") as folder:
        console.print("Starting etcd, the API server, the controller manager, the scheduler and 17 fake nodes ...")
        with ControlPlane(Path(folder)) as cluster:
            cluster.fake_nodes(rows())
            controllers.start(cluster, controllers.JOBSET)
            controllers.start(cluster, controllers.LWS)
            console.print("helm install accel-injector charts/accel-injector ...")
            with chart.install(cluster, values={"replicas": 1}) as release:
                release.run_pods(1)
                show(console, cluster)
                wait(console, cluster)


def show(console: Console, cluster: ControlPlane) -> None:
    """Label a namespace, apply the examples, and print every Pod with its node."""
    cluster.kubectl("create", "namespace", NAMESPACE)
    console.print(f"kubectl label namespace {NAMESPACE} accel.io/injection=enabled")
    cluster.kubectl("label", "namespace", NAMESPACE, "accel.io/injection=enabled")
    for name in SHOWN:
        console.print(f"kubectl apply -n {NAMESPACE} -f examples/{name}")
        done = cluster.kubectl("apply", "-n", NAMESPACE, "-f", str(ROOT / "examples" / name))
        console.print("".join(f"  {line}\n" for line in (done.stderr + done.stdout).splitlines()), end="")
    cluster.wait_for("the pods to have their nodes", lambda: settled(cluster), 120)
    table = Table("Pod", "what was injected", "node that the scheduler chose")
    for pod in sorted(cluster.pods(NAMESPACE), key=lambda p: str(p["metadata"]["name"])):
        table.add_row(
            pod["metadata"]["name"], ", ".join(injected(pod)), pod["spec"].get("nodeName", "waits for free hosts")
        )
    console.print(table)


def settled(cluster: ControlPlane) -> bool:
    """Whether the fake nodes are full: the examples want more slices than there are, as people do."""
    return sum(1 for pod in cluster.pods(NAMESPACE) if pod["spec"].get("nodeName")) >= PLACED


def injected(pod: dict[str, Any]) -> Iterator[str]:
    """What a Pod got, in few words."""
    for container in pod["spec"]["containers"]:
        limits = container.get("resources", {}).get("limits", {})
        yield from (f"{amount} x {name}" for name, amount in limits.items() if "/" in name)
        if any(v["name"] in TPU_ENV for v in container.get("env", [])):
            yield "MEGASCALE_*"
    yield from (value for label, value in pod["spec"].get("nodeSelector", {}).items() if label in SELECTED)


def wait(console: Console, cluster: ControlPlane) -> None:
    """Leave it running for a user at a terminal."""
    console.print(f"\nTry your own:\n  export KUBECONFIG={cluster.kubeconfig}\n  kubectl -n {NAMESPACE} apply -f FILE")
    if sys.stdin.isatty():
        console.input("Enter ends everything. ")


if __name__ == "__main__":
    main()
