"""The TorchX names without TorchX; tests/cluster/test_torchx.py has the real client."""

from importlib.metadata import EntryPoint

import pytest

from webhook import load, torchx
from webhook.core.messages import Denied

CATALOGUE = load.load().catalogue
NAMES = tuple(torchx.names(CATALOGUE.names()))


def test_the_list_of_entry_points_is_current() -> None:
    """`python -m webhook.torchx` would write the file that is there (else: make docs)."""
    path = torchx.files("webhook") / "data" / "torchx.ini"
    assert torchx.written(CATALOGUE.names()) == path.read_text()


@pytest.mark.parametrize("name", ["tpu_v4_16", "tpu_v3_8", "tpu7x_128", "nvidia_h100_80gb_x8", "nvidia_mig_1g.5gb"])
def test_names_that_people_would_try(name: str) -> None:
    """They are there, spelled as TorchX spells its own."""
    assert name in NAMES


def test_every_name_is_a_type_and_a_count_that_it_has() -> None:
    """Each placeholder's resource resolves to the canonical type, and its quantity is one that the webhook accepts."""
    for name in NAMES:
        ((resource, amount),) = torchx.placeholder(name).items()
        accelerator = CATALOGUE.resolve(resource.removeprefix("accel.io/"))
        assert resource == f"accel.io/{accelerator.name}"
        assert amount == 1 or accelerator.count is None


def test_every_entry_point_leads_to_a_function() -> None:
    """What TorchX does with an entry point: load it, to call it later."""
    for name in NAMES:
        value = f"webhook.torchx:{name.replace('.', '_')}"
        assert callable(EntryPoint(name, value, torchx.GROUP).load())


def test_names_of_torchx_itself_are_left_to_it() -> None:
    """TorchX knows AWS's machines, and a second entry of the same name would hide its own."""
    assert not [name for name in NAMES if name.startswith("aws_p")]


def test_other_names_are_no_attributes() -> None:
    """A name that is not in the list is an AttributeError, like on any module."""
    with pytest.raises(AttributeError, match="tpu_v4_17"):
        _ = torchx.tpu_v4_17
    with pytest.raises(Denied):
        CATALOGUE.resolve("tpu_v4_17")
