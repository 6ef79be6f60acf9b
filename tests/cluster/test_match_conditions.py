"""Which objects the API server sends, by the chart's own match conditions: those that asked, and no other.

Nothing answers here. A sent object is refused with the name of the entry that was to be called, so the
refusal itself says what was selected; a condition that does not compile, or that fails, gives another error.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.chart import CHART, PLATFORM

from . import binaries
from .conftest import build
from .controlplane import PROGRAMS, ControlPlane, expect
from .crd import ANYTHING, crd
from .rest import Answer

TEMPLATE = "the pod template"
CONTAINER = {"name": "main", "image": "example.invalid/main"}
POD = {"containers": [CONTAINER]}
ONCE = {"restartPolicy": "Never", **POD}
LIMIT = {"accel.io/tpu-v4-8": "1"}
KEY = {"accel.io/type": "tpu-v4-8"}
SELECTED = {"selector": {"matchLabels": {"app": "a"}}}
RAY = {
    "headGroupSpec": {"template": TEMPLATE},
    "workerGroupSpecs": [{"groupName": "w", "template": TEMPLATE}],
}

KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "jobs": ("batch/v1", "Job", {"template": TEMPLATE}),
    "cronjobs": (
        "batch/v1",
        "CronJob",
        {"schedule": "@daily", "jobTemplate": {"spec": {"template": TEMPLATE}}},
    ),
    "deployments": ("apps/v1", "Deployment", {**SELECTED, "template": TEMPLATE}),
    "statefulsets": ("apps/v1", "StatefulSet", {**SELECTED, "serviceName": "s", "template": TEMPLATE}),
    "replicasets": ("apps/v1", "ReplicaSet", {**SELECTED, "template": TEMPLATE}),
    "jobsets": (
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        {"replicatedJobs": [{"name": n, "template": {"spec": {"template": TEMPLATE}}} for n in ("a", "b")]},
    ),
    "vcjobs": (
        "batch.volcano.sh/v1alpha1",
        "Job",
        {"tasks": [{"name": name, "template": TEMPLATE} for name in ("a", "b")]},
    ),
    "leaderworkersets": (
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        {"leaderWorkerTemplate": {"leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE}},
    ),
    "rayclusters": ("ray.io/v1", "RayCluster", RAY),
    "rayjobs": ("ray.io/v1", "RayJob", {"rayClusterSpec": RAY}),
    "rayservices": ("ray.io/v1", "RayService", {"rayClusterConfig": RAY}),
    "pytorchjobs": (
        "kubeflow.org/v1",
        "PyTorchJob",
        {"pytorchReplicaSpecs": {role: {"template": TEMPLATE} for role in ("Master", "Worker")}},
    ),
    "tfjobs": (
        "kubeflow.org/v1",
        "TFJob",
        {"tfReplicaSpecs": {r: {"template": TEMPLATE} for r in ("PS", "Worker")}},
    ),
    "mpijobs": (
        "kubeflow.org/v2beta1",
        "MPIJob",
        {"mpiReplicaSpecs": {role: {"template": TEMPLATE} for role in ("Launcher", "Worker")}},
    ),
}
"""Entry -> apiVersion, kind, and a spec with a mark in each place of a pod template."""

TEMPLATES: dict[str, tuple[bool, dict[str, Any]]] = {
    "key": (True, {"metadata": {"annotations": {"other": "x", **KEY}}, "spec": ONCE}),
    "a key that only looks so": (
        False,
        {"metadata": {"annotations": {"accel.io.example/type": "x"}}, "spec": ONCE},
    ),
    "key with an empty value": (True, {"metadata": {"annotations": {"accel.io/type": ""}}, "spec": ONCE}),
    "label of that name": (True, {"metadata": {"labels": KEY}, "spec": ONCE}),
    "a key with a dot for the slash": (True, {"metadata": {"annotations": {"accel.io.type": "x"}}, "spec": ONCE}),
    "a key without the domain's end": (True, {"metadata": {"annotations": {"accel/type": "x"}}, "spec": ONCE}),
    "limit": (
        True,
        {
            "spec": {
                **ONCE,
                "containers": [CONTAINER, {**CONTAINER, "name": "b", "resources": {"limits": LIMIT}}],
            }
        },
    ),
    "limit of an init container": (
        True,
        {"spec": {**ONCE, "initContainers": [{**CONTAINER, "name": "i", "resources": {"limits": LIMIT}}]}},
    ),
    "limit, containers null": (
        True,
        {
            "spec": {
                "containers": None,
                "initContainers": [{**CONTAINER, "name": "i", "resources": {"limits": LIMIT}}],
            }
        },
    ),
    "request alone": (
        False,
        {"spec": {**ONCE, "containers": [{**CONTAINER, "resources": {"requests": LIMIT}}]}},
    ),
    "real resource": (
        False,
        {"spec": {**ONCE, "containers": [{**CONTAINER, "resources": {"limits": {"google.com/tpu": "4"}}}]}},
    ),
    "annotations null": (False, {"metadata": {"annotations": None}, "spec": ONCE}),
    "annotations empty": (False, {"metadata": {"annotations": {}}, "spec": ONCE}),
    "metadata null": (False, {"metadata": None, "spec": ONCE}),
    "no metadata": (False, {"spec": ONCE}),
    "resources null": (False, {"spec": {**ONCE, "containers": [{**CONTAINER, "resources": None}]}}),
    "limits null": (False, {"spec": {**ONCE, "containers": [{**CONTAINER, "resources": {"limits": None}}]}}),
    "limits empty": (False, {"spec": {**ONCE, "containers": [{**CONTAINER, "resources": {"limits": {}}}]}}),
    "containers null": (False, {"spec": {"containers": None, "initContainers": None}}),
    "containers empty": (False, {"spec": {"containers": [], "initContainers": []}}),
    "no containers": (False, {"spec": {}}),
    "spec null": (False, {"metadata": {}, "spec": None}),
    "empty": (False, {}),
}
"""Name -> is it sent, and a pod template: what people, typed clients and other webhooks write."""

HOLLOW: dict[str, list[dict[str, Any]]] = {
    "jobs": [{"template": None}],
    "cronjobs": [
        {"jobTemplate": None},
        {"jobTemplate": {"spec": None}},
        {"jobTemplate": {"spec": {"template": None}}},
    ],
    "deployments": [{"template": None}],
    "statefulsets": [{"template": None}],
    "replicasets": [{"template": None}],
    "jobsets": [
        {"replicatedJobs": None},
        {"replicatedJobs": []},
        {"replicatedJobs": [{"name": "a"}]},
        {"replicatedJobs": [{"name": "a", "template": None}, {"name": "b", "template": {"spec": None}}]},
    ],
    "vcjobs": [{"tasks": None}, {"tasks": []}, {"tasks": [{"name": "a"}, {"name": "b", "template": None}]}],
    "leaderworkersets": [
        {"leaderWorkerTemplate": None},
        {"leaderWorkerTemplate": {"leaderTemplate": None, "workerTemplate": None}},
    ],
    "rayclusters": [
        {"headGroupSpec": None, "workerGroupSpecs": None},
        {"headGroupSpec": {"template": None}, "workerGroupSpecs": []},
        {"workerGroupSpecs": [{"groupName": "w", "template": None}]},
    ],
    "rayjobs": [{"rayClusterSpec": None}, {"rayClusterSpec": {"workerGroupSpecs": None}}],
    "rayservices": [{"rayClusterConfig": None}, {"rayClusterConfig": {"workerGroupSpecs": None}}],
    "pytorchjobs": [
        {"pytorchReplicaSpecs": None},
        {"pytorchReplicaSpecs": {}},
        {"pytorchReplicaSpecs": {"Worker": None}},
    ],
    "tfjobs": [{"tfReplicaSpecs": None}, {"tfReplicaSpecs": {"Worker": {"template": None}}}],
    "mpijobs": [{"mpiReplicaSpecs": None}, {"mpiReplicaSpecs": {"Worker": {}}}],
}
"""Entry -> specs with nothing where a template, a list or a map would be; besides null, {} and no spec."""

CALLED = re.compile(r'failed calling webhook "([^"]+)"')


@pytest.fixture(scope="module")
def api(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with the chart's conditions and nobody behind them; its CRDs accept anything."""
    build(pytestconfig, *PROGRAMS, "helm")
    with ControlPlane(tmp_path_factory.mktemp("conditions")) as cluster:
        cluster.install_crds(*(crd(version, kind, ANYTHING) for version, kind, _ in KINDS.values() if "." in version))
        for name in ("asks", "detects"):
            labels = {"accel.io/injection": "enabled"}
            expect(cluster.request("POST", "/api/v1/namespaces", named(name, labels=labels)), name)
        values = {"webhook": {"excludedNamespaces": ["detects"]}}
        cluster.apply(configuration(values), detector({"config": {"detect": ["nvidia.com/gpu"]}}))
        for name, pod in (("asks", {"annotations": KEY}), ("detects", {})):
            body = {"metadata": {"name": "a", **pod}, "spec": holding("nvidia.com/gpu")}
            cluster.wait_for(
                f"the conditions in {name}", lambda n=name, b=body: called(create(cluster, n, "v1", "Pod", b))
            )
        yield cluster


