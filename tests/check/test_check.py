"""The checks of `accel check` as functions of facts; what a real cluster shows is in tests/cluster/test_check.py."""

import base64
import json
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from certs import api
from certs.pki import KeyPair, issue, new_ca, service_names
from tests.support.case import NAMESPACE, all_cases
from tests.support.chart import MODES, at, one, render
from tests.support.checkout import ROOT
from webhook import load
from webhook.check import cluster, report
from webhook.check.asking import asked
from webhook.check.checks import CHECKS, judge
from webhook.check.cluster import Cluster
from webhook.check.facts import (
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
    Selector,
    Service,
    Trust,
    Unread,
    installed,
)
from webhook.check.finding import MAX_DETAILS, Finding, warning
from webhook.command import terminal
from webhook.core.kinds.registry import WORKLOADS
from webhook.core.site import Site

NOW = datetime(2026, 6, 1, tzinfo=UTC)
RELEASE = Release("accel-injector", "accel-system")
CA = new_ca(NOW - timedelta(days=1))
SITE = load.load()
V4_16 = SITE.catalogue.resolve("tpu-v4-16")


def bundled(ca: KeyPair | None) -> str:
    return base64.b64encode(ca.certificate).decode() if ca else ""


def configuration(values: dict[str, Any] | None = None, ca: KeyPair | None = CA, **entry: Any) -> Configuration:
    """What the chart makes, with a caBundle, and with these fields in each entry."""
    found = one(render(values), "MutatingWebhookConfiguration")
    for webhook in found["webhooks"]:
        webhook["clientConfig"]["caBundle"] = bundled(ca)
        webhook.update(entry)
    return msgspec.convert(found, Configuration)


def deployment(values: dict[str, Any] | None = None, **status: int) -> Deployment:
    """What the chart makes, with both replicas ready."""
    ready = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}
    found = one(render(values), "Deployment")
    found["metadata"]["generation"] = 1
    return msgspec.convert({**found, "status": {**ready, **status}}, Deployment)


def scaled(replicas: int) -> Deployment:
    found = deployment()
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, replicas=replicas))


def namespace(name: str = "team-a", phase: str = "Active", **labels: str) -> Namespace:
    found = {"metadata": {"name": name, "labels": labels or {"accel.io/injection": "enabled"}}}
    return msgspec.convert({**found, "status": {"phase": phase}}, Namespace)


def node(topology: str = "2x2x2", chips: str = "4", ready: str = "True", cordoned: bool = False) -> Node:
    labels = {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v4-podslice",
        "cloud.google.com/gke-tpu-topology": topology,
    }
    status = {"allocatable": {"google.com/tpu": chips}, "conditions": [{"type": "Ready", "status": ready}]}
    found = {"metadata": {"name": "n", "labels": labels}, "spec": {"unschedulable": cordoned}, "status": status}
    return msgspec.convert(found, Node)


def endpoints(*ready: bool | None) -> tuple[EndpointSlice, ...]:
    found = {"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": r}} for r in ready]}
    return (msgspec.convert(found, EndpointSlice),)


TRAINER = Asked("Pod", "team-a", "train", V4_16, devices=4, injected=True)

HEALTHY = Facts(
    release=RELEASE,
    now=NOW,
    version="v1.37.2-gke.100",
    configuration=configuration(),
    deployment=deployment(),
    service=msgspec.convert(one(render(), "Service"), Service),
    slices=endpoints(True, True),
    trust=Trust("accel-injector-ca", signing=CA.certificate),
    site=SITE,
    namespaces=(namespace(),),
    nodes=Nodes((node(), node())),
    asking=Asking((TRAINER,)),
    dry_run=DryRun("team-a", "tpu-v4-8", 201, injected="tpu-v4-8", limits=(("google.com/tpu", "4"),)),
)


def finding(name: str, **changed: Any) -> Finding:
    """What one check says of a healthy cluster with these facts changed."""
    return dict(judge(msgspec.structs.replace(HEALTHY, **changed)))[name]


