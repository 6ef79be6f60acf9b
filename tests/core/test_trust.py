"""Attempts to get what the admin did not allow: a path of the node, a privilege, a scheduler, another team's placement.

Users write annotations, labels, limits, volumes and owners; the admin writes the site config. Nothing that a user
writes may become a host path, and what a namespace may not have it does not get by any spelling of its name.
"""

import json
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.case import Outcome, decided, review
from webhook import load
from webhook.core.admission import admit
from webhook.core.annotations import KEYS
from webhook.core.site import Site
from webhook.errors import BadConfig

CONFIG = b"""
schedulers:
  allowed: [default-scheduler, volcano, team-sched]
  defaults: [{types: [amd-*], scheduler: team-sched}]
placements:
  spot: {nodeSelector: {pool: spot}, tolerations: [{key: spot, operator: Exists}]}
  private: {nodeSelector: {pool: private}, tolerations: [{key: private, operator: Exists}], namespaces: [team-p]}
hostProfiles:
  libraries:
    types: [nvidia-*]
    modes: [plugin]
    namespaces: [team-a]
    libraries: [{hostPath: /opt/nvidia, mountPath: /usr/local/nvidia}]
    env: {LD_LIBRARY_PATH: /usr/local/nvidia/lib64}
  devices:
    types: [nvidia-l4]
    namespaces: [team-a]
    devices: [/dev/nvidiactl, {path: /dev/nvidia, perDevice: true}]
    exclusiveNode: true
  everything:
    types: ["*"]
    namespaces: [team-p]
    devices: [/dev/mem]
    libraries: [{hostPath: /, mountPath: /host}]
    privileged: true
    exclusiveNode: true
accelerators:
  example.com/npu: {volumes: [{name: npu, hostPath: /opt/npu, mountPath: /usr/local/npu}]}
detect: [nvidia.com/gpu, google.com/tpu]
"""
TEAM_A_PATHS = {"/opt/nvidia", "/dev/nvidiactl", "/opt/npu"}
PATHS = {"team-a": TEAM_A_PATHS, "team-p": {"/dev/mem", "/", "/opt/npu"}, "team-b": {"/opt/npu"}}
"""What each namespace may see of its nodes; team-a also /dev/nvidia0 and so on."""
SCHEDULERS = {"default-scheduler", "volcano", "team-sched"}


def site_of(text: bytes) -> Site:
    """A site with the packaged catalogue."""
    return Site.parse(text, "site.yaml", load.builtin())


SITE = site_of(CONFIG)


