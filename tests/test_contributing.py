"""CONTRIBUTING.md's recipes, done: they cannot rot."""

import re

import yaml

from tests.support import untouched
from tests.support.case import decided, plain, review
from tests.support.checkout import ROOT
from webhook import __version__, load
from webhook.core.admission import admit
from webhook.core.site import Site


def test_a_new_generation_is_one_table() -> None:
    """The entry of v5p under another name, label and spelling, and nothing else."""
    files = dict(load.builtin())
    (v5p,) = (entry for entry in yaml.safe_load(files["tpu.yaml"]) if entry["name"] == "v5p")
    v8x = {**v5p, "name": "v8x", "prefix": "tpu-v8x", "spellings": ["v8x"], "label": "tpu-v8x-slice"}
    files["tpu-v8x.yaml"] = yaml.safe_dump([v8x]).encode()
    site = Site.parse(b"", "site.yaml", files.items())
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {"accel.io/type": "tpu-v8x-16"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    result = decided(admit(review(pod), site), pod)

    assert result.denied == ""
    assert {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v8x-slice",
        "cloud.google.com/gke-tpu-topology": "2x2x2",
    } == result.patched["spec"]["nodeSelector"]
    assert [] == untouched.strangers(plain(pod), plain(result.patched))


def test_one_version_everywhere() -> None:
    """The package, the newest entry of the changelog, and the chart's appVersion agree."""
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    chart = yaml.safe_load((ROOT / "charts" / "accel-injector" / "Chart.yaml").read_text())

    assert newest is not None
    assert __version__ == newest[1] == chart["appVersion"]


def test_every_dependency_has_its_sentence() -> None:
    """CONTRIBUTING.md says why each is there."""
    project = (ROOT / "pyproject.toml").read_text()
    block = project.split("dependencies = [", 1)[1].split("]\n", 1)[0]
    names = re.findall(r'"([A-Za-z0-9.-]+)', block)
    text = (ROOT / "CONTRIBUTING.md").read_text().split("## Dependencies", 1)[1]

    assert [] == [name for name in names if name not in text]
