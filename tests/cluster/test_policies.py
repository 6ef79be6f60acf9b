"""The chart's ValidatingAdmissionPolicies on a real API server: what each refuses, and whom it leaves alone."""

import base64
from collections.abc import Callable
from typing import Any

import pytest

from . import chart
from .controlplane import ControlPlane, expect
from .rest import Answer

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
KEY = "accel.io/whole-node"
LABEL = {KEY: "true"}
ALIKE = {"matchExpressions": [{"key": KEY, "operator": "Exists"}]}
TERM: dict[str, Any] = {
    "labelSelector": ALIKE,
    "namespaceSelector": {},
    "topologyKey": "kubernetes.io/hostname",
}
HOST = {"accel.io/type": "nvidia-h100-80gb", "accel.io/mode": "host"}
PROFILE = {"types": ["nvidia-*"], "namespaces": ["test-*"], "devices": ["/dev/nvidiactl"], "exclusiveNode": True}
VALUES = {"config": {"platform": "none", "hostProfiles": {"devices": PROFILE}}}


def test_the_api_server_finds_no_fault_in_them(injector: chart.Release) -> None:
    """Its type checker has looked at every expression, and has nothing to say."""
    for name in (f"{injector.fullname}-whole-node", f"{injector.fullname}-certs"):

        def checked(name: str = name) -> Any:
            return injector.cluster.get(f"{POLICIES}/{name}").get("status", {}).get("typeChecking")

        injector.wait_for(f"the type checking of {name}", lambda checked=checked: checked() is not None)
        assert checked() == {}


# The label of mode host


