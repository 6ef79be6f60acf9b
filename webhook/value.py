"""What the core passes on: values that nobody changes. Pure."""

import msgspec


class Value(msgspec.Struct, frozen=True, gc=False):
    """A frozen value. It is made of others that were there before it, so it holds no cycle for gc to find.

    A base, so that its subclasses inherit this: mypyc, which compiles the core, does not hand a class's keywords on
    to msgspec. `frozen=True` stands there again for mypy.
    """
