"""Real people's manifests: what they wrote by hand comes out of the short form.

Each folder of tests/round_trip restates a public manifest, small and anonymous: `by-hand.yaml`; `short.yaml`, the same
object without its accelerator fields and with `accel.io/*` instead; `check.yaml` with the public source, the site
config where one is needed, and the places that must be equal.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.case import read
from webhook import load
from webhook.core.quantity import parse
from webhook.core.site import Site
from webhook.manifest.inject import injected

FOLDERS = sorted(path for path in (Path(__file__).parents[1] / "round_trip").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])
def test_the_short_form_becomes_what_was_written_by_hand(folder: Path) -> None:
    """At every place that the folder names; quantities as numbers, tolerations by key."""
    check = read(folder / "check.yaml")
    site = Site.parse(yaml.safe_dump(check.get("config", {})).encode(), "check.yaml", load.builtin())
    text, _ = injected((folder / "short.yaml").read_text(), site, "default")
    by_hand, result = read(folder / "by-hand.yaml"), yaml.safe_load(text)

    assert check["source"]
    for place in check["equal"]:
        assert comparable(place, find(by_hand, place)) == comparable(place, find(result, place)), place


def find(root: Any, pointer: str) -> Any:
    """What a JSON pointer leads to; items of a list also by their name or key."""
    for segment in pointer.removeprefix("/").split("/"):
        name = segment.replace("~1", "/").replace("~0", "~")
        if isinstance(root, list):
            root = next((i for i in root if name in (i.get("name"), i.get("key"), i.get("groupName"))), None) or (
                root[int(name)] if name.isdigit() else None
            )
        else:
            root = (root or {}).get(name)
    return root


def comparable(place: str, value: Any) -> Any:
    """Quantities as numbers, tolerations as the set of their keys."""
    if place.endswith("/tolerations"):
        return {toleration.get("key") for toleration in value or ()}
    if "/limits/" in place or "/requests/" in place:
        return parse(value)
    return value