def configuration(values: dict[str, Any]) -> dict[str, Any]:
    """The chart's webhook configuration, each entry made to refuse where it would be called."""
    command = [
        str(binaries.ensure("helm")),
        "template",
        "accel-injector",
        str(CHART),
        "--namespace",
        "kube-public",
    ]
    command += ["--show-only", "templates/mutatingwebhookconfiguration.yaml", "--values", "-"]
    text = json.dumps({**values, "config": {**PLATFORM["config"], **values.get("config", {})}})
    rendered = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    made: dict[str, Any] = yaml.safe_load(rendered.stdout)
    for webhook in made["webhooks"]:
        webhook["failurePolicy"] = "Fail"
    return made


def detector(values: dict[str, Any]) -> dict[str, Any]:
    """`detect.accel.io` alone, in the namespace that the other configuration leaves out."""
    made = configuration(values)
    made["metadata"]["name"] = "detector"
    made["webhooks"] = [w for w in made["webhooks"] if w["name"] == "detect.accel.io"]
    made["webhooks"][0]["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": "detects"}}
    return made


def named(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}}


def holding(resource: str, amount: str = "1") -> dict[str, Any]:
    """A pod spec whose container has a limit."""
    return {"containers": [{**CONTAINER, "resources": {"limits": {resource: amount}}}]}


