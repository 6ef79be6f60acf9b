"""Reads a cluster and builds `Facts`. The only module here that does I/O; judges nothing.

Bounded: every call has the client's own timeout, lists have a maximum number of pages, and after `SECONDS` no
further call is made. What cannot be read becomes an `Unread` and only affects the checks that need it.
"""

import base64
import binascii
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from certs import api, keyring, rotation
from certs.api import Api, ApiError, NotFound, Object
from webhook import load
from webhook.check.asking import asked
from webhook.check.facts import (
    OPT_IN,
    Asked,
    Asking,
    Configuration,
    Deployment,
    DryRun,
    EndpointSlice,
    Facts,
    Namespace,
    Node,
    Nodes,
    Release,
    Service,
    Trust,
    Unread,
    installed,
)
from webhook.core.annotations import INJECTED, TYPE
from webhook.core.kinds.kind import Kind
from webhook.core.kinds.registry import WORKLOADS
from webhook.core.site import Site
from webhook.errors import BadConfig

NAME, NAMESPACE = "accel-injector", "accel-system"
"""The release to check if there is no webhook configuration."""
SECONDS = 20.0
"""After this no call is started; the last one takes at most its own timeout."""
AT_ONCE = 4
PAGE = 500
PAGES = 2
NODE_PAGES = 10
MAX_NAMESPACES = 25
"""Labelled namespaces whose objects are read."""

ADMISSION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
READ = tuple(workload for workload in WORKLOADS.values() if workload.reapply != "judged")
"""The kinds whose stored objects are read: what is injected in them stays there. The others become Pods and Jobs."""

LONGEST_ANSWER = 600
"""Characters of an error that are shown."""

PROBE_TYPE = "tpu-v4-8"
"""The type of the dry run: one host, and in the catalogue of every platform."""

T = TypeVar("T")