def test_a_healthy_cluster() -> None:
    """Every check is ok, and says something."""
    judged = judge(HEALTHY)

    assert {"ok"} == {found.status for _, found in judged}
    assert all(found.message and not found.fix for _, found in judged)
    assert len(CHECKS) == len(judged) == len(dict(judged))


RENDERINGS = {
    "defaults": {},
    "Ignore": at("webhook.failurePolicy", "Ignore"),
    "detect": at("config.detect", ["nvidia.com/gpu"]),
    "excluded": at("webhook.excludedNamespaces", ["team-z"]),
    "timeout": at("webhook.timeoutSeconds", 10),
    **MODES,
}


@pytest.mark.parametrize("name", RENDERINGS)
def test_whatever_the_chart_renders_is_as_the_chart_makes_it(name: str) -> None:
    """No value of the chart looks like an edit."""
    found = finding("configuration", configuration=configuration(RENDERINGS[name]))

    assert "ok" == found.status, found
    assert ("without their accelerator" in found.message) == (name == "Ignore")


def test_the_full_name_is_the_charts() -> None:
    """As the chart's own template has it, cut at 40 characters."""
    for name in ("accel-injector", "tpu", "my-accel-injector", "a" * 45):
        objects = render(name=name)
        made = [o["metadata"]["name"] for o in objects if o["kind"] == "MutatingWebhookConfiguration"]
        assert made == [Release(name, "accel-system").fullname]


def unlike(edit: dict[str, Any]) -> dict[str, Any]:
    return {"configuration": configuration(**edit)}


def entries(*kept: str) -> Configuration:
    found = configuration()
    return msgspec.structs.replace(found, webhooks=[w for w in found.webhooks or () if w.name in kept])


def old(ca: KeyPair, **changed: Any) -> dict[str, Any]:
    return {"configuration": configuration(ca=ca), "trust": Trust("s", signing=ca.certificate), **changed}


def leaf(lifetime: timedelta, issued: datetime = NOW, service: str = "accel-injector") -> dict[str, Any]:
    """Facts of existing-secret: the Secret's certificate and an entry that trusts its CA."""
    values = MODES["existing-secret"]
    made = issue(CA, service_names(service, "accel-system"), issued, lifetime)
    trust = Trust("given", leaf=made.certificate)
    return {"configuration": configuration(values), "deployment": deployment(values), "trust": trust}


def refused(message: str, status: int = 500) -> dict[str, Any]:
    return {"dry_run": DryRun("team-a", "tpu-v4-8", status, message=message)}


def mutating(name: str, entry: str, reinvocation: str = "Never", of: str = "pods", **selector: Any) -> Configuration:
    group = "" if of == "pods" else "batch"
    rules = [{"apiGroups": [group], "apiVersions": ["v1"], "resources": [of], "operations": ["*"]}]
    webhook = {"name": entry, "rules": rules, "reinvocationPolicy": reinvocation, "namespaceSelector": selector}
    return msgspec.convert({"metadata": {"name": name}, "webhooks": [webhook]}, Configuration)


def site(**settings: Any) -> Site:
    return Site.parse(json.dumps(settings).encode(), "config.yaml", load.builtin())


def profiles(**profile: Any) -> Site:
    return site(hostProfiles={"amd": {"types": ["amd-*"], **profile}})


DISK = {"libraries": [{"hostPath": "/opt/amd", "mountPath": "/opt/amd"}], "modes": ["plugin"]}
BASELINE = namespace(**{"accel.io/injection": "enabled", "pod-security.kubernetes.io/enforce": "baseline"})
PULL_AWAY = {"matchLabels": {"istio-injection": "enabled"}}
ASKED = Asked("Pod", "team-a", "p", SITE.catalogue.resolve("nvidia-gpu"), devices=2, injected=True)
UNTOUCHED = msgspec.structs.replace(TRAINER, injected=False)
LOST = Unread("list on pods in team-a", 403, "forbidden")

