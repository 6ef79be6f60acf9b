"""Frozen values that are read a hundred times for each review. Pure.

mypyc reads an attribute of a plain class with one load; of a msgspec Struct, which it does not know, in twenty times
that. So what decoding makes is a Struct, and so is what is seldom read; this is for the few in between.
"""

from typing import Any, ClassVar, Self


class Plain:
    """A frozen value with a constructor of its own: it is equal to another of its class whose FIELDS are equal.

    `FIELDS` are the constructor's parameters, each an attribute that nobody sets again: tests/test_compiled.py looks
    for it. They are not `Final`, since mypyc (2.4.1) lends what a Final attribute holds to its reader without a
    reference of his own, and may free its owner meanwhile.
    """

    FIELDS: ClassVar[tuple[str, ...]] = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _parts(self) == _parts(other)

    def __hash__(self) -> int:
        return hash(_parts(self))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.FIELDS)
        return f"{type(self).__name__}({shown})"

    def but(self, **changes: Any) -> Self:
        """The same with other values for some fields."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.FIELDS}
        fields.update(changes)
        return type(self)(**fields)


def same(one: object, other: object) -> bool:
    """Whether two values are equal, compiled or not: of two of one class of ours mypyc may take `==` for `is`."""
    return one is other or one == other


def _parts(value: Any) -> tuple[Any, ...]:
    return tuple([getattr(value, name) for name in value.FIELDS])
