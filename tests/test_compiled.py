"""The compiled core: that it is what is tested where it should be, and what mypyc does otherwise than Python."""

import os

import msgspec
import pytest

from tests.case import site
from webhook import admission, patch
from webhook.inject import inject
from webhook.kinds.workload import Setting
from webhook.patch import Put
from webhook.value import Value, same
from webhook.workloads import WORKLOADS

WANTED = os.environ.get("ACCEL_COMPILED") == "1"


def test_the_core_is_compiled_where_it_should_be() -> None:
    """Else the tests on the compiled core would be tests of the other one, and a checkout would run stale code."""
    compiled = not str(patch.__file__).endswith(".py")
    assert WANTED == compiled
    print(f"the core is {'compiled' if compiled else 'Python'}: {patch.__file__}")


def test_values_are_frozen() -> None:
    """mypyc drops a class's keywords, so the base has them."""
    edit = Put(("spec",), 1)
    with pytest.raises(AttributeError):
        edit.path = ()  # type: ignore[misc]
    assert issubclass(Put, Value)
    assert {edit: 1} == {Put(("spec",), 1): 1}


def test_equal_values_are_the_same() -> None:
    """mypyc takes `==` of two values of one class for `is`."""
    assert same(Put(("spec",), 1), Put(("spec",), 1))
    assert not same(Put(("spec",), 1), Put(("spec",), 2))


def test_alike_templates_are_decided_once() -> None:
    """One list of edits for all of them, not equal ones: a JobSet of 50 replicated jobs costs little more than one."""
    template = {"spec": {"containers": [{"name": "train"}]}}
    jobs = [{"name": f"slice-{i}", "template": {"spec": {"template": template}}} for i in range(3)]
    jobset = {"metadata": {"annotations": {"accel.io/type": "tpu-v4-16"}}, "spec": {"replicatedJobs": jobs}}
    workload = WORKLOADS["jobset.x-k8s.io", "JobSet"]
    view = admission.view(workload, msgspec.json.encode(jobset))

    first, *others = (s for s in inject(workload, view, Setting("x", site(None))).sections if s.path)
    assert [2, True, True] == [len(others), *(other.edits is first.edits for other in others)]