def pod(annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    """A Pod with one container, unless `spec` has others."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "example/train"}], **spec},
    }


def given_to(obj: Any, namespace: str, site: Site = SITE) -> Outcome:
    """What a namespace's object becomes."""
    return decided(admit(review(obj, namespace=namespace), site), obj)


def templates(obj: Any) -> Iterator[dict[str, Any]]:
    """Every pod spec in the object."""
    if isinstance(obj, dict):
        if "containers" in obj:
            yield obj
        for value in obj.values():
            yield from templates(value)
    elif isinstance(obj, list):
        for value in obj:
            yield from templates(value)


def host_paths(obj: Any) -> set[str]:
    """Every path of the node that some volume is."""
    volumes = [v for spec in templates(obj) for v in spec.get("volumes") or () if v]
    return {v["hostPath"]["path"] for v in volumes if v.get("hostPath")}


def privileged(obj: Any) -> bool:
    """Whether any container is."""
    containers = [c for s in templates(obj) for k in ("containers", "initContainers") for c in s.get(k) or () if c]
    return any((c.get("securityContext") or {}).get("privileged") for c in containers)


def scheduler_names(obj: Any) -> set[str]:
    """Every schedulerName, of templates and of the object."""
    specs = [*templates(obj), (obj.get("spec") or {}) if isinstance(obj, dict) else {}]
    return {spec["schedulerName"] for spec in specs if spec.get("schedulerName")}


def check(obj: Any, namespace: str, outcome: Outcome) -> None:
    """Nothing is in the result that neither the user wrote nor the admin allows."""
    if outcome.denied:
        assert outcome.patch == []
        return
    result = outcome.patched
    numbered = {p for p in host_paths(result) if p.startswith("/dev/nvidia") and p[len("/dev/nvidia") :].isdecimal()}
    allowed = host_paths(obj) | PATHS[namespace] | (numbered if namespace == "team-a" else set())
    assert host_paths(result) <= allowed
    assert namespace == "team-p" or privileged(result) == privileged(obj)
    assert scheduler_names(result) <= SCHEDULERS | scheduler_names(obj)
    if namespace != "team-p":
        before, after = json.dumps(obj), json.dumps(result)
        assert after.count('"pool": "private"') == before.count('"pool": "private"')
        assert after.count('"key": "private"') == before.count('"key": "private"')


HOST = {"accel.io/type": "nvidia-l4", "accel.io/mode": "host"}


def test_the_profile_serves_its_own_namespace() -> None:
    """Without this, the attempts below would prove nothing."""
    outcome = given_to(pod(HOST), "team-a")

    assert host_paths(outcome.patched) == {"/dev/nvidiactl", "/dev/nvidia0"}
    assert not privileged(outcome.patched)
    outcome = given_to(pod(HOST), "team-p")
    assert host_paths(outcome.patched) == {"/dev/mem", "/"}
    assert privileged(outcome.patched)


ATTEMPTS: list[dict[str, str]] = [
    {"accel.io/mode": "/dev/mem"},
    {"accel.io/mode": "host/../everything"},
    {"accel.io/mode": "everything"},
    {"accel.io/mode": "HOST"},
    {"accel.io/mode": "host,plugin"},
    {"accel.io/mode": "host\x00"},
    {"accel.io/type": "../../dev/mem"},
    {"accel.io/type": "nvidia-l4/../everything"},
    {"accel.io/type": "everything"},
    {"accel.io/type": "*"},
    {"accel.io/type": "nvidia-*"},
    {"accel.io/type": "[n]vidia-l4"},
    {"accel.io/type": "nvidia-l4\n/dev/mem"},
    {"accel.io/type": "\uff4evidia-l4"},
    {"accel.io/type": "example.com/npu"},
    {"accel.io/container": "../../etc"},
    {"accel.io/container": "main,/dev/mem"},
    {"accel.io/container": "*"},
    {"accel.io/shm": "/dev/mem"},
    {"accel.io/shm": "1Gi,hostPath=/"},
    {"accel.io/topology": "/x/dev/mem"},
    {"accel.io/scheduler": "root-sched"},
    {"accel.io/scheduler": "volcano,root-sched"},
    {"accel.io/scheduler": "*"},
    {"accel.io/scheduler": "../root-sched"},
    {"accel.io/placement": "private"},
    {"accel.io/placement": "spot,private"},
    {"accel.io/placement": "PRIVATE"},
    {"accel.io/placement": "priv*"},
    {"accel.io/placement": "../private"},
    {"accel.io/placement": "spot/private"},
    {"accel.io/placement": "spot.nodeSelector"},
    {"accel.io/placement": "__class__"},
    {"accel.io/placement": "/dev/mem"},
    {"accel.io/count": "-1"},
    {"accel.io/count": "1/../mem"},
]


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda a: ascii(next(iter(a.items()))))
@pytest.mark.parametrize("namespace", ["team-a", "team-b"])
def test_a_crafted_value_is_denied(attempt: dict[str, str], namespace: str) -> None:
    """Every value that means more than its key allows is refused, in mode plugin as in mode host."""
    for mode in ({}, {"accel.io/mode": "host"}):
        obj = pod({"accel.io/type": "nvidia-l4", **mode, **attempt})
        outcome = given_to(obj, namespace)

        assert outcome.denied
        check(obj, namespace, outcome)


def test_another_namespace_by_word_of_the_object() -> None:
    """The request's namespace counts, not the one that the object claims."""
    obj = pod(HOST)
    obj["metadata"]["namespace"] = "team-p"

    assert "not allowed" in given_to(obj, "team-b").denied