def pod(labels: dict[str, str], *terms: dict[str, Any], name: str = "train") -> dict[str, Any]:
    """A Pod with one container, these labels, and these terms of required anti-affinity."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}
    spec = {"containers": [{"name": "main", "image": "example/train"}], "affinity": {"podAntiAffinity": required}}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def create(cluster: ControlPlane, namespace: str, body: dict[str, Any]) -> Answer:
    return cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)


def dry_run(cluster: ControlPlane, namespace: str, body: dict[str, Any]) -> Answer:
    return cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body, {"dryRun": "All"})


def refused(answer: Answer) -> bool:
    """By our policy, and the message says which label, and what to write."""
    if answer.ok:
        return False
    message = answer.body["message"]
    return answer.status == 422 and "-whole-node' denied request: " in message and f"metadata.labels: {KEY} " in message


@pytest.fixture(scope="module")
def guarded(injector: chart.Release) -> chart.Release:
    """The installation, once the API server has taken up its policies."""
    cluster = injector.cluster
    injector.wait_for("the policy", lambda: refused(dry_run(cluster, "default", pod(LABEL))))
    return injector


NOT_OURS: dict[str, dict[str, Any]] = {
    "another node domain": {**TERM, "topologyKey": "topology.kubernetes.io/zone"},
    "nobody": {**TERM, "labelSelector": {**ALIKE, "matchLabels": {"no": "body"}}},
    "everybody": {key: value for key, value in TERM.items() if key != "labelSelector"},
    "other expressions": {**TERM, "labelSelector": {"matchExpressions": [*ALIKE["matchExpressions"] * 2]}},
    "its own namespace": {key: value for key, value in TERM.items() if key != "namespaceSelector"},
    "labelled namespaces": {**TERM, "namespaceSelector": {"matchLabels": {"accel.io/injection": "enabled"}}},
    "named namespaces": {**TERM, "namespaces": ["nowhere"]},
    "keys to match": {**TERM, "matchLabelKeys": ["pod-template-hash"]},
    "keys to differ in": {**TERM, "mismatchLabelKeys": ["pod-template-hash"]},
}
"""Terms that look like ours, and keep fewer Pods away, or none."""


@pytest.mark.parametrize("term", NOT_OURS.values(), ids=NOT_OURS)
def test_the_label_with_another_term_is_refused(guarded: chart.Release, namespace: str, term: dict[str, Any]) -> None:
    """A field more, a field less, another value: the Pod would keep others away and not be kept away itself."""
    labels = {**LABEL, "pod-template-hash": "a"}

    assert refused(dry_run(guarded.cluster, namespace, pod(labels, term)))
    assert dry_run(guarded.cluster, namespace, pod(labels, term, TERM)).ok


@pytest.mark.parametrize("value", ["true", "", "no"])
def test_the_label_needs_the_term_in_every_namespace(guarded: chart.Release, namespace: str, value: str) -> None:
    """Whatever its value, labelled namespace or not: one may be labelled when its Pods are there."""
    cluster = guarded.cluster
    for place in (namespace, "default"):
        assert refused(dry_run(cluster, place, pod({KEY: value})))
    assert dry_run(cluster, namespace, pod({KEY: value}, TERM)).ok
    assert dry_run(cluster, namespace, pod({})).ok
    assert dry_run(cluster, "kube-system", pod({KEY: value})).ok


def test_the_label_cannot_be_added_later(guarded: chart.Release, namespace: str) -> None:
    """By no kind of update; all other updates of the Pod pass, and those of Pods that have label and term."""
    cluster = guarded.cluster
    expect(create(cluster, namespace, pod({}, name="plain")), "the plain pod")
    expect(create(cluster, namespace, pod(LABEL, TERM, name="whole")), "the other pod")

    def update(name: str, labels: dict[str, str | None], content: str = "") -> Answer:
        body = {"metadata": {"labels": labels}}
        return cluster.request("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}", body, content=content)

    for value in ("true", ""):
        for content in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
            assert refused(update("plain", {KEY: value}, content))
    assert update("plain", {"a": "b"}).ok
    assert update("whole", {KEY: "other", "a": "b"}).ok
    assert update("whole", {KEY: None}).ok


def test_a_pod_from_before_the_policy_is_left_alone(guarded: chart.Release, namespace: str) -> None:
    """A Pod that had the label before can be updated, and can lose it; it cannot get another, nor the same again."""
    cluster, bindings = guarded.cluster, f"{POLICIES.removesuffix('ies')}ybindings"
    binding = cluster.get(f"{bindings}/{guarded.fullname}-whole-node")
    expect(cluster.request("DELETE", f"{bindings}/{guarded.fullname}-whole-node"), "the binding's end")
    cluster.wait_for("the policy to be gone", lambda: create(cluster, namespace, pod(LABEL)).ok)
    body = {**binding, "metadata": {key: binding["metadata"][key] for key in ("name", "labels", "annotations")}}
    expect(cluster.request("POST", bindings, body), "the binding")
    cluster.wait_for("the policy", lambda: refused(dry_run(cluster, namespace, pod(LABEL, name="another"))))

    def update(**metadata: Any) -> Answer:
        path = f"/api/v1/namespaces/{namespace}/pods/train"
        return cluster.request("PATCH", path, {"metadata": metadata})

    assert update(annotations={"a": "b"}).ok
    assert refused(update(labels={KEY: "other"}))
    assert update(labels={KEY: None}).ok
    assert refused(update(labels=LABEL))


def test_mode_host_passes(guarded: chart.Release, namespace: str) -> None:
    """A Deployment's Pods in mode host: the webhook gives them label and term, and the policy finds both."""
    cluster = guarded.cluster
    main = {"containers": [{"name": "main", "image": "example/serve"}]}
    template = {"metadata": {"labels": {"app": "serve"}, "annotations": HOST}, "spec": main}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "serve"}}, "template": template}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    expect(cluster.request("POST", path, {"metadata": {"name": "serve"}, "spec": spec}), "the Deployment")

    pods = cluster.wait_for("two Pods", lambda: (found := cluster.pods(namespace)) and len(found) == 2 and found)
    assert [found["metadata"]["labels"][KEY] for found in pods] == ["true", "true"]


def test_nobody_waits_for_the_label_alone(guarded: chart.Release, namespace: str) -> None:
    """A Pod that would occupy a node by its label is not stored, in a namespace without injection either."""
    cluster = guarded.cluster
    elsewhere = cluster.namespace({})
    for place in (namespace, elsewhere):
        body = pod(LABEL)
        body["spec"]["nodeName"] = "gke-h100"
        assert refused(create(cluster, place, body))
        assert cluster.pods(place) == []
    cluster.delete_namespace(elsewhere)


# The certificates' account


def entries(release: chart.Release) -> int:
    return len(release.webhook_configuration["webhooks"])


def as_certs(release: chart.Release) -> Callable[..., Answer]:
    """JSON patches of the webhook configuration, by the account of the certificates' container, dry run."""
    api = release.cluster.as_service_account(release.namespace, release.fullname)
    path, content = f"{CONFIGURATIONS}/{release.fullname}", "application/json-patch+json"

    def patch(*operations: dict[str, Any]) -> Answer:
        return api.request("PATCH", path, list(operations), {"dryRun": "All"}, content=content)

    return patch


