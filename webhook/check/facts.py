"""What `accel check` has read from a cluster: frozen values, built by `cluster`, judged by the checks. Pure.

The views have the API's own field names. Fields that no check uses are not declared.
"""

from datetime import datetime
from typing import Any

import msgspec

from webhook.core.catalogue.accelerator import Accelerator
from webhook.core.schema.pod import View
from webhook.core.site import Site

OPT_IN = "accel.io/injection"
OPTED_IN = "enabled"
NAME_LABEL = "kubernetes.io/metadata.name"
OUR_WEBHOOK = 'webhook "pods.accel.io"'
"""How the API server's messages name the entry that Pods are sent to."""
NEVER = ("kube-system", "kube-node-lease")
"""Namespaces that are never injected, in addition to the release's own."""


class Release(msgspec.Struct, frozen=True):
    """Which installation is checked."""

    name: str
    namespace: str
    service: str = ""  # as its webhook configuration has it, where that was found

    @property
    def fullname(self) -> str:
        """The name of its Deployment, Service and configurations: as it was found, or as the chart makes it."""
        if self.service:
            return self.service
        name = self.name if "accel-injector" in self.name else f"{self.name}-accel-injector"
        return name[:40].removesuffix("-")

    @property
    def never(self) -> tuple[str, ...]:
        """The namespaces that it must leave alone."""
        return (*NEVER, self.namespace)


class Unread(msgspec.Struct, frozen=True):
    """What could not be read, and why."""

    needs: str  # "list on nodes", "get on secrets in accel-system"
    status: int = 0  # HTTP; 0: no answer
    why: str = ""


class Meta(View, frozen=True):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    generation: int = 0
    managedFields: list[dict[str, Any]] | None = None
    deletionTimestamp: str | None = None