@pytest.mark.parametrize(
    "namespace", ["", "TEAM-P", "team-p ", "team-p/../team-p", "*", "team-?", "[t]eam-p", "team-pp"]
)
def test_a_namespace_is_no_pattern(namespace: str) -> None:
    """Only the admin's side of a comparison is a pattern."""
    assert "not allowed" in given_to(pod(HOST), namespace).denied
    assert "not allowed" in given_to(pod({**HOST, "accel.io/placement": "private"}), namespace).denied


def test_the_denial_tells_nothing_of_other_teams() -> None:
    """It lists what this namespace may have, by the types; neither paths, nor profiles, nor other namespaces."""
    denied = given_to(pod({**HOST, "accel.io/type": "amd-gpu"}), "team-a").denied
    denied += given_to(pod({"accel.io/type": "nvidia-l4", "accel.io/placement": "x"}), "team-a").denied

    assert "host for the types nvidia-l4" in denied
    assert not [word for word in ("team-p", "everything", "private", "/dev", "/opt") if word in denied]


def test_another_spelling_is_the_same_type() -> None:
    """Profiles are chosen by the canonical name, so a spelling gets neither more nor less."""
    for spelling in ("NVIDIA-L4", "nvidia_l4"):
        outcome = given_to(pod({**HOST, "accel.io/type": spelling}), "team-a")
        assert host_paths(outcome.patched) == {"/dev/nvidiactl", "/dev/nvidia0"}


@pytest.mark.parametrize("namespace", ["team-b", "team-pp", "", "*"])
@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "google.com/tpu", "amd.com/gpu", "../nvidia.com/gpu", "*"])
def test_detection_from_a_namespace_that_is_not_listed(namespace: str, resource: str) -> None:
    """A limit alone brings a profile only where the profile is for the namespace."""
    obj = pod({}, containers=[{"name": "main", "resources": {"limits": {resource: "8"}}}])

    assert given_to(obj, namespace).patch == []


def test_detection_never_brings_devices_or_privilege() -> None:
    """Profiles of mode host are for those who ask, even where namespace and type fit."""
    obj = pod({}, containers=[{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "8"}}}])

    assert host_paths(given_to(obj, "team-a").patched) == {"/opt/nvidia"}
    assert given_to(obj, "team-p").patch == []


@pytest.mark.parametrize("count", ["65", "999999999"])
def test_a_count_that_would_fill_the_memory(count: str) -> None:
    """A device is a file to be listed, so their number has a bound for any type."""
    asked = {"accel.io/type": "nvidia-gpu", "accel.io/mode": "host", "accel.io/count": count}
    site = site_of(CONFIG.replace(b"types: [nvidia-l4]", b"types: [nvidia-*]"))

    assert "valid: 1 to 64" in given_to(pod(asked), "team-a", site).denied
    assert given_to(pod({**asked, "accel.io/count": "64"}), "team-a", site).denied == ""
    obj = pod({**asked, "accel.io/count": "33", "accel.io/container": "main,side"})
    obj["spec"]["containers"].append({"name": "side"})
    assert "valid: 1 to 64" in given_to(obj, "team-a", site).denied


def test_forged_provenance_decides_nothing() -> None:
    """Anyone can write accel.io/injected, owners and our label; none of them opens or closes anything."""
    obj = pod({**HOST, "accel.io/injected": "everything"})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "1", "controller": True}
    obj["metadata"].update(labels={"accel.io/whole-node": "no"}, ownerReferences=[owner])
    result = given_to(obj, "team-a").patched

    assert host_paths(result) == {"/dev/nvidiactl", "/dev/nvidia0"}
    (term,) = result["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchExpressions"] == [{"key": "accel.io/whole-node", "operator": "Exists"}]
    assert "not allowed" in given_to(obj, "team-b").denied


