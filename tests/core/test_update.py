"""An update of a LeaderWorkerSet ends where a creation of the same file would, whatever was stored before.

Every file follows every other, merged with the stored object as kubectl's client-side apply and as server-side apply
merge them.
"""

import itertools
import json
from typing import Any

import pytest

from tests.support.case import decided, plain, review
from webhook import load
from webhook.core.admission import admit
from webhook.core.site import Site

Object = dict[str, Any]

SITE = load.load()
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def pods(name: str = "main", annotations: Object | None = None, **spec: Any) -> Object:
    """A pod template."""
    metadata = {"metadata": {"annotations": annotations}} if annotations else {}
    limits = {"resources": {"limits": limit}} if (limit := spec.pop("limits", None)) else {}
    return {**metadata, "spec": {"containers": [{"name": name, "image": "i", **limits}], **spec}}


def lws(annotations: Object | None = None, **group: Any) -> Object:
    """A LeaderWorkerSet, as a user's file has it."""
    keys = {f"accel.io/{key}": value for key, value in (annotations or {}).items()}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "serve", **({"annotations": keys} if keys else {})},
        "spec": {"replicas": 1, "leaderWorkerTemplate": {"workerTemplate": pods(), **group}},
    }


V6E_8 = {"accel.io/type": "tpu-v6e-8"}
TOLERATION = {"key": "spot", "operator": "Exists"}
FILES = {
    "no type": lws(),
    "v5e-16": lws({"type": "tpu-v5litepod-16"}),
    "v5e-16 with its size": lws({"type": "tpu-v5litepod-16"}, size=4),
    "v6e-32": lws({"type": "tpu-v6e-32"}),
    "v6e-8 in one host": lws({"type": "tpu-v6e-8"}),
    "v6e-8 in two hosts": lws({"type": "tpu-v6e-8"}, size=2),
    "v6e-8 on the template, counted": lws(workerTemplate=pods(annotations={**V6E_8, "accel.io/count": "4"})),
    "another topology": lws({"type": "tpu-v4-512", "topology": "4x4x16"}),
    "a leader without TPUs": lws({"type": "tpu-v4-16"}, leaderTemplate=pods("l", {"accel.io/type": "none"})),
    "a leader with TPUs": lws({"type": "tpu-v4-16"}, leaderTemplate=pods("leader")),
    "volcano": lws({"type": "tpu-v4-16", "scheduler": "volcano", "queue": "a"}, leaderTemplate=pods("leader")),
    "another queue": lws({"type": "tpu-v4-16", "scheduler": "volcano", "queue": "b"}, leaderTemplate=pods("leader")),
    "a GPU": lws({"type": "nvidia-l4"}, workerTemplate=pods(tolerations=[TOLERATION])),
    "two GPUs and shared memory": lws({"type": "nvidia-l4", "count": "2", "shm": "8Gi"}),
    "a placeholder": lws(workerTemplate=pods(limits={"accel.io/tpu-v4-16": "1"})),
    "another placeholder": lws(workerTemplate=pods(limits={"accel.io/nvidia-l4": "2"})),
    "a selector by hand": lws({"type": "tpu-v4-16"}, workerTemplate=pods(nodeSelector={"disk": "ssd"})),
    "host network": lws({"type": "tpu-v4-16"}, workerTemplate=pods(hostNetwork=True)),
    "not for us": lws({"type": "tpu-v4-16", "inject": "false"}),
}
"""No size but where it is named: a size that the file has is the user's, and stays so."""


def created(file: Object, site: Site = SITE) -> Object:
    """What a creation stores: the API server's default size, then ours."""
    sent = plain(file)
    sent["spec"]["leaderWorkerTemplate"].setdefault("size", 1)
    done = decided(admit(review(sent), site), sent)
    assert done.denied == ""
    stored: Object = done.patched
    return stored


def merged(stored: Any, before: Any, file: Any, *, by_name: bool) -> Any:
    """`stored` with what `file` says, and without what `before` said and `file` does not.

    Lists are the file's, but `by_name` those of named things keep what the file does not name.
    """
    if isinstance(stored, dict) and isinstance(file, dict):
        old = before if isinstance(before, dict) else {}
        kept = {key: value for key, value in stored.items() if key in file or key not in old}
        return {
            key: merged(kept.get(key), old.get(key), file[key], by_name=by_name) if key in file else plain(kept[key])
            for key in {**kept, **file}
        }
    if by_name and isinstance(stored, list) and isinstance(file, list) and all("name" in item for item in file):
        known = {item["name"]: item for item in stored}
        olds = {item["name"]: item for item in before or ()}
        return [merged(known.get(i["name"]), olds.get(i["name"]), i, by_name=True) for i in file]
    return plain(file)