class Expression(View, frozen=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None

    def matches(self, labels: dict[str, str]) -> bool:
        """As Kubernetes evaluates a requirement of a label selector."""
        here = self.key in labels
        if self.operator == "Exists":
            return here
        if self.operator == "DoesNotExist":
            return not here
        among = here and labels[self.key] in (self.values or ())
        return among if self.operator == "In" else not among


class Selector(View, frozen=True):
    matchLabels: dict[str, str] | None = None
    matchExpressions: list[Expression] | None = None

    def matches(self, labels: dict[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        wanted = (self.matchLabels or {}).items()
        return wanted <= labels.items() and all(e.matches(labels) for e in self.matchExpressions or ())


class ServiceReference(View, frozen=True):
    name: str = ""
    namespace: str = ""
    path: str | None = None
    port: int = 443


class ClientConfig(View, frozen=True):
    service: ServiceReference | None = None
    url: str | None = None
    caBundle: str | None = None


class Rule(View, frozen=True):
    apiGroups: list[str] | None = None
    apiVersions: list[str] | None = None
    resources: list[str] | None = None
    operations: list[str] | None = None

    def sends(self, group: str, resource: str, operation: str) -> bool:
        """Whether objects of this resource are sent for this operation."""
        here = ((self.apiGroups, group), (self.resources, resource), (self.operations, operation))
        return all(value in (found or ()) or "*" in (found or ()) for found, value in here)


class Condition(View, frozen=True):
    name: str = ""
    expression: str = ""


class Entry(View, frozen=True):
    """One webhook of a configuration."""

    name: str = ""
    clientConfig: ClientConfig = ClientConfig()
    rules: list[Rule] | None = None
    failurePolicy: str = "Fail"
    matchPolicy: str = "Equivalent"
    sideEffects: str = ""
    reinvocationPolicy: str = "Never"
    timeoutSeconds: int = 10
    namespaceSelector: Selector | None = None
    objectSelector: Selector | None = None
    matchConditions: list[Condition] | None = None

    def sends(self, group: str, resource: str, operation: str) -> bool:
        """Whether objects of this resource are sent for this operation."""
        return any(rule.sends(group, resource, operation) for rule in self.rules or ())

    def sees(self, labels: dict[str, str]) -> bool:
        """Whether objects of a namespace with these labels are sent."""
        return self.namespaceSelector is None or self.namespaceSelector.matches(labels)


class Configuration(View, frozen=True):
    """A MutatingWebhookConfiguration."""

    metadata: Meta = Meta()
    webhooks: list[Entry] | None = None


class SecretSource(View, frozen=True):
    secretName: str = ""


class Volume(View, frozen=True):
    name: str = ""
    secret: SecretSource | None = None


class PodSpec(View, frozen=True):
    volumes: list[Volume] | None = None


class Template(View, frozen=True):
    spec: PodSpec = PodSpec()


class DeploymentSpec(View, frozen=True):
    replicas: int = 1
    template: Template = Template()


class DeploymentStatus(View, frozen=True):
    observedGeneration: int = 0
    replicas: int = 0
    updatedReplicas: int = 0
    readyReplicas: int = 0


class Deployment(View, frozen=True):
    metadata: Meta = Meta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    @property
    def secret(self) -> str:
        """The Secret with the serving certificate; empty if the replicas issue their own (self-managed)."""
        for volume in self.spec.template.spec.volumes or ():
            if volume.name == "tls" and volume.secret is not None:
                return volume.secret.secretName
        return ""


class ServicePort(View, frozen=True):
    name: str = ""
    port: int = 0


class ServiceSpec(View, frozen=True):
    type: str = "ClusterIP"
    externalName: str = ""
    ports: list[ServicePort] | None = None


class Service(View, frozen=True):
    metadata: Meta = Meta()
    spec: ServiceSpec = ServiceSpec()


class EndpointConditions(View, frozen=True):
    ready: bool | None = None


class Endpoint(View, frozen=True):
    addresses: list[str] | None = None
    conditions: EndpointConditions = EndpointConditions()

    @property
    def ready(self) -> bool:
        """By the API's definition, an unknown state counts as ready.

        Source: https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/#ready
        """
        return self.conditions.ready is not False


class EndpointSlice(View, frozen=True):
    endpoints: list[Endpoint] | None = None


class NamespaceStatus(View, frozen=True):
    phase: str = ""


class Namespace(View, frozen=True):
    metadata: Meta = Meta()
    status: NamespaceStatus = NamespaceStatus()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        return self.metadata.labels or {}

    @property
    def opted_in(self) -> bool:
        """Whether the label has the one value that has an effect."""
        return self.labels.get(OPT_IN) == OPTED_IN


class NodeCondition(View, frozen=True):
    type: str = ""
    status: str = ""


class NodeStatus(View, frozen=True):
    allocatable: dict[str, str | int] | None = None
    conditions: list[NodeCondition] | None = None


class NodeSpec(View, frozen=True):
    unschedulable: bool = False


class Node(View, frozen=True):
    metadata: Meta = Meta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def open(self) -> bool:
        """Ready and not cordoned."""
        ready = any(c.type == "Ready" and c.status == "True" for c in self.status.conditions or ())
        return ready and not self.spec.unschedulable


class Nodes(msgspec.Struct, frozen=True):
    """The cluster's nodes, or as many of them as were read."""

    items: tuple[Node, ...] = ()
    complete: bool = True


class Trust(msgspec.Struct, frozen=True):
    """The Secret's certificates (PEM). Private keys never get here."""

    secret: str
    signing: bytes = b""  # self-managed: the signing CA
    leaf: bytes = b""  # else: the serving certificate


class Asked(msgspec.Struct, frozen=True):
    """A pod template that asks for an accelerator, in an object of a labelled namespace."""

    kind: str
    namespace: str
    name: str
    hardware: Accelerator | None = None  # None: its request is refused
    devices: int = 0  # that one Pod needs; 0: no resource (host mode)
    host: bool = False  # accel.io/mode: host
    injected: bool = False
    refused: str = ""  # the webhook's message
    disagrees: str = ""  # how its fields differ from what its annotations mean

    @property
    def where(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Asking(msgspec.Struct, frozen=True):
    """All templates that ask for an accelerator, as far as they were read."""

    items: tuple[Asked, ...] = ()
    unread: tuple[Unread, ...] = ()
    left_out: tuple[str, ...] = ()  # lists that were read only in part, for people


def installed(found: tuple[Configuration, ...], name: str = "", namespace: str = "") -> list[Release]:
    """The releases that webhook configurations belong to, with this name and namespace where they are given."""
    releases = []
    for configuration in sorted(found, key=lambda c: c.metadata.name):
        labels = configuration.metadata.labels or {}
        service = next((e.clientConfig.service for e in configuration.webhooks or () if e.clientConfig.service), None)
        if labels.get("app.kubernetes.io/name") == "accel-injector" and service is not None:
            instance = labels.get("app.kubernetes.io/instance", configuration.metadata.name)
            releases.append(Release(instance, service.namespace, configuration.metadata.name))
    return [r for r in releases if name in ("", r.name) and namespace in ("", r.namespace)]


class DryRun(msgspec.Struct, frozen=True):
    """The API server's response to the dry run of a Pod that asks for an accelerator."""

    namespace: str
    type: str
    status: int  # HTTP; 0: no answer
    message: str = ""  # if refused
    injected: str = ""  # the annotation that came back
    limits: tuple[tuple[str, str], ...] = ()  # of its container

    @property
    def uncalled(self) -> str:
        """The message if our webhook could not be called; other webhooks fail too, with their own names."""
        return self.message if f"failed calling {OUR_WEBHOOK}" in self.message else ""

    @property
    def denied(self) -> str:
        """The message if our webhook was called and refused."""
        return self.message if OUR_WEBHOOK in self.message and not self.uncalled else ""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the checks know. None: the object does not exist."""

    release: Release
    now: datetime
    version: str | Unread = ""
    configuration: Configuration | Unread | None = None
    others: tuple[Configuration, ...] | Unread = ()
    releases: tuple[Release, ...] = ()  # all that are installed
    deployment: Deployment | Unread | None = None
    service: Service | Unread | None = None
    slices: tuple[EndpointSlice, ...] | Unread = ()
    trust: Trust | Unread | None = None
    site: Site | Unread | None = None
    site_error: str = ""  # if the config exists but is invalid
    namespaces: tuple[Namespace, ...] | Unread = ()
    nodes: Nodes | Unread = Nodes()
    asking: Asking = Asking()
    dry_run: DryRun | Unread | None = None

    @property
    def never(self) -> tuple[str, ...]:
        """The namespaces that are left alone whatever their labels say: also those that the chart's values exclude."""
        entries = self.configuration.webhooks or () if isinstance(self.configuration, Configuration) else ()
        selectors = [entry.namespaceSelector for entry in entries[:1] if entry.namespaceSelector]
        expressions = [e for selector in selectors for e in selector.matchExpressions or ()]
        excluded = [e.values or [] for e in expressions if (e.key, e.operator) == (NAME_LABEL, "NotIn")]
        return (*self.release.never, *(name for names in excluded for name in names))

    @property
    def labelled(self) -> tuple[Namespace, ...]:
        """The namespaces in which objects are injected; a terminating one accepts no new objects."""
        if isinstance(self.namespaces, Unread):
            return ()
        opted_in = (n for n in self.namespaces if n.opted_in and n.status.phase != "Terminating")
        return tuple(n for n in opted_in if n.name not in self.never)