def test_a_volume_that_squats_on_our_name() -> None:
    """What is mounted at a device's place is the device, not what the user called by our volume's name."""
    squatter = [
        {"name": "accel-dev-nvidia0", "emptyDir": {}},
        {"name": "accel-dev-nvidiactl", "hostPath": {"path": "/x"}},
    ]
    result = given_to(pod(HOST, volumes=squatter), "team-a").patched
    paths = {v["name"]: v.get("hostPath", {}).get("path") for v in result["spec"]["volumes"]}
    mounts = {m["mountPath"]: paths[m["name"]] for m in result["spec"]["containers"][0]["volumeMounts"]}

    assert mounts == {"/dev/nvidiactl": "/dev/nvidiactl", "/dev/nvidia0": "/dev/nvidia0"}


def test_a_reapplied_object_brings_nothing_new() -> None:
    """An UPDATE takes values only from the stored object, whatever its annotations have come to say."""
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "annotations": HOST}}
    new = {**job, "spec": {"template": {"spec": pod({})["spec"]}}}
    outcome = decided(admit(review(new, new, namespace="team-b"), SITE), new)

    assert (outcome.denied, outcome.patch) == ("", [])
    assert outcome.warnings


@pytest.mark.parametrize("key", ["accel.io/scheduler", "accel.io/placement"])
def test_a_reapplied_object_keeps_only_what_it_has(key: str) -> None:
    """Permission is asked once: later the annotation is not refused, and adds nothing that is not stored."""
    annotations = {"accel.io/type": "nvidia-l4", key: {"scheduler": "root-sched", "placement": "private"}[key[9:]]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "annotations": annotations}}
    old = {**job, "spec": {"template": {"spec": {**pod({})["spec"], "nodeSelector": {"disk": "ssd"}}}}}
    outcome = decided(admit(review(old, old, namespace="team-b"), SITE), old)

    assert (outcome.denied, outcome.patch) == ("", [])


BAD_CONFIGS = {
    "a profile's name with a slash": b'hostProfiles: {"a/b": {}}',
    "a profile's name with dots": b'hostProfiles: {"..": {}}',
    "a placement's name with a slash": b'placements: {"a/../b": {}}',
    "a placement's name with a comma": b'placements: {"a,b": {}}',
    "a relative device": b"hostProfiles: {p: {devices: [dev/mem], exclusiveNode: true}}",
    "a device that climbs": b"hostProfiles: {p: {devices: [/dev/../etc], exclusiveNode: true}}",
    "a numbered that climbs": b"hostProfiles: {p: {devices: [{path: /../x, perDevice: true}], exclusiveNode: true}}",
    "an optional device that climbs": b"hostProfiles: {p: {optionalDevices: [/dev/../etc], exclusiveNode: true}}",
    "a library that climbs": b"hostProfiles: {p: {libraries: [{hostPath: /opt/../etc, mountPath: /x}]}}",
    "a legacy volume that climbs": b"accelerators: {a.b/c: {volumes: [{name: v, hostPath: /a/../b, mountPath: /x}]}}",
    "devices that nobody counts": b"hostProfiles: {p: {devices: [/dev/x]}}",
    "devices beside the device plugin": b"hostProfiles: {p: {devices: [/dev/x], exclusiveNode: true, modes: [plugin]}}",
    "a catalogue name with a slash": b"catalogue: [{kind: devices, name: ../x, family: x, resource: x.com/y}]",
    "a catalogue name that is a pattern": b'catalogue: [{kind: devices, name: "n-*", family: x, resource: x.com/y}]',
    "a default that is not allowed": b"schedulers: {defaults: [{scheduler: root-sched}]}",
    "a placement that sets our annotations": b"placements: {p: {annotations: {accel.io/mode: host}}}",
}


@pytest.mark.parametrize("text", BAD_CONFIGS.values(), ids=BAD_CONFIGS.keys())
def test_a_config_that_would_open_more_than_it_says(text: bytes) -> None:
    """It is an error when the file is read, not when a Pod uses it."""
    with pytest.raises(BadConfig):
        site_of(text)


