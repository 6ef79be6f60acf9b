"""Containers that others put beside the one that computes: never the choice where nobody names a container. Data.

A webhook that puts one at the first place, before ours is called or after it, must not change who gets the devices.
"""

from typing import Final

SIDECARS: Final = frozenset(
    {
        # service meshes: https://istio.io, https://linkerd.io, https://www.consul.io, https://kuma.io, https://dapr.io
        "istio-proxy",
        "linkerd-proxy",
        "envoy",
        "envoy-sidecar",
        "consul-dataplane",
        "consul-connect-envoy-sidecar",
        "kuma-sidecar",
        "daprd",
        # https://knative.dev/docs/serving/architecture/
        "queue-proxy",
        # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-sidecar
        "gke-gcsfuse-sidecar",
        # https://cloud.google.com/sql/docs/postgres/connect-kubernetes-engine
        "cloud-sql-proxy",
        "cloudsql-proxy",
        # https://developer.hashicorp.com/vault/docs/deploy/kubernetes/injector
        "vault-agent",
        # logs and traces
        "fluent-bit",
        "fluentd",
        "filebeat",
        "promtail",
        "vector",
        "otel-collector",
        "otc-container",
        "jaeger-agent",
        "datadog-agent",
    }
)

PRIMARY: Final = "primary_container_name"
"""The annotation in which Flyte names the container that computes.

Source: https://github.com/flyteorg/flyte/blob/master/flyteplugins/go/tasks/pluginmachinery/flytek8s/pod_helper.go
"""

ARGO: Final = "workflows.argoproj.io/node-name"
ARGO_WAIT: Final = "wait"
"""Of a Pod with the annotation, the container that waits for the others.

Source: https://github.com/argoproj/argo-workflows/blob/main/workflow/common/common.go
"""