def client_side(stored: Object, before: Object, file: Object) -> Object:
    """kubectl apply, which keeps the file; the API server notes what it wrote, its own default size included."""
    new: Object = merged(stored, before, file, by_name=False)
    new["metadata"].setdefault("annotations", {})[LAST_APPLIED] = json.dumps(file)
    fields = noted(file)
    fields["f:spec"]["f:leaderWorkerTemplate"]["f:size"] = {}
    return with_note(new, "Update", fields)


def server_side(stored: Object, before: Object, file: Object) -> Object:
    """kubectl apply --server-side; the API server notes which fields the file has."""
    return with_note(merged(stored, before, file, by_name=True), "Apply", noted(file))


def with_note(obj: Object, operation: str, fields: Object) -> Object:
    """The object with one entry of managed fields."""
    note = {"manager": "kubectl", "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields}
    obj["metadata"]["managedFields"] = [note]
    return obj


def noted(file: Any) -> Any:
    """The fields of a file, as managed fields spell them: containers by name, other lists as a whole."""
    if isinstance(file, dict):
        return {f"f:{key}": noted(value) for key, value in file.items()}
    if isinstance(file, list) and all("image" in item for item in file):
        return {f'k:{{"name":"{item["name"]}"}}': noted(item) for item in file}
    return {}


def essence(obj: Any) -> Any:
    """The object without empty things, notes and the order of what has none."""
    if isinstance(obj, dict):
        inner = {k: essence(v) for k, v in obj.items() if k not in ("managedFields", LAST_APPLIED)}
        return {key: value for key, value in inner.items() if value not in ({}, [], None)}
    if isinstance(obj, list):
        return sorted((essence(item) for item in obj), key=lambda item: json.dumps(item, sort_keys=True))
    return obj


PAIRS = list(itertools.permutations(FILES, 2)) + [(name, name) for name in FILES]


@pytest.mark.parametrize("apply", [client_side, server_side])
def test_an_update_ends_where_a_creation_would(apply: Any) -> None:
    """For each pair of files; then applying the same file again, and injecting the result again, changes nothing."""
    for first, second in PAIRS:
        old = created(FILES[first])
        new = apply(old, FILES[first], FILES[second])
        new["spec"]["leaderWorkerTemplate"].setdefault("size", 1)
        done = decided(admit(review(new, old), SITE), new)

        assert done.denied == "", (first, second)
        after = plain(done.patched)
        after["spec"]["leaderWorkerTemplate"].setdefault("size", 1)  # the API server's, after a patch
        expected = created(FILES[second])
        if second == "not for us":
            assert done.patch == [], first
        else:
            assert essence(after) == essence(expected), (first, second)
        again = apply(after, FILES[second], FILES[second])
        twice = decided(admit(review(again, after), SITE), again)
        assert essence(twice.patched) == essence(after), (first, second)
        assert decided(admit(review(after, after), SITE), after).patch == [], (first, second)


def test_a_size_in_the_file_is_never_changed() -> None:
    """A type that wants another size is refused, by what either way of applying notes."""
    file, other = lws({"type": "tpu-v5litepod-16"}, size=4), lws({"type": "tpu-v6e-32"}, size=4)
    old = created(file)
    for apply in (client_side, server_side):
        new = apply(old, file, other)
        assert 'size: "4", but tpu-v6e-32 has 8 hosts' in decided(admit(review(new, old), SITE), new).denied


def test_an_unknown_type_does_not_lock_what_was_stored_with_it() -> None:
    """Stored while the webhook was away: an update that does not name the type is let through, with a warning."""
    old = lws({"type": "tpu-v6e-31"}, size=1)
    new = plain(old)
    new["spec"]["replicas"] = 2
    done = decided(admit(review(new, old), SITE), new)

    assert (done.denied, done.patch) == ("", [])
    assert "left as it was" in done.warnings[0]