def create(
    api: ControlPlane, namespace: str, version: str, kind: str, body: dict[str, Any], dry: bool = True
) -> Answer:
    """Create an object of a kind; by default, not really."""
    prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
    path = f"{prefix}/namespaces/{namespace}/{kind.lower()}s"
    return api.request("POST", path, {"apiVersion": version, "kind": kind, **body}, {"dryRun": "All"} if dry else None)


def called(answer: Answer) -> str:
    """The entry that an object was sent to, or "" where it was not sent.

    An object that was not sent is created, or refused for what it is: no condition may be the reason.
    """
    if found := CALLED.search(json.dumps(answer.body).replace('\\"', '"')):
        return found[1]
    assert answer.ok or (answer.status, answer.body["reason"]) == (422, "Invalid"), answer.body
    return ""


def places(spec: Any) -> int:
    """How many pod templates a spec has."""
    if isinstance(spec, dict | list):
        return sum(map(places, spec.values() if isinstance(spec, dict) else spec))
    return int(spec == TEMPLATE)


def filled(spec: Any, templates: Iterator[Any]) -> Any:
    """The spec with the next of `templates` at each mark."""
    if isinstance(spec, dict):
        return {key: filled(value, templates) for key, value in spec.items()}
    if isinstance(spec, list):
        return [filled(value, templates) for value in spec]
    return next(templates) if spec == TEMPLATE else spec