STATES: list[tuple[str, str, str, dict[str, Any]]] = [
    # check, status, words of the message, a detail or the fix, facts
    ("api-server", "failed", "version v1.30.4 drops matchLabelKeys", {"version": "v1.30.4"}),
    ("api-server", "ok", "version v2.0.0", {"version": "v2.0.0"}),
    ("api-server", "failed", "cannot be reached: nobody", {"version": Unread("get", 0, "nobody")}),
    ("api-server", "failed", "does not accept your credentials", {"version": Unread("get", 401, "no")}),
    ("configuration", "failed", "nothing is injected", {"configuration": None}),
    ("configuration", "failed", "sends CREATE of jobs.batch", {"configuration": entries("pods.accel.io")}),
    ("configuration", "failed", "reinvocationPolicy Never", unlike({"reinvocationPolicy": "Never"})),
    ("configuration", "failed", "matchPolicy Exact", unlike({"matchPolicy": "Exact"})),
    ("configuration", "failed", "sideEffects Unknown", unlike({"sideEffects": "Unknown"})),
    ("configuration", "failed", "no matchConditions", unlike({"matchConditions": []})),
    ("configuration", "failed", "an objectSelector", unlike({"objectSelector": {"matchLabels": {"a": "b"}}})),
    ("configuration", "failed", "does not call Service", unlike({"clientConfig": {"url": "https://example.com/"}})),
    ("configuration", "failed", "reapply.accel.io: failurePolicy Fail", unlike({"failurePolicy": "Fail"})),
    ("configuration", "failed", "does not exclude kube-system", unlike({"namespaceSelector": {}})),
    (
        "configuration",
        "failed",
        "detect.accel.io is missing",
        {"site": site(detect=["a/b"])},
    ),
    ("deployment", "failed", "there is no Deployment", {"deployment": None}),
    ("deployment", "failed", "scaled to 0", {"deployment": scaled(0)}),
    ("deployment", "failed", "0 of 2 replicas", {"deployment": deployment(readyReplicas=0)}),
    ("deployment", "warning", "1 of 2 replicas", {"deployment": deployment(readyReplicas=1)}),
    ("deployment", "warning", "a rollout", {"deployment": deployment(updatedReplicas=1)}),
    ("deployment", "warning", "a rollout", {"deployment": deployment(observedGeneration=0)}),
    ("deployment", "warning", "a rollout", {"deployment": deployment(replicas=3)}),
    ("endpoints", "failed", "there is no Service", {"service": None}),
    ("endpoints", "failed", "is ready", {"slices": ()}),
    ("endpoints", "failed", "is ready", {"slices": endpoints(False)}),
    ("endpoints", "ok", "1 of 2 endpoints", {"slices": endpoints(False, None)}),
    ("endpoints", "failed", "calls port 443", {"service": Service()}),
    ("endpoints", "skipped", "needs list on pods", {"slices": LOST}),
    ("site-config", "failed", "is missing", {"site": None}),
    ("site-config", "failed", "is invalid: $.x", {"site": None, "site_error": "$.x is not a known key"}),
    ("ca-bundle", "failed", "have no readable caBundle", {"configuration": configuration(ca=None)}),
    ("ca-bundle", "failed", "do not trust the CA", {"configuration": configuration(ca=new_ca(NOW))}),
    ("ca-bundle", "failed", "the Secret with the certificates is missing", {"trust": None}),
    ("ca-bundle", "failed", "contains no readable certificate", {"trust": Trust("s")}),
    ("ca-bundle", "failed", "does not accept", refused('failed calling webhook "pods.accel.io": x509: unknown')),
    ("ca-bundle", "ok", "trust the CA", refused('failed calling webhook "mpod.kb.io": x509: unknown')),
    ("ca-bundle", "ok", "trust the certificate in Secret given", leaf(timedelta(days=90))),
    ("ca-bundle", "failed", "do not trust the certificate", leaf(timedelta(days=90), service="other")),
    (
        "ca-bundle",
        "failed",
        "do not trust the certificate",
        leaf(timedelta(days=9)) | {"trust": Trust("s", leaf=b"x")},
    ),
    ("expiry", "ok", "89d", leaf(timedelta(days=90), NOW - timedelta(seconds=1))),
    ("expiry", "warning", "expires soon", leaf(timedelta(days=13))),
    ("expiry", "failed", "expired", leaf(timedelta(hours=1), NOW - timedelta(hours=2))),
    ("expiry", "ok", "29d", old(new_ca(NOW - timedelta(days=61), timedelta(days=90)))),
    ("expiry", "warning", "-c certs", old(new_ca(NOW - timedelta(days=80), timedelta(days=90)))),
    ("expiry", "failed", "expired", old(new_ca(NOW - timedelta(days=91), timedelta(days=90)))),
    ("expiry", "ok", "CA in caBundle", {"trust": LOST}),
    ("expiry", "skipped", "needs list on pods", {"trust": LOST, "configuration": None}),
    ("namespaces", "warning", "no namespace has opted in", {"namespaces": ()}),
    ("namespaces", "warning", "no namespace has opted in", {"namespaces": (namespace(phase="Terminating"),)}),
    ("namespaces", "warning", "accel-system is labelled but never", {"namespaces": (namespace("accel-system"),)}),
    (
        "namespaces",
        "warning",
        "team-a is labelled but never",
        {"configuration": configuration(at("webhook.excludedNamespaces", ["team-a"]))},
    ),
    ("dry-run", "skipped", "needs a labelled namespace", {"dry_run": None}),
    ("dry-run", "failed", "came back without devices", {"dry_run": DryRun("team-a", "tpu-v4-8", 201)}),
    ("dry-run", "failed", "firewall", refused('failed calling webhook "pods.accel.io": context deadline exceeded')),
    ("dry-run", "failed", "endpoints", refused('failed calling webhook "pods.accel.io": connection refused')),
    ("dry-run", "failed", "ca-bundle", refused('failed calling webhook "pods.accel.io": x509: signed by unknown')),
    ("dry-run", "failed", "firewall", refused('failed calling webhook "pods.accel.io": EOF')),
    ("dry-run", "warning", "but refuses", refused('admission webhook "pods.accel.io" denied the request: no', 422)),
    ("dry-run", "warning", "something else", refused('failed calling webhook "mpod.kb.io": connection refused')),
    ("dry-run", "warning", "something else", refused("pods is forbidden: exceeded quota: chips", 403)),
    (
        "objects",
        "warning",
        "were not injected",
        {"asking": Asking((UNTOUCHED,))},
    ),
    ("objects", "warning", "no such", {"asking": Asking((Asked("Job", "a", "b", refused="no such"),))}),
    ("objects", "skipped", "needs list on pods", {"asking": Asking(unread=(LOST,))}),
    ("objects", "ok", "not read: more than 1000", {"asking": Asking((TRAINER,), left_out=("more than 1000 pods",))}),
    ("nodes", "ok", "no type is in use yet", {"asking": Asking()}),
    ("nodes", "warning", "1 of 2 nodes", {"nodes": Nodes((node(),))}),
    ("nodes", "warning", "0 of 2 nodes", {"nodes": Nodes((node("2x2x4"), node(chips="0")))}),
    ("nodes", "warning", "0 of 2 nodes", {"nodes": Nodes((node(ready="Unknown"), node(cordoned=True)))}),
    ("nodes", "warning", "among the first 1", {"nodes": Nodes((node(),), complete=False)}),
    ("nodes", "warning", "any label; nvidia.com/gpu: 2", {"asking": Asking((ASKED,))}),
    ("injectors", "ok", "nothing else", {"others": (mutating("istio", "x.istio.io", **PULL_AWAY),)}),
    ("injectors", "ok", "istio (x.istio.io)", {"others": (mutating("istio", "x.istio.io"),)}),
    ("injectors", "ok", "KubeRay's TPU webhook", {"others": (mutating("kuberay-tpu-webhook", "x.y.z"),)}),
    ("injectors", "ok", "Kueue", {"others": (mutating("kueue-mutating", "mpod.kb.io"),)}),
    ("injectors", "warning", "before they have", {"others": (mutating("a-kueue", "mpod.kb.io"),)}),
    ("injectors", "ok", "a-kueue", {"others": (mutating("a-kueue", "mjob.kb.io", of="jobs"),)}),
    ("injectors", "ok", "a-kueue", {"others": (mutating("a-kueue", "mpod.kb.io", "IfNeeded"),)}),
    ("injectors", "warning", "hami.io/webhook=ignore", {"others": (mutating("hami", "vgpu.hami.io"),)}),
    (
        "pod-security",
        "warning",
        "amd needs /opt/amd",
        {"namespaces": (BASELINE,), "site": profiles(namespaces=["team-*"], **DISK)},
    ),
    (
        "pod-security",
        "ok",
        "no PodSecurity level",
        {"namespaces": (BASELINE,), "site": profiles(namespaces=["b"], **DISK)},
    ),
    ("pod-security", "ok", "no PodSecurity level", {"site": profiles(namespaces=["team-*"], **DISK)}),
    ("pod-security", "skipped", "no site config", {"site": None}),
]


