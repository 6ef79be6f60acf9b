"""The chart as the helm binary renders it, for tests without a cluster; and a second value for each of its values."""

import functools
import json
import subprocess
from collections.abc import Mapping
from typing import Any

import yaml

from tests.cluster import binaries
from tests.support.checkout import ROOT

CHART = ROOT / "charts" / "accel-injector"
NAME, NAMESPACE = "accel-injector", "accel-system"
MONITORING = ("monitoring.coreos.com/v1/ServiceMonitor", "monitoring.coreos.com/v1/PrometheusRule")

PEM = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"
EXISTING = {"tls": {"mode": "existing-secret", "existingSecret": "given", "caBundle": PEM}}
CERT_MANAGER = {"tls": {"mode": "cert-manager"}}
PLATFORM = {"config": {"platform": "gke"}}
"""Required if the chart is rendered without a cluster."""
MODES: dict[str, dict[str, Any]] = {"self-managed": {}, "cert-manager": CERT_MANAGER, "existing-secret": EXISTING}

OTHERS: dict[str, Any] = {
    "replicas": 3,
    "image.repository": "registry.example/accel-injector",
    "image.tag": "1.2.3",
    "image.digest": "sha256:" + "0" * 64,
    "image.pullPolicy": "Always",
    "image.pullSecrets": ["pull"],
    "config.platform": "eks",
    "config.tpu": {
        "environment": "full",
        "avoidMetadataServer": False,
        "nodePoolLabel": "example.com/pool",
        "legacyNodes": True,
        "legacyVersion": "2.12",
    },
    "config.eks": {"autoMode": True},
    "config.gfd": {"mig": "single", "shared": True, "models": {"nvidia-t4": {"shared": False}}},
    "config.exclusivePlacement": "jobset",
    "config.sharedMemory": "64Gi",
    "config.schedulers": {
        "allowed": ["volcano"],
        "defaults": [{"types": ["nvidia-*"], "scheduler": "volcano"}],
        "queues": {"default-scheduler": {"label": "kueue.x-k8s.io/queue-name", "where": "workload"}},
    },
    "config.claims": {"devices": ["team-gpu-*"]},
    "config.controllers": ["Experiment.example.com"],
    "config.placements": {
        "spot": {"nodeSelector": {"cloud.google.com/gke-spot": "true"}, "runtimeClassName": "nvidia"},
        "net": {"resources": {"vpc.amazonaws.com/efa": 4}, "tolerations": [{"key": "a", "tolerationSeconds": 60}]},
    },
    "config.hostProfiles": {
        "nvidia": {
            "types": ["nvidia-*"],
            "namespaces": ["team-a"],
            "devices": ["/dev/nvidiactl", {"path": "/dev/nvidia", "perDevice": True}],
            "exclusiveNode": True,
        }
    },
    "config.detect": ["nvidia.com/gpu"],
    "config.accelerators": {"example.com/npu": {"envVars": []}},
    "config.catalogue": [
        {"kind": "devices", "name": "example-npu", "family": "npu", "resource": "example.com/npu"},
        {"kind": "model", "name": "example-npu-2", "of": "example-npu", "select": {"eks": {"npu": ["2", "2b"]}}},
    ],
    "webhook.failurePolicy": "Ignore",
    "webhook.timeoutSeconds": 3,
    "webhook.port": 10250,
    "webhook.excludedNamespaces": ["team-b"],
    "webhook.annotations": {"admissions.enforcer/disabled": "true"},
    "webhook.lameDuckSeconds": 15,
    "tls.clientCA.configMap": "callers",
    "tls.clientCA.names": ["kube-apiserver", "front-proxy"],
    "tls.mode": "cert-manager",
    "tls.minVersion": "1.3",
    "tls.existingSecret": "other",
    "tls.caBundle": "MA==",
    "tls.certManager.issuerRef": {"name": "company", "kind": "ClusterIssuer"},
    "tls.certManager.duration": "720h",
    "tls.leafLifetime": "14d",
    "tls.caLifetime": "730d",
    "tls.overlap": "5m",
    "tls.resources": {"requests": {"cpu": "20m"}},
    "logLevel": "debug",
    "resources": {"requests": {"cpu": "1"}},
    "serviceAccount.create": False,
    "serviceAccount.name": "other",
    "serviceAccount.annotations": {"example.com/a": "b"},
    "podDisruptionBudget.enabled": False,
    "priorityClassName": "system-cluster-critical",
    "hostNetwork": True,
    "networkPolicy.enabled": False,
    "networkPolicy.metricsFrom": [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    ],
    "networkPolicy.webhookFrom": [{"ipBlock": {"cidr": "192.0.2.0/28"}}],
    "networkPolicy.apiServerPorts": [8443],
    "networkPolicy.apiServerCIDRs": ["192.0.2.1/32", "2001:db8::/64"],
    "policies.wholeNode": False,
    "policies.certs": False,
    "metrics.port": 9090,
    "metrics.certsPort": 9091,
    "metrics.serviceMonitor.enabled": True,
    "metrics.serviceMonitor.labels": {"release": "prometheus"},
    "metrics.serviceMonitor.interval": "15s",
    "metrics.prometheusRule.enabled": True,
    "metrics.prometheusRule.labels": {"release": "prometheus"},
    "metrics.dashboard.enabled": True,
    "metrics.dashboard.labels": {"grafana_dashboard": "yes"},
    "labels": {"example.com/team": "ml"},
    "annotations": {"example.com/note": "kept"},
    "podLabels": {"example.com/pod": "yes"},
    "podAnnotations": {"example.com/pod-note": "yes"},
    "podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None},
    "securityContext": {"runAsUser": 1000},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
}
"""Path of each documented value -> a value other than the default that a cluster accepts."""