def spec_with(entry: str, place: int, template: Any) -> Any:
    """The kind's spec with this template at one place and plain ones at the others."""
    spec = KINDS[entry][2]
    return filled(spec, iter([template if i == place else {"spec": ONCE} for i in range(places(spec))]))


@pytest.mark.parametrize("entry", KINDS)
def test_pod_templates(api: ControlPlane, entry: str) -> None:
    """In each place of a kind where a pod template can be, the templates that ask are what is sent."""
    version, kind, spec = KINDS[entry]
    for place in range(places(spec)):
        for name, (sent, template) in TEMPLATES.items():
            body = {**named("a"), "spec": spec_with(entry, place, template)}
            answer = create(api, "asks", version, kind, body)
            assert called(answer) == (f"{entry}.workloads.accel.io" if sent else ""), (name, place)


@pytest.mark.parametrize("entry", KINDS)
def test_keys_on_the_object_itself(api: ControlPlane, entry: str) -> None:
    """A key on the workload itself is enough. So is a label of that name, which does nothing: the webhook says so."""
    version, kind, _ = KINDS[entry]
    spec = spec_with(entry, -1, None)
    for metadata, sent in (
        ({"annotations": KEY}, True),
        ({"annotations": {"accel.io/inject": "false"}}, True),
        ({"annotations": {"a": "b"}}, False),
        ({"annotations": None}, False),
        ({"labels": KEY}, True),
    ):
        answer = create(api, "asks", version, kind, {**named("a", **metadata), "spec": spec})
        assert called(answer) == (f"{entry}.workloads.accel.io" if sent else ""), metadata


@pytest.mark.parametrize("entry", KINDS)
def test_hollow_objects(api: ControlPlane, entry: str) -> None:
    """Where there is null, or nothing, in place of a list, a map or a template, no condition fails."""
    version, kind, _ = KINDS[entry]
    for spec in ({}, {"spec": None}, {"spec": {}}, *({"spec": hollow} for hollow in HOLLOW[entry])):
        assert called(create(api, "asks", version, kind, {**named("a"), **spec})) == "", spec
        keyed = {**named("a", annotations=KEY), **spec}
        assert called(create(api, "asks", version, kind, keyed)) == f"{entry}.workloads.accel.io", spec


@pytest.mark.parametrize(
    ("entry", "spec"),
    [
        ("cronjobs", {"schedule": "@daily", "jobTemplate": {"metadata": {"annotations": KEY}, "spec": {}}}),
        (
            "jobsets",
            {
                "replicatedJobs": [
                    {"name": "a"},
                    {"name": "b", "template": {"metadata": {"annotations": KEY}}},
                ]
            },
        ),
    ],
)
def test_keys_on_a_job_template(api: ControlPlane, entry: str, spec: dict[str, Any]) -> None:
    """A key on the Job template inside another kind is enough."""
    version, kind, _ = KINDS[entry]
    answer = create(api, "asks", version, kind, {**named("a"), "spec": spec})
    assert called(answer) == f"{entry}.workloads.accel.io"


def test_pods(api: ControlPlane) -> None:
    """A Pod is its own template."""
    for name, (sent, template) in TEMPLATES.items():
        body = {**template, "metadata": {**(template.get("metadata") or {}), "name": "a"}}
        assert called(create(api, "asks", "v1", "Pod", body)) == ("pods.accel.io" if sent else ""), name


def test_mpijob_of_both_versions(api: ControlPlane) -> None:
    """Whichever of its two versions a cluster serves, an MPIJob that asks is sent."""
    rule = next(w for w in configuration({})["webhooks"] if w["name"] == "mpijobs.workloads.accel.io")["rules"][0]
    assert rule["apiVersions"] == ["v1", "v2beta1"]