@pytest.mark.parametrize(("name", "status", "words", "facts"), STATES, ids=[f"{s[0]}-{s[2]}" for s in STATES])
def test_states(name: str, status: str, words: str, facts: dict[str, Any]) -> None:
    """Facts in, a status and its words out; what is wrong always says what to do."""
    found = finding(name, **facts)

    assert status == found.status, found
    assert words in "\n".join((found.message, *found.details, found.fix))
    assert found.fix or status in ("ok", "skipped")


def test_whatever_cannot_be_read_is_skipped() -> None:
    """Without any right every check is skipped, and none fails."""
    lost = (
        "configuration",
        "others",
        "deployment",
        "service",
        "slices",
        "trust",
        "site",
        "namespaces",
        "nodes",
        "dry_run",
    )
    facts = msgspec.structs.replace(HEALTHY, asking=Asking(unread=(LOST,)), **dict.fromkeys(lost, LOST))

    assert {"skipped"} == {found.status for name, found in judge(facts) if name != "api-server"}
    assert not report.failing(judge(facts))


def test_who_wrote_a_field() -> None:
    """A field that its installer no longer owns is reported; caBundle and shared fields are not."""
    key = 'k:{"name":"pods.accel.io"}'
    helm = {
        "f:failurePolicy": {},
        "f:rules": {},
        "f:timeoutSeconds": {},
        "f:clientConfig": {"f:service": {"f:name": {}}},
    }
    edit = {"f:namespaceSelector": {}, "f:timeoutSeconds": {}, "f:clientConfig": {"f:caBundle": {}}}
    fields = [
        {"manager": "helm", "fieldsV1": {"f:webhooks": {".": {}, key: {".": {}, **helm}}}},
        {"manager": "admissionsenforcer", "fieldsV1": {"f:metadata": {}, "f:webhooks": {key: edit}}},
    ]
    found = msgspec.convert({"metadata": {"name": "accel-injector", "managedFields": fields}}, Configuration)
    edits = finding("configuration-edits", configuration=found)

    assert ("warning", ("pods.accel.io: namespaceSelector, by admissionsenforcer",)) == (edits.status, edits.details)
    assert "ok" == finding("configuration-edits", configuration=Configuration()).status