NEEDS: dict[str, dict[str, Any]] = {
    "tls.clientCA.names": {"tls": {"clientCA": {"configMap": "callers"}}},
    "tls.existingSecret": EXISTING,
    "tls.caBundle": EXISTING,
    "tls.certManager.issuerRef": CERT_MANAGER,
    "tls.certManager.duration": CERT_MANAGER,
    "serviceAccount.create": {"serviceAccount": {"name": "other"}},
    "metrics.serviceMonitor.labels": {"metrics": {"serviceMonitor": {"enabled": True}}},
    "metrics.serviceMonitor.interval": {"metrics": {"serviceMonitor": {"enabled": True}}},
    "metrics.prometheusRule.labels": {"metrics": {"prometheusRule": {"enabled": True}}},
    "metrics.dashboard.labels": {"metrics": {"dashboard": {"enabled": True}}},
}
"""Values that change the output only if others are set -> those others."""


def helm(*args: str, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm, with values if given. The caller must check the exit code."""
    given = [] if values is None else ["--values", "-"]
    text = None if values is None else json.dumps(merged(PLATFORM, values))
    command = [str(binaries.ensure("helm")), *args, *given]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def render(values: Mapping[str, Any] | None = None, *args: str, name: str = NAME) -> list[dict[str, Any]]:
    """The objects that the chart renders with these values, including hooks."""
    text = rendered(name, args, json.dumps(values or {}, sort_keys=True))
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]


@functools.cache
def rendered(name: str, args: tuple[str, ...], values: str) -> str:
    done = helm("template", name, str(CHART), "--namespace", NAMESPACE, *args, values=json.loads(values))
    assert done.returncode == 0, done.stderr
    return done.stdout


def one(objects: list[dict[str, Any]], kind: str, name: str = NAME) -> dict[str, Any]:
    """The only object of this kind and name."""
    found = [o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    assert len(found) == 1, f"{len(found)} of {kind} {name}"
    return found[0]


def path_of(found: Mapping[str, Any]) -> str:
    """The API path of an object that helm rendered."""
    version, kind = found["apiVersion"], found["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
    metadata = found["metadata"]
    place = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{prefix}{place}/{plural}/{metadata['name']}"


def at(path: str, value: Any) -> dict[str, Any]:
    """Values that set this one at a dotted path."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return dict(value)


def merged(*values: Mapping[str, Any]) -> dict[str, Any]:
    """Values merged as Helm merges them: maps are merged, everything else is replaced."""
    result: dict[str, Any] = {}
    for layer in values:
        for key, value in layer.items():
            old = result.get(key)
            both = isinstance(old, Mapping) and isinstance(value, Mapping)
            result[key] = merged(old, value) if both and old is not None else value
    return result


def both_ways(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two sets of values that differ only in the one at `path`."""
    needed = NEEDS.get(path, {})
    return needed, merged(needed, at(path, OTHERS[path]))