WORDS = st.one_of(
    st.sampled_from([next(iter(a.values())) for a in ATTEMPTS]),
    st.sampled_from(["nvidia-l4", "nvidia-gpu", "amd-gpu", "tpu-v4-16", "host", "plugin", "volcano", "spot", "none"]),
    st.sampled_from(["true", "false", "1", "8", "64Gi", "main", "side", "team-sched", "q"]),
    st.text(max_size=12),
)
ASKED = st.fixed_dictionaries(
    {"accel.io/type": st.sampled_from(["nvidia-l4", "nvidia-gpu", "amd-gpu", "tpu-v4-8", "tpu-v4-16"])},
    optional={
        "accel.io/mode": st.sampled_from(["host", "plugin"]),
        "accel.io/placement": st.sampled_from(["spot", "private", "spot,private"]),
        "accel.io/scheduler": st.sampled_from([*SCHEDULERS, "root-sched"]),
        "accel.io/count": st.sampled_from(["1", "4"]),
        "accel.io/container": st.sampled_from(["main", "side", "main,side"]),
    },
)
ANNOTATIONS = (
    st.dictionaries(st.sampled_from([*KEYS, "accel.io/hostPath", "accel.io/privileged"]), WORDS, max_size=5) | ASKED
)
VOLUME = st.fixed_dictionaries(
    {"name": st.sampled_from(["accel-dev-nvidia0", "accel-usr-local-nvidia", "own"])},
    optional={"hostPath": st.fixed_dictionaries({"path": st.sampled_from(["/etc", "/opt/nvidia", "/dev/nvidia0"])})},
)
CONTAINER = st.fixed_dictionaries(
    {},
    optional={
        "env": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["LD_LIBRARY_PATH", "A"])},
                optional={"value": st.sampled_from(["", "/own:", "/usr/local/nvidia/lib64", "$(LD_LIBRARY_PATH)"])},
            ),
            max_size=2,
            unique_by=lambda e: str(e["name"]),
        ),
        "volumeMounts": st.lists(
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from(["own", "accel-dev-nvidia0"]),
                    "mountPath": st.sampled_from(["/usr/local/nvidia", "/dev/nvidia0", "/data"]),
                }
            ),
            max_size=2,
        ),
        "securityContext": st.fixed_dictionaries({}, optional={"privileged": st.none() | st.booleans()}),
        "resources": st.fixed_dictionaries(
            {
                "limits": st.dictionaries(
                    st.sampled_from(["nvidia.com/gpu", "example.com/npu"]), st.sampled_from([0, 1, "8"])
                )
            }
        ),
    },
)
SPECS = st.fixed_dictionaries(
    {"containers": st.builds(lambda a, b: [{**a, "name": "main"}, {**b, "name": "side"}], CONTAINER, CONTAINER)},
    optional={
        "volumes": st.lists(VOLUME, max_size=2, unique_by=lambda v: str(v["name"])),
        "schedulerName": st.sampled_from(["default-scheduler", "own-sched", "volcano"]),
        "nodeSelector": st.dictionaries(st.just("pool"), st.sampled_from(["private", "spot", "x"])),
        "initContainers": st.lists(CONTAINER.map(lambda c: {**c, "name": "init"}), max_size=1),
    },
)
PODS = st.builds(lambda annotations, spec: pod(annotations, **spec), ANNOTATIONS, SPECS)
JOBS = st.builds(
    lambda outer, inner, spec: {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": outer},
        "spec": {"template": {"metadata": {"annotations": inner}, "spec": spec}},
    },
    ANNOTATIONS,
    ANNOTATIONS,
    SPECS,
)
JOBSETS = st.builds(
    lambda outer, jobs: {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "annotations": outer},
        "spec": {"replicatedJobs": [{"name": f"j{i}", "template": {"spec": j["spec"]}} for i, j in enumerate(jobs)]},
    },
    ANNOTATIONS,
    st.lists(JOBS, min_size=1, max_size=2),
)


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PODS | JOBS | JOBSETS, st.sampled_from(["team-a", "team-b", "team-p"]))
def test_whatever_the_annotations_say(obj: Any, namespace: str) -> None:
    """Every host path, privilege, scheduler and placement in the result is the user's own or this namespace's.

    What comes out is also complete: injected again, it stays as it is.
    """
    outcome = given_to(obj, namespace)
    check(obj, namespace, outcome)
    if not outcome.denied:
        again = given_to(outcome.patched, namespace)
        assert (again.denied, again.patch) == ("", [])