def test_cert_manager_is_named_where_it_writes() -> None:
    """The fix of a caBundle that is missing depends on who should have written it."""
    values = MODES["cert-manager"]
    facts = {"configuration": configuration(values, ca=None), "deployment": deployment(values)}

    assert "describe certificate accel-injector-tls" in finding("ca-bundle", **facts).fix


def test_selectors() -> None:
    """As the API server judges them."""
    every = {
        "In": (["a"], {"a": True, "b": False, "": False}),
        "NotIn": (["a"], {"a": False, "b": True, "": True}),
        "Exists": (None, {"a": True, "": False}),
        "DoesNotExist": (None, {"a": False, "": True}),
    }
    for operator, (values, outcomes) in every.items():
        expression = {"key": "k", "operator": operator, "values": values}
        selector = msgspec.convert({"matchExpressions": [expression]}, Selector)
        assert outcomes == {v: selector.matches({"k": v} if v else {}) for v in outcomes}, operator
    assert not msgspec.convert({"matchLabels": {"k": "a"}}, Selector).matches({"k": "b"})


POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "team-a", "annotations": {"accel.io/type": "tpu-v4-8"}},
    "spec": {"nodeName": "n", "containers": [{"name": "c"}]},
}


def asks(**changed: Any) -> list[Asked]:
    return list(asked(WORKLOADS["", "Pod"], {**POD, **changed}, SITE))