class Cluster:
    """Reads one cluster once."""

    def __init__(self, way: Api, name: str = "", namespace: str = "") -> None:
        self._api = way
        self._asked = (name, namespace)
        self._release = Release(name or NAME, namespace or NAMESPACE)
        self._until = time.monotonic() + SECONDS

    def facts(self) -> Facts:
        """Everything that can be read with these permissions; only the version if the API server does not respond."""
        version = self._version()
        if isinstance(version, Unread):
            return Facts(release=self._release, now=api.now(), version=version)
        found = self._several(ADMISSION, Configuration)
        releases = () if isinstance(found, Unread) else tuple(installed(found, *self._asked))
        if releases:
            self._release = next((r for r in releases if (r.name, r.namespace) == (NAME, NAMESPACE)), releases[0])
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return msgspec.structs.replace(self._all(pool, version, found), releases=releases)

    def _all(self, pool: ThreadPoolExecutor, version: str, found: tuple[Configuration, ...] | Unread) -> Facts:
        """The installation first, then the contents of its namespaces, while the nodes are listed."""
        nodes = pool.submit(self._nodes)
        namespaces = pool.submit(self._several, "/api/v1/namespaces", Namespace, {"labelSelector": OPT_IN})
        facts = msgspec.structs.replace(
            self._installation(pool, version),
            namespaces=namespaces.result(),
            others=_without(found, self._release.fullname),
        )
        site = facts.site if isinstance(facts.site, Site) else load.load()
        return msgspec.structs.replace(
            facts, asking=self._asking(pool, facts, site), nodes=nodes.result(), dry_run=self._dry_run(facts)
        )

    def _installation(self, pool: ThreadPoolExecutor, version: str) -> Facts:
        """What the chart created."""
        name, within = self._release.fullname, f"namespaces/{self._release.namespace}"
        of_service = {"labelSelector": f"kubernetes.io/service-name={name}"}
        configuration = pool.submit(self._one, f"{ADMISSION}/{name}", Configuration)
        service = pool.submit(self._one, f"/api/v1/{within}/services/{name}", Service)
        slices = pool.submit(
            self._several, f"/apis/discovery.k8s.io/v1/{within}/endpointslices", EndpointSlice, of_service
        )
        deployment = self._one(f"/apis/apps/v1/{within}/deployments/{name}", Deployment)
        site, site_error = _site(self._one(f"/api/v1/{within}/configmaps/{name}", dict[str, Any]))
        return Facts(
            release=self._release,
            now=api.now() - self._api.clock_ahead,
            version=version,
            configuration=configuration.result(),
            deployment=deployment,
            service=service.result(),
            slices=slices.result(),
            trust=self._trust(deployment),
            site=site,
            site_error=site_error,
        )

    # --- one call --------------------------------------------------------------------------------------------------

    def _version(self) -> str | Unread:
        found = self._call("get on /version", lambda: self._api.get("/version"))
        return found if isinstance(found, Unread) else str(found.get("gitVersion", ""))

    def _call(self, needs: str, ask: Callable[[], T]) -> T | Unread:
        """The response, or why there is none."""
        if time.monotonic() > self._until:
            return Unread(needs, 0, f"not read: earlier calls took more than {SECONDS:.0f} s")
        try:
            return ask()
        except ApiError as error:
            return Unread(needs, error.status, str(error)[:LONGEST_ANSWER])

    def _one(self, path: str, form: type[T]) -> T | Unread | None:
        """The object at a path."""

        def ask() -> T | None:
            try:
                return _as(self._api.get(path), form)
            except NotFound:
                return None

        return self._call(_needs("get", path.rpartition("/")[0]), ask)

    def _several(self, path: str, form: type[T], query: dict[str, str] | None = None) -> tuple[T, ...] | Unread:
        found = self._pages(path, form, PAGES, query)
        return found if isinstance(found, Unread) else found[0]

    def _pages(
        self, path: str, form: type[T], max_pages: int, query: dict[str, str] | None = None
    ) -> tuple[tuple[T, ...], bool] | Unread:
        """The items of a list, and whether the list is complete."""
        items: list[T] = []
        following = ""
        for _ in range(max_pages):
            page = self._call(
                _needs("list", path), partial(self._page, path, form, {**(query or {}), **_from(following)})
            )
            if isinstance(page, Unread):
                return (tuple(items), False) if items else page
            items += page[0]
            following = page[1]
            if not following:
                return tuple(items), True
        return tuple(items), False

    def _page(self, path: str, form: type[T], query: dict[str, str]) -> tuple[list[T], str]:
        """One page, and the continue token of the next. Raises ApiError."""
        page = self._api.get(f"{path}?{urlencode(query)}")
        following = str((page.get("metadata") or {}).get("continue") or "")
        return [_as(item, form) for item in page.get("items") or []], following

    # --- several calls ---------------------------------------------------------------------------------------------

    def _nodes(self) -> Nodes | Unread:
        found = self._pages("/api/v1/nodes", Node, NODE_PAGES)
        return found if isinstance(found, Unread) else Nodes(*found)

    def _trust(self, deployment: Deployment | Unread | None) -> Trust | Unread | None:
        """The certificates in the Secret that the Deployment mounts, or in the one that its replicas share."""
        mounted = deployment.secret if isinstance(deployment, Deployment) else ""
        name = mounted or f"{self._release.fullname}-ca"
        secret = self._one(f"/api/v1/namespaces/{self._release.namespace}/secrets/{name}", dict[str, Any])
        if secret is None or isinstance(secret, Unread):
            return secret
        data = secret.get("data") or {}
        if mounted:
            return Trust(name, leaf=_decoded(data.get("tls.crt", "")))
        ring = keyring.from_secret(data, {})
        pair = rotation.signer(ring, api.now()) or ring.signing or ring.upcoming
        return Trust(name, signing=pair.certificate if pair else b"")

    def _asking(self, pool: ThreadPoolExecutor, facts: Facts, site: Site) -> Asking:
        """What asks for an accelerator, in labelled namespaces."""
        names = [namespace.name for namespace in facts.labelled]
        places = [
            (workload, f"{path}/namespaces/{quote(name)}/{workload.plural}")
            for workload, path in self._served()
            for name in names[:MAX_NAMESPACES]
        ]
        answers = list(pool.map(lambda place: self._pages(place[1], Object, PAGES), places))
        found: list[Asked] = []
        unread: dict[str, Unread] = {}
        left_out = [f"{len(names) - MAX_NAMESPACES} more namespaces"] if len(names) > MAX_NAMESPACES else []
        for (workload, path), answer in zip(places, answers, strict=True):
            if isinstance(answer, Unread):
                unread.setdefault(answer.needs, answer)
                continue
            found += [template for item in answer[0] for template in asked(workload, item, site)]
            left_out += [] if answer[1] else [f"more than {len(answer[0])} {_what(path)}"]
        return Asking(tuple(found), tuple(unread.values()), tuple(left_out))

    def _served(self) -> Iterable[tuple[Kind[Any], str]]:
        """The kinds that this cluster knows, each with the path of its version."""
        for workload in READ:
            path = f"/apis/{workload.group}/{workload.versions[-1]}" if workload.group else "/api/v1"
            known = self._one(path, dict[str, Any]) if workload.group not in ("", "batch") else {}
            if known is not None:
                yield workload, path

    def _dry_run(self, facts: Facts) -> DryRun | Unread | None:
        """A Pod that asks for an accelerator, in the first labelled namespace. None without one."""
        if not facts.labelled:
            return None
        namespace = facts.labelled[0].name
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
        answer = self._call(_needs("create", path.partition("?")[0]), lambda: self._api.post(path, probe()))
        if not isinstance(answer, Unread):
            return _came_back(namespace, answer)
        if answer.status == 0 or "cannot create resource" in answer.why:
            return answer
        return DryRun(namespace, PROBE_TYPE, answer.status, _message(answer))