def test_namespaces(api: ControlPlane) -> None:
    """Only labelled namespaces; never kube-system, kube-node-lease or the release's own, labelled or not."""
    for name in ("kube-system", "kube-node-lease", "kube-public"):
        labels = {"metadata": {"labels": {"accel.io/injection": "enabled"}}}
        expect(api.request("PATCH", f"/api/v1/namespaces/{name}", labels), name)
    others = [api.namespace(labels) for labels in ({}, {"accel.io/injection": "disabled"})]
    body = {**named("a", annotations=KEY), "spec": POD}
    for name in ("kube-system", "kube-node-lease", "kube-public", "default", *others):
        answer = create(api, name, "v1", "Pod", body)
        assert CALLED.search(str(answer.body)) is None, name
    assert called(create(api, "asks", "v1", "Pod", body)) == "pods.accel.io"


@pytest.mark.parametrize(
    ("entry", "change", "quiet"),
    [
        ("jobs", {"suspend": True}, None),
        ("vcjobs", {"minAvailable": 2}, None),
        ("leaderworkersets", {"replicas": 2}, None),
        ("cronjobs", {"suspend": True}, None),
        ("rayclusters", {"suspend": True}, None),
        ("pytorchjobs", {"runPolicy": {"suspend": True}}, None),
        ("jobsets", {"replicatedJobs": [{"name": "a"}]}, {"suspend": True}),
    ],
)
def test_updates(api: ControlPlane, entry: str, change: dict[str, Any], quiet: dict[str, Any] | None) -> None:
    """A changed spec, or annotations, of an object that asked are sent again; a label, or an object that ends, is not.

    Where templates may change, also one that asked until now.
    """
    version, kind, _ = KINDS[entry]
    namespace = api.namespace()
    for name, annotations in (("asked", KEY), ("did-not", {}), ("ends", KEY)):
        body = {
            **named(name, annotations=annotations, finalizers=["example.com/kept"]),
            "spec": spec_with(entry, -1, None),
        }
        expect(create(api, namespace, version, kind, body, dry=False), name)
    path = f"/apis/{version}/namespaces/{namespace}/{kind.lower()}s"
    expect(api.request("DELETE", f"{path}/ends", {"propagationPolicy": "Background"}), "deletion")
    label = {"metadata": {"labels": {"accel.io/injection": "enabled"}}}
    expect(api.request("PATCH", f"/api/v1/namespaces/{namespace}", label), "label")

    def updated(name: str, body: dict[str, Any]) -> str:
        return called(api.request("PATCH", f"{path}/{name}", body, {"dryRun": "All"}))

    sent = f"{entry}.reapply.accel.io"
    api.wait_for("the namespace's label", lambda: updated("asked", {"spec": change}) == sent)
    assert updated("did-not", {"spec": change}) == ""
    assert updated("did-not", {"metadata": {"annotations": KEY}, "spec": change}) == sent
    assert updated("asked", {"metadata": {"labels": {"a": "b"}}}) == ""
    assert updated("asked", {"metadata": {"annotations": {"accel.io/type": "tpu-v4-16"}}}) == sent
    assert updated("asked", {"metadata": {"annotations": {"accel.io/type": None}}, "spec": change}) == sent
    assert updated("ends", {"spec": change}) == ""
    if quiet:
        assert updated("asked", {"spec": quiet}) == ""


def test_updates_of_every_kind(api: ControlPlane) -> None:
    """Every kind of workload is sent when it is updated, and Pods are."""
    updates = {w["name"] for w in configuration({})["webhooks"] if "UPDATE" in w["rules"][0]["operations"]}
    assert updates == {f"{kind}.reapply.accel.io" for kind in (*KINDS, "pods")}


