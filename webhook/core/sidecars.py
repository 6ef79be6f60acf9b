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
        # https://github.com/GoogleCloudPlatform/gcs-fuse-csi-driver/blob/main/pkg/webhook/sidecar_spec.go
        "gke-gcsfuse-sidecar",
        "gke-gcsfuse-metadata-prefetch",
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

NUMBERED: Final = frozenset(
    {
        # https://github.com/fluid-cloudnative/fluid/blob/master/pkg/application/inject/fuse/mutator/mutator_default.go
        "fluid-fuse",
        # https://github.com/juicedata/juicefs-csi-driver/blob/master/pkg/webhook/handler/mutate/sidecar.go
        "jfs-mount",
    }
)
"""Those of which a Pod gets one for each volume, with a number at the end."""


def is_sidecar(name: str | None) -> bool:
    """Whether a container's name is that of a known sidecar."""
    if name is None or name in SIDECARS:
        return name is not None
    base, _, number = name.rpartition("-")
    return name in NUMBERED or (base in NUMBERED and number.isdecimal())


PRIMARY: Final = "primary_container_name"
"""The annotation in which Flyte names the main container.

Source: https://github.com/flyteorg/flyte/blob/master/flyteplugins/go/tasks/pluginmachinery/flytek8s/pod_helper.go
"""

ARGO: Final = "workflows.argoproj.io/node-name"
ARGO_WAIT: Final = "wait"
"""The container that waits for the others, in a Pod with the annotation.

Source: https://github.com/argoproj/argo-workflows/blob/main/workflow/common/common.go
"""
