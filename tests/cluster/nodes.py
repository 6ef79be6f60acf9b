"""The fake nodes: rows of nodes.yaml as Node objects that kwok looks after."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

TABLE = Path(__file__).parent / "nodes.yaml"
RESOURCES = {"cpu": "192", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "110"}
LABELS = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
KWOK = {"kwok.x-k8s.io/node": "fake"}  # the annotation that kwok is told to look for


def rows() -> list[dict[str, Any]]:
    """Return the rows of nodes.yaml; their keys are the parameters of ControlPlane.fake_node."""
    table: list[dict[str, Any]] = yaml.safe_load(TABLE.read_text())
    return table


def node(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Node object for a row."""
    labels = {**LABELS, "kubernetes.io/hostname": row["name"], **(row.get("labels") or {})}
    resources = {**RESOURCES, **(row.get("allocatable") or {})}
    taints = [{"key": key, "value": "present", "effect": "NoSchedule"} for key in row.get("taints") or ()]
    return {
        "metadata": {"name": row["name"], "labels": labels, "annotations": KWOK},
        "spec": {"taints": taints},
        "status": {"allocatable": resources, "capacity": resources},
    }


def ready(node: Mapping[str, Any]) -> bool:
    """Ready by its condition, and without the taint that the controller manager lifts a moment later."""
    conditions = {c["type"]: c["status"] for c in node["status"].get("conditions", ())}
    taints = {taint["key"] for taint in node["spec"].get("taints", ())}
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in taints