def annotated(**annotations: str) -> dict[str, Any]:
    return {**POD["metadata"], "annotations": {f"accel.io/{k}": v for k, v in annotations.items()}}


def test_what_asks() -> None:
    """A Pod on its node counts; one that ended, is going, was left alone or asks for nothing does not."""
    [one_host] = asks()
    [done] = asks(metadata=annotated(type="tpu-v4-8", injected="tpu-v4-8"))
    [bad] = asks(metadata=annotated(type="tpu-v4-17"))

    assert ("Pod team-a/p", 4, False) == (one_host.where, one_host.devices, one_host.injected)
    assert done.injected
    assert (None, 'accel.io/type: "tpu-v4-17" is not in the catalogue') == (bad.hardware, bad.refused)
    assert [] == asks(status={"phase": "Succeeded"})
    assert [] == asks(metadata={**POD["metadata"], "deletionTimestamp": "2026-06-01T00:00:00Z"})
    assert [] == asks(metadata=annotated(type="none")) == asks(metadata=annotated(type="tpu-v4-8", inject="false"))
    assert [] == asks(metadata={"name": "p"})


OTHERWISE = {
    "pod/injected-forged-decides-nothing": "the input says that it was injected",
    "pod/node-name-skipped": "once stored, a Pod that came with a node looks like one that was given it",
    "scheduler/node-chosen": "the same",
    "injected-before/job-type-changed": "the input is output that was edited, and says that it was injected",
    "injected-before/outer-type-unknown": "the same",
    "injected-before/override-in-the-file": "the same",
    "injected-before/the-same-type-spelled-otherwise": "the same",
    "injected-before/type-changed-outside": "the same",
}
"""Cases that look otherwise than they are, and why."""

CASES = [case for case in all_cases() if case.old is None and not case.denied and case.name not in OTHERWISE]


def test_golden_cases_are_injected_after_and_not_before() -> None:
    """Whatever asks in an input is found there without its accelerator, and with it in what is expected."""
    looked_at = 0
    for case in CASES:
        given, expected = case.object, case.expected
        key = (given["apiVersion"].rpartition("/")[0], given["kind"])
        if WORKLOADS.get(key) not in cluster.READ:
            continue
        stored = [{**v, "metadata": {"namespace": NAMESPACE, **v["metadata"]}} for v in (given, expected)]
        before, after = (list(asked(WORKLOADS[key], value, case.site)) for value in stored)
        assert [] == [t for t in after if not t.injected or t.refused or t.disagrees], case.name
        assert {t.hardware for t in before} == {t.hardware for t in after}, case.name
        assert given == expected or not after or not all(t.injected for t in before), case.name
        looked_at += bool(after)
    print(f"{looked_at} cases that ask")
    assert looked_at > 100


