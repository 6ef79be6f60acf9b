"""Edits become operations: parents, escapes, merges, order."""

import jsonpatch
import msgspec
import pytest

from webhook.core.patch import Append, Edit, Put, Remove, Section, as_was, at, pointer, render, within
from webhook.core.schema.job import Job
from webhook.core.schema.pod import Template

TOLERATION = {"key": "google.com/tpu", "operator": "Exists"}
PATH = ("spec", "nodeSelector", "a/b~c")


def applied(obj: object, *edits: Edit) -> object:
    """The object after the edits, by way of a patch and a library that is not ours."""
    view = msgspec.json.decode(msgspec.json.encode(obj), type=Template)
    return jsonpatch.apply_patch(obj, msgspec.to_builtins(render(view, [Section((), edits)])))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"spec": {"nodeSelector": {"a/b~c": "x"}}}),
        ({"spec": None}, {"spec": {"nodeSelector": {"a/b~c": "x"}}}),
        ({"spec": {"nodeSelector": None}}, {"spec": {"nodeSelector": {"a/b~c": "x"}}}),
        ({"spec": {"nodeSelector": {}}}, {"spec": {"nodeSelector": {"a/b~c": "x"}}}),
        ({"spec": {"nodeSelector": {"a/b~c": None}}}, {"spec": {"nodeSelector": {"a/b~c": "x"}}}),
        ({"spec": {"nodeSelector": {"a/b~c": "y", "d": "e"}}}, {"spec": {"nodeSelector": {"a/b~c": "x", "d": "e"}}}),
    ],
)
def test_put_creates_what_is_missing(before: object, after: object) -> None:
    """Missing and null parents are made, others kept."""
    assert after == applied(before, Put(PATH, "x"))


def test_put_of_what_is_there_is_no_operation() -> None:
    """A patch says only what changes."""
    view = msgspec.json.decode(b'{"spec": {"nodeSelector": {"a/b~c": "x"}}}', type=Template)

    assert [] == render(view, [Section((), [Put(PATH, "x")])])


def test_the_first_edit_of_a_place_wins() -> None:
    """The order of mutators decides, not chance."""
    assert {"spec": {"schedulerName": "a"}} == applied(
        {}, Put(("spec", "schedulerName"), "a"), Put(("spec", "schedulerName"), "b")
    )


def test_one_new_parent_is_one_operation() -> None:
    """What lies under one new parent is added with it."""
    view = msgspec.json.decode(b"{}", type=Template)
    edits = [Put(("spec", "nodeSelector", k), "v") for k in "abc"]

    assert 1 == len(render(view, [Section((), edits)]))


@pytest.mark.parametrize("before", [{}, {"spec": {}}, {"spec": {"tolerations": None}}, {"spec": {"tolerations": []}}])
def test_append_to_no_list_makes_one(before: object) -> None:
    """Two items appended to nothing stand in one list, in order."""
    other = {"key": "b"}
    path = ("spec", "tolerations")
    after = applied(before, Append(path, TOLERATION, ("key",)), Append(path, other, ("key",)))

    assert {"spec": {"tolerations": [TOLERATION, other]}} == after


def test_a_section_stands_where_it_says() -> None:
    """A template's edits are the same wherever the template is: its place is a prefix, and removals still go last."""
    obj = {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}, "spec": {"nodeSelector": {}}}}}
    view = msgspec.json.decode(msgspec.json.encode(obj), type=Job)
    inside = Section(("spec", "template"), [Put(PATH, "x"), Remove(("metadata", "annotations", "a"))])
    around = Section((), [Put(("spec", "parallelism"), 2)])

    after = jsonpatch.apply_patch(obj, msgspec.to_builtins(render(view, [inside, around])))
    template = {"metadata": {"annotations": {}}, "spec": {"nodeSelector": {"a/b~c": "x"}}}
    assert {"spec": {"parallelism": 2, "template": template}} == after
    assert [Put(("spec", "template", *PATH), "x")] == within(inside.path, inside.edits[:1])


def test_append_of_the_same_item_twice_is_once() -> None:
    """Two mutators that want the same toleration get one."""
    edit = Append(("spec", "tolerations"), TOLERATION, ("key",))

    assert {"spec": {"tolerations": [TOLERATION]}} == applied({}, edit, edit)


def test_insertions_before_an_item_keep_their_order() -> None:
    """Variables go before the one that uses them, the first of them first."""
    pod = {"spec": {"containers": [{"name": "c", "env": [{"name": "a"}, {"name": "z"}]}]}}
    path = ("spec", "containers", 0, "env")
    edits = [Append(path, {"name": n}, ("name",), before=1) for n in "pq"]
    after = at(applied(pod, *edits, Append(path, {"name": "end"}, ("name",))), path)

    assert ["a", "p", "q", "z", "end"] == [variable["name"] for variable in after]


def test_removals_come_last_and_from_the_back() -> None:
    """An index means the same to every operation."""
    pod = {"spec": {"tolerations": [{"key": k} for k in "abcdefghijkl"]}}
    path = ("spec", "tolerations")
    gone = [Remove((*path, i)) for i in (2, 10, 9)]
    after = at(applied(pod, *gone, Append(path, TOLERATION, ("key",))), path)

    assert [*"abdefghil", "google.com/tpu"] == [toleration["key"] for toleration in after]


def test_removing_what_is_not_there_is_no_operation() -> None:
    """A patch with a failing removal would fail the whole request."""
    assert {"spec": {}} == applied({"spec": {}}, Remove(("spec", "nodeSelector", "a")))


def test_pointer_escapes() -> None:
    """RFC 6901: ~ before /."""
    assert "/a~0b/c~1d/0" == pointer(("a~b", "c/d", 0))


def test_an_undeclared_field_is_our_mistake() -> None:
    """A path that the view does not know must not pass for an absent field."""
    view = msgspec.json.decode(b'{"spec": {}}', type=Template)

    with pytest.raises(AttributeError):
        render(view, [Section((), [Put(("spec", "notDeclared", "x"), 1)])])


def test_as_was_keeps_what_the_old_object_has() -> None:
    """Values, list items by their key, and nothing where the old object has nothing."""
    old = {"spec": {"schedulerName": "old", "tolerations": [{"key": "google.com/tpu", "effect": "NoSchedule"}]}}
    edits = [
        Put(("spec", "schedulerName"), "new"),
        Put(("spec", "dnsPolicy"), "new"),
        Append(("spec", "tolerations"), TOLERATION, ("key",)),
        Append(("spec", "volumes"), {"name": "v"}, ("name",)),
        Remove(("spec", "nodeSelector")),
        Remove(("spec", "tolerations")),
    ]

    assert [
        Put(("spec", "schedulerName"), "old"),
        Append(("spec", "tolerations"), {"key": "google.com/tpu", "effect": "NoSchedule"}, ("key",)),
        Remove(("spec", "nodeSelector")),
    ] == as_was(edits, old)