def put(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


ENTRY = {"clientConfig": {"url": "https://example.com/"}, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
OWNER = {"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "1"}
FORBIDDEN: list[tuple[dict[str, Any], str]] = [
    (put("/webhooks/0/rules/0/resources", ["*"]), "webhooks[pods.accel.io]"),
    (put("/webhooks/0/rules/0/operations", ["*"]), "webhooks[pods.accel.io]"),
    (put("/webhooks/0/namespaceSelector", {}), "webhooks[pods.accel.io]"),
    (put("/webhooks/0/objectSelector", {"matchLabels": {"a": "b"}}), "webhooks[pods.accel.io]"),
    (put("/webhooks/0/matchConditions", []), "webhooks[pods.accel.io]"),
    (put("/webhooks/0/failurePolicy", "Ignore"), "webhooks[pods.accel.io]"),
    (put("/webhooks/0/timeoutSeconds", 30), "webhooks[pods.accel.io]"),
    (put("/webhooks/0/matchPolicy", "Exact"), "webhooks[pods.accel.io]"),
    (put("/webhooks/0/reinvocationPolicy", "Never"), "webhooks[pods.accel.io]"),
    (put("/webhooks/0/sideEffects", "NoneOnDryRun"), "webhooks[pods.accel.io]"),
    (put("/webhooks/0/clientConfig/service/name", "other"), "webhooks[pods.accel.io].clientConfig"),
    (put("/webhooks/0/clientConfig/service/path", "/other"), "webhooks[pods.accel.io].clientConfig"),
    (put("/webhooks/0/clientConfig", {"url": "https://example.com/"}), "webhooks[pods.accel.io].clientConfig"),
    (put("/webhooks/0/name", "other.accel.io"), "the entries and their order"),
    (put("/webhooks/-", {**ENTRY, "name": "another.accel.io"}), "the entries and their order"),
    ({"op": "remove", "path": "/webhooks/1"}, "the entries and their order"),
    ({"op": "remove", "path": "/webhooks"}, "the entries and their order"),
    ({"op": "move", "from": "/webhooks/1", "path": "/webhooks/0"}, "the entries and their order"),
    (put("/metadata/labels/a", "b"), "metadata"),
    (put("/metadata/annotations", {"a": "b"}), "metadata"),
    (put("/metadata/finalizers", ["example.com/a"]), "metadata"),
    (put("/metadata/ownerReferences", [OWNER]), "metadata"),
]


@pytest.mark.parametrize(("operation", "part"), FORBIDDEN, ids=[f"{o['op']} {o['path']}" for o, _ in FORBIDDEN])
def test_the_account_may_change_nothing_else(guarded: chart.Release, operation: dict[str, Any], part: str) -> None:
    """Not even together with what it may change; the message says which part would have changed. An admin may."""
    bundle = put("/webhooks/0/clientConfig/caBundle", base64.b64encode(guarded.cluster.ca.certificate).decode())
    answer = as_certs(guarded)(bundle, operation)
    assert answer.status == 403
    assert answer.body["message"].endswith(f"this would change {part}")

    path, content = f"{CONFIGURATIONS}/{guarded.fullname}", "application/json-patch+json"
    admin = guarded.cluster.request("PATCH", path, [operation], {"dryRun": "All"}, content=content)
    assert "denied request" not in str(admin.body)


def test_the_account_may_change_the_bundle(guarded: chart.Release) -> None:
    """In one entry, in all of them, to nothing."""
    patch, every = as_certs(guarded), range(entries(guarded))
    ca = base64.b64encode(guarded.cluster.ca.certificate).decode()
    assert patch(put("/webhooks/0/clientConfig/caBundle", ca)).ok
    assert patch(*(put(f"/webhooks/{number}/clientConfig/caBundle", ca) for number in every)).ok
    assert patch({"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}).ok


def test_five_times_as_many_entries_are_not_too_many(guarded: chart.Release) -> None:
    """The expressions' cost grows with the entries squared, and the API server has a budget for it."""
    cluster, path = guarded.cluster, f"{CONFIGURATIONS}/{guarded.fullname}"
    before = guarded.webhook_configuration
    copies = [{**w, "name": f"copy{n}.{w['name']}"} for n in range(4) for w in before["webhooks"]]
    expect(cluster.request("PATCH", path, {"webhooks": [*before["webhooks"], *copies]}), "the copies")

    answer = as_certs(guarded)(put("/webhooks/0/clientConfig/caBundle", ""))
    expect(cluster.request("PATCH", path, {"webhooks": before["webhooks"]}), "the entries as they were")
    assert answer.ok, answer.body