def test_updates_of_pods(api: ControlPlane) -> None:
    """A Pod is sent when its spec or a key of ours changes, and not for what others write on it."""
    namespace = api.namespace()
    for name, annotations in (("asked", KEY), ("did-not", {})):
        body = {**named(name, annotations=annotations), "spec": ONCE}
        expect(create(api, namespace, "v1", "Pod", body, dry=False), name)
    label = {"metadata": {"labels": {"accel.io/injection": "enabled"}}}
    expect(api.request("PATCH", f"/api/v1/namespaces/{namespace}", label), "label")
    image = {"spec": {"containers": [{**CONTAINER, "image": "example.invalid/other"}]}}

    def updated(name: str, body: dict[str, Any]) -> str:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        content = "application/strategic-merge-patch+json"
        return called(api.request("PATCH", path, body, {"dryRun": "All"}, content=content))

    sent = "pods.reapply.accel.io"
    api.wait_for("the namespace's label", lambda: updated("asked", image) == sent)
    assert updated("did-not", image) == ""
    assert updated("did-not", {"metadata": {"annotations": KEY}}) == sent
    assert updated("asked", {"metadata": {"annotations": {"accel.io/type": "tpu-v4-16"}}}) == sent
    assert updated("asked", {"metadata": {"annotations": {"example.com/seen": "true"}, "labels": {"a": "b"}}}) == ""


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        ({"spec": holding("nvidia.com/gpu")}, True),
        (
            {
                "spec": {
                    **POD,
                    "initContainers": [{**CONTAINER, "name": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
                }
            },
            True,
        ),
        ({"spec": holding("amd.com/gpu")}, False),
        ({"spec": POD}, False),
        ({"spec": {"containers": None}}, False),
        ({**named("a", annotations=KEY), "spec": holding("nvidia.com/gpu")}, False),
    ],
    ids=["container", "init container", "other resource", "none", "null", "asked"],
)
def test_detection_of_pods(api: ControlPlane, body: dict[str, Any], sent: bool) -> None:
    """A listed resource is enough, and a Pod that asked is left to the entry for Pods."""
    answer = create(api, "detects", "v1", "Pod", {**named("a"), **body})
    assert called(answer) == ("detect.accel.io" if sent else "")


def test_detection_of_volcano_jobs(api: ControlPlane) -> None:
    """The same for the tasks of a Volcano Job."""
    version, kind, _ = KINDS["vcjobs"]
    for metadata, resource, sent in (
        ({}, "nvidia.com/gpu", True),
        ({}, "amd.com/gpu", False),
        ({"annotations": KEY}, "nvidia.com/gpu", False),
    ):
        spec = spec_with("vcjobs", 1, {"spec": holding(resource)})
        answer = create(api, "detects", version, kind, {**named("a", **metadata), "spec": spec})
        assert called(answer) == ("detect.accel.io" if sent else ""), (metadata, resource)
    for hollow in HOLLOW["vcjobs"]:
        assert called(create(api, "detects", version, kind, {**named("a"), "spec": hollow})) == ""


def test_detection_of_nothing_renders_no_entry(api: ControlPlane) -> None:
    """Without `detect` and without the older format, nothing is sent that did not ask."""
    assert "detect.accel.io" not in {w["name"] for w in configuration({})["webhooks"]}
    legacy = configuration({"config": {"accelerators": {"example.com/npu": {}}}})["webhooks"][-1]
    assert legacy["name"] == "detect.accel.io"
    assert '["example.com/npu"]' in legacy["matchConditions"][0]["expression"]


def test_large_jobset_is_within_the_cost_budget(api: ControlPlane) -> None:
    """50 replicated jobs of 20 containers with 20 limits, none of them ours, are looked through."""
    limits = {f"example.com/r{i}": "1" for i in range(20)}
    containers = [{**CONTAINER, "name": f"c{i}", "resources": {"limits": limits}} for i in range(20)]
    template = {"spec": {"template": {"spec": {"containers": containers}}}}
    jobs = [{"name": f"j{i}", "template": template} for i in range(50)]
    version, kind, _ = KINDS["jobsets"]
    assert called(create(api, "asks", version, kind, {**named("a"), "spec": {"replicatedJobs": jobs}})) == ""