LWS: dict[str, Any] = {
    "apiVersion": "leaderworkerset.x-k8s.io/v1",
    "kind": "LeaderWorkerSet",
    "metadata": {"name": "serve", "namespace": "team-a", "annotations": {"accel.io/type": "tpu-v5litepod-16"}},
}
OLD = {
    "metadata": {"annotations": {"accel.io/type": "tpu-v4-16", "accel.io/injected": "tpu-v4-16"}},
    "spec": {
        "nodeSelector": {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v4-podslice",
            "cloud.google.com/gke-tpu-topology": "2x2x2",
        },
        "containers": [{"name": "c", "resources": {"limits": {"google.com/tpu": "4"}}}],
    },
}


def stored_lws(size: int, **template: Any) -> list[str]:
    """The report about a stored LeaderWorkerSet with one template."""
    group = {"size": size, "workerTemplate": {**OLD, **template}}
    value = {**LWS, "spec": {"leaderWorkerTemplate": group}}
    return [found.disagrees for found in asked(WORKLOADS["leaderworkerset.x-k8s.io", "LeaderWorkerSet"], value, SITE)]


def annotations_of(**words: str) -> dict[str, Any]:
    return {"annotations": {f"accel.io/{key}": word for key, word in words.items()}}


def test_words_and_fields_that_disagree() -> None:
    """A type that was changed while no replica answered, devices that an apply removed, a size of the old slice."""
    selector, bare = OLD["spec"]["nodeSelector"], [{"name": "c"}]
    [changed] = stored_lws(2, metadata=annotations_of(type="tpu-v5litepod-8", injected="tpu-v4-16"))
    [size] = stored_lws(3)
    [devices] = stored_lws(2, spec={"nodeSelector": selector, "containers": bare})
    [pod_type] = asks(metadata=annotated(type="nvidia-l4", injected="tpu-v4-8"))
    [pod_label] = asks(
        metadata=annotated(type="nvidia-l4", injected="nvidia-l4"),
        spec={"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, "containers": bare},
    )
    [pod_devices] = asks(metadata=annotated(type="nvidia-l4", injected="nvidia-l4"))
    [host_mode] = asks(metadata=annotated(type="nvidia-l4", injected="nvidia-l4", mode="host"))
    [fresh] = asks()

    assert [""] == stored_lws(2)
    assert changed.startswith("workerTemplate: nodeSelector cloud.google.com/gke-tpu-accelerator")
    assert size.startswith("spec.leaderWorkerTemplate.size")
    assert devices == "asks for tpu-v4-16, and container c has no google.com/tpu"
    assert pod_type.disagrees == "asks for nvidia-l4, and tpu-v4-8 was injected"
    assert pod_label.disagrees == "asks for nvidia-l4, and selects cloud.google.com/gke-accelerator: nvidia-tesla-t4"
    assert pod_devices.disagrees == "asks for nvidia-l4, and container c has no nvidia.com/gpu"
    assert (host_mode.disagrees, fresh.disagrees) == ("", "")

    facts = msgspec.structs.replace(HEALTHY, asking=Asking((pod_type, fresh)))
    found = dict(judge(facts))["agreement"]
    assert ("warning", ("Pod team-a/p: asks for nvidia-l4, and tpu-v4-8 was injected",)) == (
        found.status,
        found.details,
    )


def test_the_release_is_found() -> None:
    """By its webhook configuration, under whatever name and in whatever namespace."""
    here, other = configuration(), one(render(name="tpu"), "MutatingWebhookConfiguration", "tpu-accel-injector")
    for entry in other["webhooks"]:
        entry["clientConfig"]["service"]["namespace"] = "platform"
    foreign = Configuration()
    found = installed((msgspec.convert(other, Configuration), here, foreign))

    assert [("accel-injector", "accel-system"), ("tpu", "platform")] == [(r.name, r.namespace) for r in found]
    assert ["accel-injector", "tpu-accel-injector"] == [r.fullname for r in found]
    assert found[1:] == installed((msgspec.convert(other, Configuration), here), namespace="platform")
    assert found[1:] == installed((msgspec.convert(other, Configuration), here), "tpu")
    assert [] == installed((here,), "other")


def test_long_lists_are_cut() -> None:
    """A page stays a page."""
    found = warning("m", "f", *(f"line {n}" for n in range(MAX_DETAILS + 5)))

    assert (MAX_DETAILS + 1, "and 5 more") == (len(found.details), found.details[-1])


def test_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    """In a pipe a fix is one line, however long, and others' messages command no terminal."""
    facts = msgspec.structs.replace(HEALTHY, **refused("exceeded \x1b[31mquota " + "long " * 50, 403), namespaces=())
    terminal.show(report.page(judge(facts)))
    lines = capsys.readouterr().out.splitlines()

    assert "ok       api-server           responds, version v1.37.2-gke.100" == lines[0]
    assert "    fix: kubectl label namespace NAME accel.io/injection=enabled" in lines
    assert [True] == ["exceeded  [31mquota long" in line for line in lines if line.startswith("warning  dry-run")]
    assert "2 warning, 13 ok" == lines[-1]


def test_every_check_is_documented() -> None:
    """docs/check.md has a row for each, in their order."""
    text = (ROOT / "docs" / "check.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \|", text.partition("| check |")[2], re.MULTILINE)

    assert [check.name for check in CHECKS] == rows


def test_json_is_stable() -> None:
    """Programs find every key in every finding, and the worst status at the top."""
    facts = msgspec.structs.replace(HEALTHY, namespaces=(), dry_run=None)
    document = json.loads(report.as_json(judge(facts), facts))

    assert ["release", "namespace", "serverVersion", "status", "findings"] == list(document)
    assert "warning" == document["status"]
    assert {("check", "status", "message", "fix", "details")} == {tuple(f) for f in document["findings"]}
    assert [check.name for check in CHECKS] == [f["check"] for f in document["findings"]]
    assert "ok" == json.loads(report.as_json(judge(HEALTHY), HEALTHY))["status"]


class Endless(BaseHTTPRequestHandler):
    """An API server whose lists never end."""

    asked: list[str]

    def do_GET(self) -> None:
        """One item, and a token for more."""
        url = urlsplit(self.path)
        self.asked.append(url.path)
        item = {"metadata": {"name": "n", "namespace": "team-a", "labels": {"accel.io/injection": "enabled"}}}
        body: dict[str, Any] = {"metadata": {"continue": "more"}, "items": [item], "gitVersion": "v1.37.0"}
        if "limit" not in parse_qs(url.query):
            body = {"gitVersion": "v1.37.0"}
        self.answer(200 if url.path == "/version" or "items" in body else 404, body)

    def do_POST(self) -> None:
        """Nothing is created here."""
        self.answer(403, {"message": 'pods is forbidden: User "u" cannot create resource "pods"'})

    def answer(self, status: int, body: Any) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_: Any) -> None:
        """Silent."""


