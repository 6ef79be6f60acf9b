"""What every injected object promises to those who write it again, on the real API server with the kinds' own CRDs.

Applied twice, put back as it was read, replaced by its file, and taken over by a controller that applies the file
every so often: no error, no other spec, and no write where nothing changed. Each golden case without a site config
that a client can create is tried, so that a new one is covered by itself.
"""

from typing import Any

import pytest

from tests.support.case import Case, all_cases, plain
from tests.support.stored import meaning, missing, same

from .controlplane import ControlPlane
from .crd import ANYTHING, crd
from .rest import Answer

pytestmark = pytest.mark.usefixtures(
    "injector", "jobset_controller", "lws_controller", "kuberay_operator", "training_operator"
)

APPLY = "application/apply-patch+yaml"
VOLCANO = "batch.volcano.sh/v1alpha1"
PLURALS = {"RayCluster": "rayclusters", "RayJob": "rayjobs", "RayService": "rayservices"}
OTHERS = {"deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration"}
"""Annotations that somebody else writes."""

UNREPLACED = {"v1", "batch/v1"}
"""Versions whose kinds no file replaces, injected or not: the API server fills in what may not change afterwards."""

UNSERVED = {"kubeflow.org/v2beta1": "the training operator's CRD has MPIJob in version v1 only"}


def tried(case: Case) -> bool:
    """Whether a client can create the case's object here."""
    obj = case.object
    plain_site = not (case.folder / "config.yaml").exists()
    named = "generateName" not in obj["metadata"] and "ownerReferences" not in obj["metadata"]
    return plain_site and named and not case.denied and not case.old


CASES = [case for case in all_cases() if tried(case)]


@pytest.fixture(scope="module")
def place(cluster: ControlPlane) -> Any:
    """A namespace for all of them, and a CRD of Volcano's, whose controller is not here."""
    cluster.install_crds(crd(VOLCANO, "Job", ANYTHING))
    namespace = cluster.namespace({"accel.io/injection": "enabled"})
    yield namespace
    cluster.delete_namespace(namespace)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_written_again(cluster: ControlPlane, place: str, case: Case) -> None:
    """Each way to write the same object leaves what is stored."""
    obj = file_of(case, place)
    if obj["apiVersion"] in UNSERVED:
        pytest.skip(UNSERVED[obj["apiVersion"]])
    path = path_of(obj)
    created = cluster.request("PATCH", path, obj, {"fieldManager": "kubectl"}, content=APPLY)
    if not created.ok:
        pytest.skip(f"the API server refuses it: {created.body['message']}")
    try:
        assert "\n".join(wrong(cluster, path, case, obj, created.body)) == ""
    finally:
        cluster.request("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        cluster.wait_for("it to be gone", lambda: cluster.request("GET", path).status == 404)


def wrong(cluster: ControlPlane, path: str, case: Case, obj: Any, created: Any) -> list[str]:
    """The ways of writing that failed or changed something."""
    first = kept(created)
    found: list[str] = []

    def look(what: str, answer: Answer) -> None:
        if not answer.ok:
            found.append(f"{what}: {answer.status} {answer.body['message']}")
        else:
            found.extend(f"{what}: {line}" for line in difference(first, kept(answer.body)))

    again = cluster.request("PATCH", path, obj, {"fieldManager": "kubectl"}, content=APPLY)
    if again.status != 409:  # its own controller has written the same fields meanwhile, and now owns them
        look("applied again", again)
    look("put back as read", put(cluster, path, cluster.get(path)))
    forced = {"fieldManager": "controller", "force": "true"}
    look("force-applied by a controller", cluster.request("PATCH", path, obj, forced, content=APPLY))
    if obj["apiVersion"] not in UNREPLACED:
        found += replaced(cluster, path, case, obj, created)
    return found


def replaced(cluster: ControlPlane, path: str, case: Case, obj: Any, created: Any) -> list[str]:
    """What an object loses that is replaced by its file."""
    answer = put(cluster, path, obj)
    if not answer.ok:
        return [f"replaced by its file: {answer.body['message']}"] if replaceable(cluster, obj) else []
    lost = missing(case.expected["spec"], answer.body["spec"])
    at_first = missing(case.expected["spec"], created["spec"])  # what is injected as its Pods are admitted
    return [f"replaced by its file: {line}" for line in lost if line not in at_first]


def replaceable(cluster: ControlPlane, obj: Any) -> bool:
    """Whether the file replaces its object where nobody injects: defaults that may not change often forbid it."""
    namespace = cluster.namespace()
    obj = {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}
    path = path_of(obj)
    created = cluster.request("PATCH", path, obj, {"fieldManager": "kubectl"}, content=APPLY)
    replaced = put(cluster, path, obj) if created.ok else created
    cluster.delete_namespace(namespace)
    return replaced.ok


def put(cluster: ControlPlane, path: str, obj: Any) -> Answer:
    """Replace the stored object, with its own resourceVersion; again where a controller was quicker."""
    for _ in range(5):
        version = cluster.get(path)["metadata"]["resourceVersion"]
        body = {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}
        answer = cluster.request("PUT", path, body)
        if answer.status != 409:
            break
    return answer


def file_of(case: Case, namespace: str) -> Any:
    """The case's object with a name, in the test's namespace."""
    obj = plain(case.object)
    obj["metadata"] = {**obj["metadata"], "namespace": namespace, "name": obj["metadata"].get("name", "train")}
    for field in ("managedFields", "uid", "resourceVersion", "creationTimestamp"):
        obj["metadata"].pop(field, None)
    obj.pop("status", None)
    return obj


def path_of(obj: Any) -> str:
    """Where the API server has it."""
    version, kind, metadata = obj["apiVersion"], obj["kind"], obj["metadata"]
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    return f"{root}/namespaces/{metadata['namespace']}/{kind.lower()}s/{metadata['name']}"


def kept(stored: Any) -> Any:
    """What must not change: the spec and the object's own keys."""
    metadata = stored["metadata"]
    spec = {key: value for key, value in (stored.get("spec") or {}).items() if key != "nodeName"}  # the scheduler's
    return {
        "spec": meaning(spec),
        "annotations": {key: value for key, value in metadata.get("annotations", {}).items() if key not in OTHERS},
        "labels": metadata.get("labels", {}),
    }


def difference(one: Any, other: Any, path: str = "") -> list[str]:
    """The paths at which two values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted(one.keys() | other.keys())
        return [line for key in keys for line in difference(one.get(key), other.get(key), f"{path}/{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            line for n, pair in enumerate(zip(one, other, strict=True)) for line in difference(*pair, f"{path}/{n}")
        ]
    return [] if same(one, other) else [f"{path}: {one!r} -> {other!r}"]
