"""The compiled core: that it is what is tested where it should be, and what mypyc does otherwise than Python."""

import ast
import os
import re
from pathlib import Path

import msgspec
import pytest

from tests.case import site
from webhook import admission, patch
from webhook.inject import inject
from webhook.kinds.workload import Setting
from webhook.patch import Put
from webhook.plain import Plain, same
from webhook.scheduling import Scheduling
from webhook.value import Value
from webhook.workloads import WORKLOADS

WANTED = os.environ.get("ACCEL_COMPILED") == "1"


def test_the_core_is_compiled_where_it_should_be() -> None:
    """Else the tests on the compiled core would be tests of the other one, and a checkout would run stale code."""
    compiled = not str(patch.__file__).endswith(".py")
    assert WANTED == compiled
    print(f"the core is {'compiled' if compiled else 'Python'}: {patch.__file__}")


def test_values_are_frozen() -> None:
    """mypyc drops a class's keywords, so the base has them."""
    decided = Scheduling("volcano")
    with pytest.raises(AttributeError):
        decided.name = None  # type: ignore[misc]
    assert issubclass(Scheduling, Value)


COMPILED = re.findall(r'^    "(\w+)",$', Path("setup.py").read_text(), re.MULTILINE)
CORE = [*(Path("webhook", f"{name}.py") for name in COMPILED), *Path("webhook/kinds").glob("*.py")]
CLASSES = [node for file in CORE for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef)]
PLAIN = [node for node in CLASSES if any(isinstance(base, ast.Name) and base.id == "Plain" for base in node.bases)]


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.name)
def test_the_fields_of_a_plain_value_are_its_parameters(kind: ast.ClassDef) -> None:
    """One that is forgotten would not be compared, and be lost from copies."""
    (constructor,) = (node for node in kind.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    found = [argument.arg for argument in (*constructor.args.args, *constructor.args.kwonlyargs)]
    (cls,) = (cls for cls in Plain.__subclasses__() if cls.__name__ == kind.name)
    assert ["self", *cls.FIELDS] == found


def test_nobody_sets_a_field_of_a_plain_value() -> None:
    """Nothing else keeps them frozen: only a constructor sets its own."""
    fields = {name for cls in Plain.__subclasses__() for name in cls.FIELDS}
    anywhere = [node for file in CORE for node in _set_in(ast.parse(file.read_text()))]
    assert [] == [ast.unparse(node) for node in anywhere if node.attr in fields and ast.unparse(node.value) != "self"]

    methods = [node for kind in PLAIN for node in kind.body if isinstance(node, ast.FunctionDef)]
    assert {"__init__"} == {method.name for method in methods if _set_in(method)}


def _set_in(tree: ast.AST) -> list[ast.Attribute]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]


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