@pytest.fixture
def endless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[api.Api, list[str]]]:
    """A way to that server, and what it was asked."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    handler = type("Handler", (Endless,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = {
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        yield api.connect(str(tmp_path / "kubeconfig")), handler.asked
        server.shutdown()


def test_lists_without_end(endless: tuple[api.Api, list[str]]) -> None:
    """Pages are counted: a big cluster costs a bounded number of calls, and what was left out is reported."""
    way, requests = endless
    facts = Cluster(way).facts()

    assert isinstance(facts.nodes, Nodes)
    assert (cluster.NODE_PAGES, False) == (len(facts.nodes.items), facts.nodes.complete)
    assert cluster.NODE_PAGES == requests.count("/api/v1/nodes")
    assert len(requests) < 40
    assert any("more than" in text for text in facts.asking.left_out)
    assert isinstance(facts.dry_run, Unread)
    assert "needs create on pods in n" == dict(judge(facts))["dry-run"].message


def test_when_the_time_is_up(endless: tuple[api.Api, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """No further call is made, and the checks say that."""
    monkeypatch.setattr(cluster, "SECONDS", -1.0)
    way, requests = endless
    facts = Cluster(way).facts()

    assert [] == requests
    assert isinstance(facts.version, Unread)
    assert facts.version.why.startswith("not read: ")
