"""The command lines of the control plane's programs: where they listen, what they may, what they leave out.

Everything listens on loopback. `home` is the control plane's folder, with the files named here in it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from . import binaries
from .nodes import KWOK

ISSUER = "https://kubernetes.default.svc"
SERVICE_RANGE = "10.96.0.0/16"
FIRST_SERVICE_ADDRESS = "10.96.0.1"  # of the Service kubernetes.default, which the serving certificate names
STAGES = ("node/fast", "node/heartbeat", "pod/fast")  # what kwok's nodes and pods do, from its module
COMPLETE = "test.example.com/complete"  # the annotation that ends a Job's pod
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "resources": [{"group": "coordination.k8s.io"}, {"group": "events.k8s.io"}]},
        {"level": "None", "resources": [{"resources": ["events", "nodes/status", "pods/status"]}]},
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete"]},
    ],
}


def etcd(home: Path, client: str, peer: str) -> list[str]:
    """etcd without fsync: its data does not outlive the run. `client` and `peer` are URLs."""
    return [
        str(binaries.ensure("etcd")),
        "--name=test",
        f"--data-dir={home / 'etcd'}",
        "--unsafe-no-fsync",
        "--log-level=warn",
        f"--initial-cluster=test={peer}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
    ]


def apiserver(home: Path, port: int, etcd_url: str) -> list[str]:
    """The API server with RBAC, client certificates, service account tokens and an audit log of writes."""
    return [
        str(binaries.ensure("kube-apiserver")),
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--endpoint-reconciler-type=none",  # a loopback address is refused as an endpoint of a Service
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--cert-dir={home / 'apiserver'}",
        f"--tls-cert-file={home / 'apiserver' / 'tls.crt'}",
        f"--tls-private-key-file={home / 'apiserver' / 'tls.key'}",
        f"--client-ca-file={home / 'ca.crt'}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={home / 'service-account.key'}",
        f"--service-account-signing-key-file={home / 'service-account.key'}",
        "--authorization-mode=RBAC",
        "--allow-privileged",
        "--profiling=false",
        f"--audit-policy-file={home / 'audit-policy.json'}",
        f"--audit-log-path={home / 'audit.jsonl'}",
    ]


def controller_manager(home: Path, kubeconfig: Path) -> list[str]:
    """The controller manager, each controller with its own service account's rights."""
    return [
        str(binaries.ensure("kube-controller-manager")),
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={home / 'service-account.key'}",
        f"--root-ca-file={home / 'ca.crt'}",
        "--node-monitor-grace-period=10m",  # a busy machine must not make fake nodes NotReady
    ]


def scheduler(kubeconfig: Path) -> list[str]:
    """The default scheduler, as it comes."""
    return [
        str(binaries.ensure("kube-scheduler")),
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
    ]


def kwok(home: Path, kubeconfig: Path) -> list[str]:
    """kwok for the nodes that carry its annotation; writes its stages to one file, as it wants them."""
    config = home / "kwok.yaml"
    config.write_text(yaml.safe_dump_all(stages()))
    selector = ",".join(f"{key}={value}" for key, value in KWOK.items())
    return [
        str(binaries.ensure("kwok")),
        f"--kubeconfig={kubeconfig}",
        f"--config={config}",
        f"--manage-nodes-with-annotation-selector={selector}",
        "--node-port=0",  # else it listens on every address
        "--node-ip=127.0.0.1",
    ]


def stages() -> Iterator[dict[str, Any]]:
    """Yield kwok's stages, but for this: a Job's pod ends when it is annotated, not at once.

    A pod that ends at once frees its node for the next one, and a slice of two hosts would run on one.
    """
    folders = [binaries.source("kwok") / "kustomize" / "stage" / stage for stage in STAGES]
    for path in (path for folder in folders for path in sorted(folder.glob("*-*.yaml"))):
        stage = yaml.safe_load(path.read_text())
        if stage["metadata"]["name"] == "pod-complete":
            complete = {"key": f'.metadata.annotations["{COMPLETE}"]', "operator": "Exists"}
            stage["spec"]["selector"]["matchExpressions"].append(complete)
        yield stage
