"""The compiled core: that it is what is tested where it should be, and what mypyc does otherwise than Python."""

import ast
import os
from pathlib import Path

import pytest

from webhook.core import patch
from webhook.core.patch import Put
from webhook.core.scheduling import Scheduling

WANTED = os.environ.get("ACCEL_COMPILED") == "1"


def test_the_core_is_compiled_where_it_should_be() -> None:
    """Else the tests on the compiled core would be tests of the other one, and a checkout would run stale code."""
    compiled = not str(patch.__file__).endswith(".py")
    assert WANTED == compiled
    print(f"the core is {'compiled' if compiled else 'Python'}: {patch.__file__}")


CORE = [path for path in sorted(Path("webhook/core").rglob("*.py")) if {"schema", "yaml"}.isdisjoint(path.parts)]
CLASSES = [node for file in CORE for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef)]
VALUES = [node for node in CLASSES if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)]
OWN = [node for node in VALUES if any("init=False" in ast.unparse(decorator) for decorator in node.decorator_list)]
"""Those that spell their constructor out."""


@pytest.mark.parametrize("cls", OWN, ids=lambda cls: cls.name)
def test_the_parameters_of_a_constructor_are_the_fields(cls: ast.ClassDef) -> None:
    """One that is forgotten would not be compared, or be lost from copies."""
    (constructor,) = (node for node in cls.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    parameters = [argument.arg for argument in (*constructor.args.args, *constructor.args.kwonlyargs)]
    assert ["self", *fields(cls)] in (parameters, [*parameters, *_made_in(constructor, parameters)])


def fields(cls: ast.ClassDef) -> list[str]:
    return [
        node.target.id for node in cls.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]


def _made_in(constructor: ast.FunctionDef, parameters: list[str]) -> list[str]:
    """What a constructor works out from its parameters, so that it need not be worked out again."""
    return [node.attr for node in _set_in(constructor) if node.attr not in parameters]


def test_nobody_sets_a_field_of_a_value() -> None:
    """Nothing else keeps those frozen whose constructor is spelled out: only that sets them."""
    names = {name for cls in VALUES for name in fields(cls)}
    anywhere = [node for file in CORE for node in _set_in(ast.parse(file.read_text()))]
    assert [] == [ast.unparse(node) for node in anywhere if node.attr in names and ast.unparse(node.value) != "self"]

    methods = [node for cls in VALUES for node in cls.body if isinstance(node, ast.FunctionDef)]
    assert {"__init__"} == {method.name for method in methods if _set_in(method)}


def _set_in(tree: ast.AST) -> list[ast.Attribute]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]


def test_values_are_compared_by_their_fields() -> None:
    """Compiled or not."""
    assert Put(("spec",), 1) == Put(("spec",), 1)
    assert Put(("spec",), 1) != Put(("spec",), 2)
    assert Scheduling("volcano") == Scheduling("volcano")
