"""An update of a Ray object that was injected ends where a creation of the same file would.

Neither way of applying merges `workerGroupSpecs`, a list without keys: it becomes the file's, without any injection.
Source: https://github.com/ray-project/kuberay/blob/v1.6.0/ray-operator/config/crd/bases/ray.io_rayclusters.yaml
"""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.core.test_update import LAST_APPLIED, Object, essence, merged, noted, pods, with_note
from tests.support.case import decided, plain, review
from webhook import load
from webhook.core.admission import admit

SITE = load.load()
PATHS = {"RayCluster": (), "RayJob": ("rayClusterSpec",), "RayService": ("rayClusterConfig",)}


def group(name: str = "workers", template: Object | None = None, **spec: Any) -> Object:
    """A worker group, as a user's file has it."""
    return {"groupName": name, "replicas": 1, "template": template or pods(), **spec}


def ray(kind: str, annotations: Object | None, *groups: Object, head: Object | None = None) -> Object:
    """A Ray object, as a user's file has it."""
    keys = {f"accel.io/{key}": value for key, value in (annotations or {}).items()}
    spec: Object = {"headGroupSpec": {"template": head or pods("head")}, "workerGroupSpecs": list(groups or [group()])}
    for step in reversed(PATHS[kind]):
        spec = {step: spec}
    metadata = {"name": "ray", **({"annotations": keys} if keys else {})}
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


L4 = {"accel.io/type": "nvidia-l4"}
FILES: dict[str, tuple[Any, ...]] = {
    "v4-16": ({"type": "tpu-v4-16"},),
    "v4-16 with its hosts": ({"type": "tpu-v4-16"}, group(numOfHosts=2)),
    "v6e-32": ({"type": "tpu-v6e-32"},),
    "v6e-8 in two hosts": ({"type": "tpu-v6e-8"}, group(numOfHosts=2)),
    "a GPU": ({"type": "nvidia-l4"},),
    "two GPUs and shared memory": ({"type": "nvidia-l4", "count": "2", "shm": "8Gi"},),
    "a GPU on the template": (None, group(template=pods(annotations=L4))),
    "a placeholder": (None, group(template=pods(limits={"accel.io/tpu-v4-16": "1"}))),
    "slices of one job": ({"type": "tpu-v4-16", "multislice": "true"}, group(replicas=2)),
    "three slices": ({"type": "tpu-v4-16", "multislice": "true"}, group(replicas=3)),
    "two groups": ({"type": "tpu-v4-16"}, group("a"), group("b", pods(annotations=L4))),
    "the groups in another order": ({"type": "tpu-v4-16"}, group("b", pods(annotations=L4)), group("a")),
}


def created(file: Object) -> Object:
    """What a creation stores."""
    done = decided(admit(review(file), SITE), file)
    assert done.denied == ""
    return plain(done.patched)  # type: ignore[no-any-return]


def client_side(stored: Object, before: Object, file: Object) -> Object:
    """kubectl apply, which keeps the file."""
    new: Object = merged(stored, before, file, by_name=False)
    new["metadata"].setdefault("annotations", {})[LAST_APPLIED] = json.dumps(file)
    return with_note(new, "Update", noted(file))


def server_side(stored: Object, before: Object, file: Object) -> Object:
    """kubectl apply --server-side."""
    return with_note(merged(stored, before, file, by_name=True), "Apply", noted(file))


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize("apply", [client_side, server_side])
def test_an_update_ends_where_a_creation_would(kind: str, apply: Callable[..., Object]) -> None:
    """For each pair of files; and the same file again is not a word to anybody."""
    for first, second in [*itertools.permutations(FILES, 2), *((name, name) for name in FILES)]:
        before, after = (ray(kind, *FILES[name]) for name in (first, second))
        old = created(before)
        new = apply(old, before, after)
        done = decided(admit(review(new, old), SITE), new)

        assert done.denied == "", (first, second)
        assert essence(done.patched) == essence(created(after)), (first, second)
        assert first != second or done.warnings == (), first


@pytest.mark.parametrize("kind", PATHS)
def test_an_autoscaler_changes_no_template(kind: str) -> None:
    """It patches the replicas of a group, and nothing else becomes of it."""
    for name, said in FILES.items():
        old = created(ray(kind, *said))
        new = plain(old)
        cluster = new["spec"]
        for step in PATHS[kind]:
            cluster = cluster[step]
        cluster["workerGroupSpecs"][0]["replicas"] = 7
        assert decided(admit(review(new, old), SITE), new).patch == [], name


@pytest.mark.parametrize("kind", PATHS)
def test_what_was_not_injected_stays_so(kind: str) -> None:
    """KubeRay has made Pods of it: an update of something else is no occasion to change them."""
    old = ray(kind, {"type": "tpu-v4-16"})
    new = plain(old)
    new["metadata"]["labels"] = {"team": "a"}
    new["spec"]["suspend"] = True
    assert decided(admit(review(new, old), SITE), new).patch == []