def probe() -> Object:
    """A Pod that asks for an accelerator and is allowed by PodSecurity `restricted` and by quotas."""
    resources = {"cpu": "10m", "memory": "16Mi"}
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": resources, "limits": resources},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "accel-check-", "annotations": {TYPE: PROBE_TYPE}},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    }


def _came_back(namespace: str, pod: Object) -> DryRun:
    limits = pod["spec"]["containers"][0].get("resources", {}).get("limits") or {}
    devices = tuple((key, str(amount)) for key, amount in limits.items() if "/" in key)
    injected = (pod["metadata"].get("annotations") or {}).get(INJECTED, "")
    return DryRun(namespace, PROBE_TYPE, 201, injected=injected, limits=devices)


def _message(answer: Unread) -> str:
    """The API server's own message, without our request and the name of the status."""
    return answer.why.partition(f": {answer.status} ")[2].partition(": ")[2] or answer.why


def _site(settings: dict[str, Any] | Unread | None) -> tuple[Site | Unread | None, str]:
    """The site config as the webhook reads it, or why it cannot."""
    if settings is None or isinstance(settings, Unread):
        return settings, ""
    text = str((settings.get("data") or {}).get("config.yaml", ""))
    try:
        return Site.parse(text.encode(), "config.yaml", load.builtin()), ""
    except BadConfig as error:
        return None, str(error)


def _from(following: str) -> dict[str, str]:
    """The query of a page: the first, or the next."""
    return {"limit": str(PAGE), **({"continue": following} if following else {})}


def _without(found: tuple[Configuration, ...] | Unread, name: str) -> tuple[Configuration, ...] | Unread:
    return found if isinstance(found, Unread) else tuple(c for c in found if c.metadata.name != name)


def _as(value: Any, form: type[T]) -> T:
    """A typed view of an object; a response of an unexpected shape is an error of the API server."""
    try:
        return msgspec.convert(value, form)
    except msgspec.ValidationError as error:
        raise ApiError(0, f"a response of an unexpected shape: {error}") from None


def _needs(verb: str, path: str) -> str:
    """The permission that a request needs, as in RBAC: `list on pods in team-a`."""
    return f"{verb} on {_what(path)}"


def _what(path: str) -> str:
    """The collection at a path, for people: `pods in team-a`."""
    namespace, _, resource = path.partition("/namespaces/")[2].partition("/")
    return f"{resource} in {namespace}" if resource else path.rpartition("/")[2]


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        return b""
