"""Pods of a namespace, once they are what a test waits for."""

from typing import Any

from .controlplane import ControlPlane


def running(cluster: ControlPlane, namespace: str, count: int, nodes: str = "") -> list[dict[str, Any]]:
    """Return the pods by name, once exactly `count` run, all on nodes whose names begin with `nodes`."""

    def all_run() -> list[dict[str, Any]]:
        pods = cluster.pods(namespace)
        right = [p for p in pods if p["status"].get("phase") == "Running" and p["spec"]["nodeName"].startswith(nodes)]
        return pods if len(right) == len(pods) == count else []

    found: list[dict[str, Any]] = cluster.wait_for(f"{count} pods to run", all_run, 90)
    return found
