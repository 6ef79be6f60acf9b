"""The replicas: Deployment, Service and its endpoints, and their site config. Pure."""

from webhook.check.facts import Configuration, Facts, Service, Unread
from webhook.check.finding import Finding, failed, ok, skipped, warning
from webhook.core.site import Site


def deployment(facts: Facts) -> Finding:
    """All replicas are ready, and of the newest template."""
    found, release = facts.deployment, facts.release
    if isinstance(found, Unread):
        return skipped(found)
    if found is None:
        fix = f"Install the chart: helm upgrade --install {release.name} CHART -n {release.namespace}"
        return failed(f"there is no Deployment {release.namespace}/{release.fullname}", fix)
    wanted, status = found.spec.replicas, found.status
    numbers = f"{status.readyReplicas} of {wanted} replicas are ready"
    describe = f"kubectl -n {release.namespace} describe pods -l app.kubernetes.io/instance={release.name}"
    if wanted == 0:
        fix = f"kubectl -n {release.namespace} scale deploy/{release.fullname} --replicas 2"
        return failed("scaled to 0 replicas: nothing answers", fix)
    if status.readyReplicas == 0:
        return failed(numbers, describe)
    if status.readyReplicas < wanted:
        return warning(numbers, describe)
    behind = status.updatedReplicas < wanted or status.updatedReplicas < status.replicas
    if status.observedGeneration < found.metadata.generation or behind:
        fix = f"kubectl -n {release.namespace} rollout status deploy/{release.fullname}"
        return warning("a rollout is in progress", fix)
    return ok(numbers)


def endpoints(facts: Facts) -> Finding:
    """The Service that the API server calls has a ready endpoint."""
    service, release = facts.service, facts.release
    if isinstance(service, Unread):
        return skipped(service)
    if service is None:
        fix = f"helm upgrade --install {release.name} CHART -n {release.namespace}"
        return failed(f"there is no Service {release.namespace}/{release.fullname}", fix)
    port = _called(facts)
    if port and port not in {p.port for p in service.spec.ports or ()}:
        fix = "Make the Service and the webhook configuration use the same port."
        return failed(f"the webhook configuration calls port {port}, which the Service does not have", fix)
    return _ready(facts, service)


def _ready(facts: Facts, service: Service) -> Finding:
    if service.spec.type == "ExternalName":
        return ok(f"of type ExternalName, points to {service.spec.externalName}: Kubernetes knows no endpoints of it")
    if isinstance(facts.slices, Unread):
        return skipped(facts.slices)
    every = [endpoint for found in facts.slices for endpoint in found.endpoints or ()]
    ready = sum(endpoint.ready for endpoint in every)
    if ready:
        return ok(f"{ready} of {len(every)} endpoints are ready")
    release = facts.release
    fix = f"kubectl -n {release.namespace} get endpointslices,pods shows why; annotated objects are refused meanwhile"
    return failed(f"no endpoint of Service {release.namespace}/{release.fullname} is ready", fix)


def _called(facts: Facts) -> int:
    """The port that the entries call; 0 if unknown."""
    entries = facts.configuration.webhooks or () if isinstance(facts.configuration, Configuration) else ()
    return next((e.clientConfig.service.port for e in entries if e.clientConfig.service), 0)


def site_config(facts: Facts) -> Finding:
    """The ConfigMap contains a valid site config."""
    name = f"ConfigMap {facts.release.namespace}/{facts.release.fullname}"
    if isinstance(facts.site, Unread):
        return skipped(facts.site)
    if facts.site_error:
        fix = "Fix the chart's value `config` and upgrade; replicas keep using the last good one."
        return failed(f"{name} is invalid: {facts.site_error}", fix)
    if not isinstance(facts.site, Site):
        return failed(f"{name} is missing", f"helm upgrade {facts.release.name} CHART -n {facts.release.namespace}")
    return ok(f"platform {facts.site.config.platform}")
