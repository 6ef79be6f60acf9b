"""What the golden cases cannot say of all paths and values: names of volumes, LD_LIBRARY_PATH, amended items."""

import re
from typing import Any

import hypothesis.strategies as st
import jsonpatch
import msgspec
from hypothesis import given, settings

from tests.support.case import decided, review
from webhook import load
from webhook.core.admission import admit
from webhook.core.patch import Amend, Append, Section, as_was, render
from webhook.core.rules.host import Mount, volume_names
from webhook.core.site import Site

PATHS = st.from_regex(r"(/[a-zA-Z0-9._-]{1,12}){1,6}", fullmatch=True)
UNTIMED = settings(deadline=None)
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@UNTIMED
@given(st.lists(PATHS, min_size=2, max_size=8, unique=True))
def test_two_paths_never_have_one_name(paths: list[str]) -> None:
    """Each name is a DNS label, of at most 63 characters, and belongs to one path, whatever it looks like."""
    names = [next(volume_names(Mount(path, path))) for path in paths]

    assert len(set(names)) == len(names)
    assert [] == [name for name in names if not LABEL.fullmatch(name)]


@UNTIMED
@given(PATHS)
def test_a_path_always_has_the_same_name(path: str) -> None:
    """And where a user's volume has it, others follow, all different."""
    first, again = volume_names(Mount(path, path)), volume_names(Mount(path, path))
    some = [next(first) for _ in range(4)]

    assert some == [next(again) for _ in range(4)]
    assert len(set(some)) == 4


OURS = "/usr/local/nvidia/lib64:/usr/local/nccl/lib"
CONFIG = f"""
hostProfiles:
  libraries: {{types: [nvidia-*], modes: [plugin], namespaces: ["*"], env: {{LD_LIBRARY_PATH: "{OURS}"}}}}
"""
SITE = Site.parse(CONFIG.encode(), "site.yaml", load.builtin())


@UNTIMED
@given(st.lists(st.sampled_from(["", "/own", "/opt/lib", "$(HOME)/lib", *OURS.split(":")]), max_size=5))
def test_the_library_path_keeps_what_it_had(parts: list[str]) -> None:
    """Ours are in it, the user's value is its end, to the byte, and a second time changes nothing."""
    container = {"name": "main", "env": [{"name": "LD_LIBRARY_PATH", "value": ":".join(parts)}]}
    metadata = {"name": "p", "annotations": {"accel.io/type": "nvidia-l4"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    result = decided(admit(review(pod), SITE), pod).patched
    (variable,) = result["spec"]["containers"][0]["env"]

    assert set(OURS.split(":")) <= set(variable["value"].split(":"))
    assert variable["value"].endswith(":".join(parts))
    assert [] == decided(admit(review(result), SITE), result).patch


class _Item(msgspec.Struct):
    name: str
    value: str | None = None


class _Root(msgspec.Struct):
    env: list[_Item]


def amended(items: list[dict[str, Any]], *edits: Append | Amend) -> Any:
    """The list after the edits, by a patch library that is not ours."""
    root = msgspec.convert({"env": items}, _Root)
    return jsonpatch.apply_patch({"env": items}, msgspec.to_builtins(render(root, [Section((), edits)])))["env"]


def test_an_item_is_found_behind_those_that_were_put_before_it() -> None:
    """Operations apply in order, so an index counts what came in meanwhile."""
    items = [{"name": "a"}, {"name": "b", "value": "old", "future": 1}]
    new = Append(("env",), {"name": "n", "value": "x"}, key=("name",), before=0)
    amend = Amend(("env",), 1, {"name": "b", "value": "new"}, key=("name",))

    assert amended(items, new, amend) == [{"name": "n", "value": "x"}, {"name": "a"}, {**items[1], "value": "new"}]
    assert amended(items, amend, new) == [{"name": "n", "value": "x"}, {"name": "a"}, {**items[1], "value": "new"}]


def test_a_value_that_is_there_makes_no_operation() -> None:
    """The webhook answers without a patch where nothing changes."""
    root = msgspec.convert({"env": [{"name": "a", "value": "x"}]}, _Root)

    assert [] == render(root, [Section((), [Amend(("env",), 0, {"name": "a", "value": "x"}, key=("name",))])])


def test_an_item_of_a_stored_object_is_found_by_its_key() -> None:
    """Not by the index: injection may have put others before it."""
    amend = Amend(("env",), 0, {"name": "a", "value": "today"}, key=("name",))
    stored = {"env": [{"name": "n", "value": "x"}, {"name": "a", "value": "then"}]}

    (kept,) = as_was([amend], stored)
    assert (kept.value, kept.index) == ({"name": "a", "value": "then"}, 0)  # type: ignore[union-attr]
    assert [] == as_was([amend], {"env": [{"name": "n"}]})
