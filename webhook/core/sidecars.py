"""Names of sidecars, which get no devices by default. Data.

Other webhooks add them, some as the first container, before or after ours is called. That must not change which
container gets the devices.
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
"""The annotation in which Flyte names the main container.

Source: https://github.com/flyteorg/flyte/blob/master/flyteplugins/go/tasks/pluginmachinery/flytek8s/pod_helper.go
"""

ARGO: Final = "workflows.argoproj.io/node-name"
ARGO_WAIT: Final = "wait"
"""The container that waits for the others, in a Pod with the annotation.

Source: https://github.com/argoproj/argo-workflows/blob/main/workflow/common/common.go
"""
