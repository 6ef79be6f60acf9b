"""The catalogue: every documented TPU size, GPUs on every platform, spellings, and what is refused."""

import itertools
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhook import load
from webhook.core.catalogue import catalogue as module
from webhook.core.catalogue import tpu
from webhook.core.catalogue.catalogue import Accelerator, Catalogue, Selector
from webhook.core.messages import Denied
from webhook.core.schema.catalogue import Platform, Tpu
from webhook.errors import BadConfig

BUILTIN = load.builtin()
PLATFORMS: tuple[Platform, ...] = ("gke", "eks", "aks", "gfd", "none")
ON = {platform: Catalogue.parse(BUILTIN, platform=platform) for platform in PLATFORMS}
GKE = ON["gke"]
LEGACY = Catalogue.parse(BUILTIN, legacy_nodes=True, legacy_version="2.2")

DOCUMENTED = json.loads((Path(__file__).parents[1] / "data" / "tpu_rows.json").read_text())
ROWS = [dict(zip(DOCUMENTED["columns"], row, strict=True)) for row in DOCUMENTED["rows"]]
IDS = [f"{row['name']}-of-{row['chips_per_host']}" for row in ROWS]


def refused(code: str, *args: Any, catalogue: Catalogue = GKE) -> str:
    """The message of a denial that must have this code."""
    with pytest.raises(Denied) as denied:
        catalogue.resolve(*args)
    assert denied.value.code == code
    assert len(denied.value.message.splitlines()) <= 3
    assert max(map(len, denied.value.message.splitlines())) < 200
    return denied.value.message


def labels(accelerator: Accelerator) -> dict[str, str]:
    """The node selector, where every label has one value."""
    assert all(len(values) == 1 for _, values in accelerator.selector)
    return {key: values[0] for key, values in accelerator.selector}


# TPUs: what the public sources say.


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_documented_size_has_its_documented_shape(row: dict[str, Any]) -> None:
    """Chips, hosts, topology, bounds, wrap, ports and names follow from the rules as the sources have them."""
    shape = GKE.resolve(row["name"], None, row["chips_per_host"]).slice
    assert shape is not None
    for fact in ("chips", "hosts", "topology", "chips_per_host", "chips_per_host_bounds", "host_bounds"):
        assert getattr(shape, fact) == row[fact], fact
    assert row["wrap"] in (None, shape.wrap)
    assert row["ports"] in (None, ",".join(map(str, shape.ports)))
    assert row["accelerator_type"] in (None, shape.accelerator_type)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_documented_size_is_placed_and_counted(row: dict[str, Any]) -> None:
    """A chip resource of one host with two labels; a generation without machines of its own is the old resource."""
    accelerator = GKE.resolve(row["name"], None, row["chips_per_host"])
    if row["label"] is None:
        cores = int(row["name"].rpartition("-")[2])
        assert (accelerator.resource, accelerator.count, accelerator.hosts) == (row["legacy_resource"], cores, 1)
        assert not accelerator.selector
        assert not accelerator.tolerations
        return
    assert (accelerator.resource, accelerator.count) == ("google.com/tpu", row["chips_per_host"])
    assert (accelerator.max_per_node, accelerator.hosts) == (row["chips_per_host"], row["hosts"])
    assert labels(accelerator) == {
        "cloud.google.com/gke-tpu-accelerator": row["label"],
        "cloud.google.com/gke-tpu-topology": row["topology"],
    }
    assert accelerator.tolerations == ("google.com/tpu",)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_all_spellings_mean_one_type(row: dict[str, Any]) -> None:
    """With or without "tpu-", by topology, in upper case, with TorchX's underscores."""
    wanted = GKE.resolve(row["name"], None, row["chips_per_host"])
    for name in (wanted.name, *row["aliases"]):
        for spelt in (name, name.upper(), name.replace("-", "_")):
            assert GKE.resolve(spelt, None, row["chips_per_host"]) == wanted


def test_names_lists_every_documented_size_once() -> None:
    """Nothing is missing, nothing is there twice, and no size has a default that no source has."""
    listed = [name for name in GKE.names() if name.startswith("tpu")]
    documented = {GKE.resolve(row["name"]).name for row in ROWS}
    assert len(listed) == len(set(listed))
    assert set(listed) == documented


@pytest.mark.parametrize(("name", "topology"), DOCUMENTED["without_default"])
def test_a_size_without_a_default_needs_its_topology(name: str, topology: str) -> None:
    """The denial lists the shapes, and each of them is then accepted under its own name."""
    message = refused("no-default-topology", name)
    for shape in (
        message.splitlines()[1].removeprefix("set accel.io/topology to one of: ").split(" and ")[0].split(", ")
    ):
        accelerator = GKE.resolve(name, shape)
        assert accelerator.slice is not None
        assert accelerator.slice.topology == shape
        assert accelerator.slice.accelerator_type == name
        assert accelerator.name.endswith(f"-{shape}")
        assert GKE.resolve(accelerator.name) == accelerator
    assert GKE.resolve(name, topology).name.endswith(f"-{topology}")


def test_a_bundle_of_facts_for_one_well_known_type() -> None:
    """tpu-v4-16 is 8 chips, 2x2x2, on 2 hosts."""
    accelerator = GKE.resolve("tpu-v4-16")
    assert (accelerator.name, accelerator.family, accelerator.count, accelerator.hosts) == ("tpu-v4-16", "tpu", 4, 2)
    assert accelerator.slice is not None
    assert accelerator.slice.host_bounds == "1,1,2"
    assert accelerator.slice.multislice
    assert not accelerator.slice.divisible


CANONICAL = {
    "v5e-16": "tpu-v5litepod-16",
    "tpu-v5e-16": "tpu-v5litepod-16",
    "7x-128": "tpu7x-128",
    "tpu-7x-128": "tpu7x-128",
    "v7x-128": "tpu7x-128",
    "tpu7x-4x4x4": "tpu7x-128",
    "tpu-v5p-4x4x8": "tpu-v5p-256",
    "v5p-4x8x64": "tpu-v5p-4x8x64",
    "tpu_v3_8": "tpu-v3-8",
    "TPU-V2-8": "tpu-v2-8",
    "tpu7x-4x4x20": "tpu7x-640",
}


@pytest.mark.parametrize("name", CANONICAL)
def test_canonical_names(name: str) -> None:
    """A default shape is named by its number, any other by its topology."""
    assert GKE.resolve(name).name == CANONICAL[name]


@pytest.mark.parametrize("name", ["tpu-v5e-8", "tpu-v6e-8", "v6e-2x4"])
def test_eight_chips_are_one_host_of_eight_or_two_of_four(name: str) -> None:
    """The first choice is one host; the other one is asked for by its chips; anything else is ignored."""
    one, two = GKE.resolve(name), GKE.resolve(name, None, 4)
    assert (one.count, one.hosts, one.per_host_choices) == (8, 1, (4,))
    assert (two.count, two.hosts, two.per_host_choices) == (4, 2, (8,))
    assert one.selector == two.selector
    assert GKE.resolve(name, None, 3) == one
    assert GKE.resolve("tpu-v6e-16", None, 8).count == 4


def test_a_topology_overrides_the_default() -> None:
    """Same chips, another shape, another name, other labels."""
    accelerator = GKE.resolve("tpu-v5p-2048", "4x16x16")
    assert accelerator.name == "tpu-v5p-4x16x16"
    assert labels(accelerator)["cloud.google.com/gke-tpu-topology"] == "4x16x16"
    assert GKE.resolve("tpu-v5p-2048", "8x8x16").name == "tpu-v5p-2048"


IMPOSSIBLE = [
    ("topology-mismatch", "tpu-v4-16", "2x2x4", "valid: 2x2x2"),
    ("topology-mismatch", "tpu-v5p-256", "4x4x4", "valid: 4x4x8"),
    ("impossible-topology", "tpu-v4-16", "1x2x4", "nearest: 2x2x2"),
    ("impossible-topology", "tpu-v4-16", "2x1x4", "nearest: 2x2x2"),
    ("impossible-topology", "tpu-v4-256", "8x4x4", "nearest: 4x4x8"),
    ("impossible-topology", "tpu-v5e-8", "4x2", "nearest: 2x4"),
    ("impossible-topology", "tpu-v6e-256", "8x32", "nearest: 16x16"),
    ("impossible-topology", "tpu-v4-16", "3x3x3", "nearest: 2x2x2, 2x2x4, 2x4x4"),
    ("impossible-topology", "tpu7x-8", "1x2x2", "nearest: 2x2x1"),
    ("impossible-topology", "v5p-8960", "4x4x280", "nearest: 8x20x28, "),
    ("bad-topology", "tpu-v4-16", "2x4", "valid: 3 sizes, such as 2x4x4"),
    ("bad-topology", "tpu-v5e-8", "2x4x1", "valid: 2 sizes, such as 16x16"),
    ("bad-topology", "tpu-v5e-8", "", "valid: 2 sizes"),
    ("bad-topology", "tpu-v5e-8", "2x4x", "valid: 2 sizes"),
    ("bad-topology", "tpu-v5e-8", "0x8", "valid: 2 sizes"),
    ("bad-topology", "tpu-v5e-8", "99999999999999999999x1", "valid: 2 sizes"),
    ("bad-topology", "tpu-v5e-8", "2*4", "valid: 2 sizes"),
]


@pytest.mark.parametrize(("code", "name", "topology", "valid"), IMPOSSIBLE)
def test_a_shape_that_the_hardware_lacks_is_refused(code: str, name: str, topology: str, valid: str) -> None:
    """The denial says what would be valid."""
    message = refused(code, name, topology)
    assert "accel.io/topology" in message
    assert valid in message


UNKNOWN = {
    "tpu-v4-17": "nearest: tpu-v4-16, ",
    "tpu-v4-0": "nearest: tpu-v4-8, ",
    "v4-24": "nearest: tpu-v4-16, tpu-v4-32, ",
    "tpu-v5e-2": "nearest: tpu-v5litepod-1, tpu-v5litepod-4, ",
    "tpu-v4-9999999": "nearest: tpu-v4-4096, ",
    "tpu-v4-99999999999999999": "nearest: ",
    "tpu-v4": "nearest: tpu-v4-8, tpu-v4-16, ",
    "v5p-8576": "nearest: tpu-v5p-8448, ",  # 67 cubes: 4x4x268 is longer than any
    "h100": "nearest: nvidia-h100-80gb, nvidia-h100-mega-80gb, nvidia-h100-nvl-94gb",
    "nvidia-h100-80": "nearest: nvidia-h100-80gb, ",
    "aws_p5.24xlarge": "nearest: aws_p5.4",
    "nvidia-a100-80gb-mig-1g.5gb": "nearest: nvidia-a100-80gb-mig-1g.10gb, ",
    "nvidia-mig-1g.6g": "nearest: nvidia-mig-1g.6gb, ",
    "aws_t3.medium": "nearest: ",  # a TorchX name, but a machine without devices
    "gpu": "nearest: nvidia-gpu, amd-gpu, ",
    "": "nearest: ",
    "x" * 10_000: "nearest: none (accel catalogue lists all)",
}


@pytest.mark.parametrize("name", UNKNOWN, ids=lambda name: name[:30])
def test_an_unknown_name_is_refused_with_the_nearest(name: str) -> None:
    """Whatever was meant is probably among them."""
    assert UNKNOWN[name] in refused("unknown-type", name)


def test_a_shape_in_a_name_is_checked_like_a_topology() -> None:
    """The message is then about the type."""
    assert "accel.io/type" in refused("impossible-topology", "tpu-v5p-4x4x9")
    assert "accel.io/type" in refused("bad-topology", "tpu-v5p-4x4")


def test_v3_is_the_old_resource_where_the_site_says_so() -> None:
    """One pod has the whole slice, counts TensorCores and runs on any node."""
    accelerator = LEGACY.resolve("tpu_v3_32")
    assert accelerator.name == "tpu-v3-32"
    assert (accelerator.resource, accelerator.count) == ("cloud-tpus.google.com/v3", 32)
    assert accelerator.annotations == (("tf-version.cloud-tpus.google.com", "2.2"),)
    assert accelerator.hosts == 1
    assert accelerator.slice is not None
    assert accelerator.slice.hosts == 4
    assert not accelerator.selector
    assert not accelerator.slice.multislice
    assert LEGACY.resolve("tpu-v4-8").resource == "google.com/tpu"
    assert GKE.resolve("tpu-v2-8").annotations == ()


def test_only_platform_none_has_no_tpu_labels() -> None:
    """TPUs have GKE's labels wherever there are labels; the taint is tolerated everywhere."""
    for platform, catalogue in ON.items():
        accelerator = catalogue.resolve("tpu-v4-16")
        assert bool(accelerator.selector) == (platform != "none")
        assert accelerator.tolerations == ("google.com/tpu",)


# GPUs and others.

GPUS: list[tuple[str, Platform, Selector]] = [
    ("nvidia-k80", "gke", (("cloud.google.com/gke-accelerator", ("nvidia-tesla-k80",)),)),
    ("nvidia-p4", "gke", (("cloud.google.com/gke-accelerator", ("nvidia-tesla-p4",)),)),
    ("nvidia-p100", "gke", (("cloud.google.com/gke-accelerator", ("nvidia-tesla-p100",)),)),
    ("nvidia-v100-16gb", "gke", (("cloud.google.com/gke-accelerator", ("nvidia-tesla-v100",)),)),
    ("nvidia-t4", "gke", (("cloud.google.com/gke-accelerator", ("nvidia-tesla-t4",)),)),
    ("nvidia-l4", "gke", (("cloud.google.com/gke-accelerator", ("nvidia-l4",)),)),
    ("nvidia-a100-40gb", "gke", (("cloud.google.com/gke-accelerator", ("nvidia-tesla-a100",)),)),
    ("nvidia-a100-80gb", "gke", (("cloud.google.com/gke-accelerator", ("nvidia-a100-80gb",)),)),
    ("nvidia-h100-80gb", "gke", (("cloud.google.com/gke-accelerator", ("nvidia-h100-80gb",)),)),
    ("nvidia-h100-mega-80gb", "gke", (("cloud.google.com/gke-accelerator", ("nvidia-h100-mega-80gb",)),)),
    ("nvidia-h200-141gb", "gke", (("cloud.google.com/gke-accelerator", ("nvidia-h200-141gb",)),)),
    ("nvidia-b200", "gke", (("cloud.google.com/gke-accelerator", ("nvidia-b200",)),)),
    ("nvidia-gb200", "gke", (("cloud.google.com/gke-accelerator", ("nvidia-gb200",)),)),
    ("nvidia-gb300", "gke", (("cloud.google.com/gke-accelerator", ("nvidia-gb300",)),)),
    ("nvidia-rtx-pro-6000", "gke", (("cloud.google.com/gke-accelerator", ("nvidia-rtx-pro-6000",)),)),
    ("nvidia-t4", "eks", (("karpenter.k8s.aws/instance-gpu-name", ("t4",)),)),
    ("nvidia-a10g", "eks", (("karpenter.k8s.aws/instance-gpu-name", ("a10g",)),)),
    ("nvidia-h100-80gb", "eks", (("karpenter.k8s.aws/instance-gpu-name", ("h100",)),)),
    (
        "nvidia-a100-40gb",
        "eks",
        (("karpenter.k8s.aws/instance-gpu-name", ("a100",)), ("karpenter.k8s.aws/instance-gpu-memory", ("40960",))),
    ),
    (
        "nvidia-a100-80gb",
        "eks",
        (("karpenter.k8s.aws/instance-gpu-name", ("a100",)), ("karpenter.k8s.aws/instance-gpu-memory", ("81920",))),
    ),
    ("nvidia-h200-141gb", "aks", (("node.kubernetes.io/instance-type", ("Standard_ND96isr_H200_v5",)),)),
    ("nvidia-h100-80gb", "gfd", (("nvidia.com/gpu.product", ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe")),)),
    ("nvidia-l4", "gfd", (("nvidia.com/gpu.product", ("NVIDIA-L4",)),)),
    ("amd-mi300x", "gfd", (("amd.com/gpu.product-name", ("AMD_Instinct_MI300X_OAM",)),)),
    ("intel-max-1550", "gfd", (("gpu.intel.com/product", ("Max_1550",)),)),
    ("aws_p5.48xlarge", "eks", (("node.kubernetes.io/instance-type", ("p5.48xlarge",)),)),
    ("nvidia-gpu", "gke", ()),
    ("amd-gpu", "aks", ()),
    ("intel-gaudi", "gfd", ()),
    ("aws-neuroncore", "eks", ()),
]


@pytest.mark.parametrize(("name", "platform", "selector"), GPUS, ids=[f"{n}-{p}" for n, p, _ in GPUS])
def test_a_model_is_found_by_its_platform_s_labels(name: str, platform: Platform, selector: Selector) -> None:
    """Exactly these labels; on platform none, none."""
    assert ON[platform].resolve(name).selector == selector
    assert ON["none"].resolve(name).selector == ()


def test_auto_mode_has_labels_of_its_own() -> None:
    """EKS Auto Mode's prefix takes Karpenter's place, and nothing else's."""
    auto = Catalogue.parse(BUILTIN, platform="eks", auto_mode=True)
    assert auto.resolve("nvidia-a100-80gb").selector == (
        ("eks.amazonaws.com/instance-gpu-name", ("a100",)),
        ("eks.amazonaws.com/instance-gpu-memory", ("81920",)),
    )
    assert auto.resolve("aws_p5.48xlarge").selector == (("node.kubernetes.io/instance-type", ("p5.48xlarge",)),)


RESOURCES = {
    "nvidia-gpu": ("nvidia", "nvidia.com/gpu", ("nvidia.com/gpu",)),
    "nvidia-h100-80gb": ("nvidia", "nvidia.com/gpu", ("nvidia.com/gpu",)),
    "nvidia-gb200": ("nvidia", "nvidia.com/gpu", ("nvidia.com/gpu", "kubernetes.io/arch")),
    "nvidia-mig-1g.5gb": ("nvidia", "nvidia.com/gpu", ("nvidia.com/gpu",)),
    "amd-gpu": ("amd", "amd.com/gpu", ("amd.com/gpu",)),
    "intel-gpu": ("intel", "gpu.intel.com/i915", ("gpu.intel.com/i915",)),
    "intel-gpu-xe": ("intel", "gpu.intel.com/xe", ("gpu.intel.com/xe",)),
    "intel-gaudi": ("gaudi", "habana.ai/gaudi", ("habana.ai/gaudi",)),
    "aws-neuron": ("neuron", "aws.amazon.com/neuron", ("aws.amazon.com/neuron",)),
    "aws-neuroncore": ("neuron", "aws.amazon.com/neuroncore", ("aws.amazon.com/neuron",)),
    "aws_trn1.32xlarge": ("neuron", "aws.amazon.com/neuron", ("aws.amazon.com/neuron",)),
}


@pytest.mark.parametrize("name", RESOURCES)
def test_devices_have_a_family_a_resource_and_taints(name: str) -> None:
    """On GKE; the count is the user's unless the type is a whole machine."""
    accelerator = GKE.resolve(name)
    assert (accelerator.family, accelerator.resource, accelerator.tolerations) == RESOURCES[name]
    assert (accelerator.count is None) == (not name.startswith("aws_"))


def test_aks_tolerates_its_own_guide_s_taint() -> None:
    """sku=gpu:NoSchedule is what AKS tells people to put on GPU nodes."""
    assert ON["aks"].resolve("nvidia-t4").tolerations == ("nvidia.com/gpu", "sku=gpu:NoSchedule")
    assert ON["aks"].resolve("aws-neuron").tolerations == ("aws.amazon.com/neuron",)


def test_parts_of_a_gpu() -> None:
    """A resource of their own; on GKE ordinary devices on nodes that a label marks."""
    assert ON["gfd"].resolve("nvidia-a100-40gb-mig-1g.5gb").resource == "nvidia.com/mig-1g.5gb"
    assert ON["eks"].resolve("nvidia-mig-3g.40gb").resource == "nvidia.com/mig-3g.40gb"
    assert ON["gfd"].resolve("nvidia-mig-1g.5gb").selector == ()
    part = GKE.resolve("NVIDIA_A100_40GB_MIG_1g.5gb")
    assert part.name == "nvidia-a100-40gb-mig-1g.5gb"
    assert part.resource == "nvidia.com/gpu"
    assert labels(part) == {
        "cloud.google.com/gke-accelerator": "nvidia-tesla-a100",
        "cloud.google.com/gke-gpu-partition-size": "1g.5gb",
    }
    assert labels(GKE.resolve("nvidia-mig-1g.5gb")) == {"cloud.google.com/gke-gpu-partition-size": "1g.5gb"}
    assert GKE.resolve("nvidia-h200-mig-1g.18gb").name == "nvidia-h200-141gb-mig-1g.18gb"


def test_aws_machines_bring_all_their_devices() -> None:
    """TorchX's names: GPUs and EFA devices of the whole machine."""
    p5 = GKE.resolve("aws_p5.48xlarge")
    assert (p5.count, p5.max_per_node, p5.extras) == (8, 8, (("vpc.amazonaws.com/efa", 32),))
    assert GKE.resolve("aws_g5.xlarge").extras == ()
    assert GKE.resolve("AWS-P4D.24xlarge").name == "aws_p4d.24xlarge"


AMBIGUOUS = {
    "nvidia-a100": "choose one of: nvidia-a100-40gb, nvidia-a100-80gb",
    "NVIDIA_A100": "choose one of: nvidia-a100-40gb, nvidia-a100-80gb",
    "nvidia-h100": "choose one of: nvidia-h100-80gb, nvidia-h100-mega-80gb, nvidia-h100-nvl-94gb",
    "nvidia-v100": "choose one of: nvidia-v100-16gb, nvidia-v100-32gb",
    "nvidia-a100-mig-1g.5gb": "choose one of: nvidia-a100-40gb-mig-1g.5gb",
    "nvidia-h100-mig-1g.10gb": "choose one of: nvidia-h100-80gb-mig-1g.10gb, nvidia-h100-mega-80gb-mig-1g.10gb",
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_an_ambiguous_name_is_refused_with_the_choices(name: str) -> None:
    """An 80 GB job must not land on 40 GB."""
    assert AMBIGUOUS[name] in refused("ambiguous-type", name)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("nvidia-tesla-t4", "nvidia-t4"),
        ("nvidia-tesla-a100", "nvidia-a100-40gb"),
        ("nvidia-h200", "nvidia-h200-141gb"),
        ("nvidia-h100-mega", "nvidia-h100-mega-80gb"),
    ],
)
def test_a_model_has_other_names(alias: str, name: str) -> None:
    """GKE's label values and unambiguous short forms."""
    assert GKE.resolve(alias) == GKE.resolve(name)


def test_a_topology_is_for_tpus_only() -> None:
    """A GPU has none."""
    assert "nvidia-l4 has no topology" in refused("topology-without-tpu", "nvidia-l4", "2x2")


def test_a_model_without_a_known_label_says_so() -> None:
    """Nothing made up: no selector, and the type is not pinned; any-model types and platform none need no pin."""
    assert not ON["eks"].resolve("nvidia-gb300").pinned
    assert ON["eks"].resolve("nvidia-gb300").selector == ()
    assert ON["none"].resolve("nvidia-gb300").pinned
    assert all(catalogue.resolve("nvidia-gpu").pinned for catalogue in ON.values())
    assert not [name for name in GKE.names() if name.startswith("tpu") and not GKE.resolve(name).pinned]


def test_what_a_resource_alone_means() -> None:
    """Detection turns a resource into its any-model type."""
    assert GKE.any_model("nvidia.com/gpu") == "nvidia-gpu"
    assert GKE.any_model("nvidia.com/mig-1g.5gb") == "nvidia-mig-1g.5gb"
    assert GKE.any_model("aws.amazon.com/neuroncore") == "aws-neuroncore"
    assert GKE.any_model("google.com/tpu") == "tpu-any"
    assert GKE.any_model("example.com/thing") == ""


# All of them.


@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_name_resolves_to_itself(platform: Platform) -> None:
    """The listed names are the canonical ones, and every entry is whole on every platform."""
    for name in ON[platform].names():
        assert ON[platform].resolve(name).name == name
        assert ON[platform].resolve(name.upper()).name == name


def test_patterns_match_names() -> None:
    """As in the site config: shell patterns on canonical names."""
    assert "tpu-v4-16" in GKE.matching("tpu-v4-*")
    assert not list(GKE.matching("tpu-v4"))
    assert {GKE.resolve(name).family for name in GKE.matching("nvidia-*")} == {"nvidia"}


def test_words_for_people() -> None:
    """What the number counts, and which topologies there are."""
    assert GKE.counts(GKE.resolve("tpu-v4-16")) == "TensorCores (2 per chip)"
    assert GKE.counts(GKE.resolve("tpu-v6e-8")) == "chips"
    assert GKE.counts(GKE.resolve("nvidia-l4")) == ""
    assert GKE.shapes(GKE.resolve("tpu-v4-512")) == ("4x8x8", "4x4x16")
    assert GKE.shapes(GKE.resolve("nvidia-l4")) == ()


NAMES = st.sampled_from(list(GKE.names()))
TYPE_LIKE = st.from_regex(
    r"(tpu[-_])?(v[2-6][ep]?|v5litepod|tpu7x|7x|v9)[-_](\d{1,8}|\d{1,3}(x\d{1,3}){1,3})", fullmatch=True
)


@settings(deadline=None)
@given(NAMES, st.data())
def test_case_and_separators_never_matter(name: str, data: st.DataObject) -> None:
    """Any mixture of upper and lower case, "-" and "_" is the same type."""
    spelt = "".join(
        data.draw(st.sampled_from("-_")) if c in "-_" else data.draw(st.sampled_from((c, c.upper()))) for c in name
    )
    assert GKE.resolve(spelt) == GKE.resolve(name)


@settings(deadline=None)
@given(TYPE_LIKE | NAMES | st.text(max_size=80), st.none() | st.from_regex(r"\d{1,3}(x\d{1,3}){1,2}", fullmatch=True))
def test_whatever_is_asked_is_a_sound_type_or_a_denial(name: str, topology: str | None) -> None:
    """A resolved slice is consistent in itself, and its canonical name means it again; nothing else is raised."""
    try:
        accelerator = GKE.resolve(name, topology)
    except Denied:
        return
    assert GKE.resolve(accelerator.name) == accelerator
    if accelerator.slice is not None:
        shape = accelerator.slice
        assert shape.hosts * shape.chips_per_host == shape.chips == product(shape.topology.split("x"))
        assert product(shape.host_bounds.split(",")) == shape.hosts
        assert product(shape.chips_per_host_bounds.split(",")) == shape.chips_per_host
        assert topology is None or shape.topology == topology


def product(numbers: Iterable[str]) -> int:
    """2, 4, 4 as 32."""
    result = 1
    for number in numbers:
        result *= int(number)
    return result


def rules_of(name: str) -> Tpu:
    """The rules of a packaged generation."""
    entry = GKE._entries[name]
    assert isinstance(entry, Tpu)
    return entry


@settings(deadline=None)
@given(st.sampled_from(["v4", "v5p", "tpu7x"]), st.integers(1, 160))
def test_large_slices_are_whole_cubes_in_order(name: str, cubes: int) -> None:
    """Sides ascend, are multiples of the cube's and no longer than the longest; the most compact is first."""
    shapes = tpu.possible_shapes(rules_of(name), cubes * 64)
    rules = rules_of(name).cubes
    assert rules is not None
    for shape in shapes:
        assert list(shape) == sorted(shape)
        assert all(side % 4 == 0 and side <= rules.longest for side in shape)
        assert sum(shapes[0]) <= sum(shape)
    if cubes > rules.most:
        assert not shapes


# Cost.


def test_what_is_remembered_has_a_bound() -> None:
    """Users choose names: a flood of spellings does not grow the catalogue."""
    catalogue, name, sizes = Catalogue.parse(BUILTIN), "nvidia-h100-mega-80gb-mig-1g.10gb", []
    spellings = itertools.product(*(sorted({letter, letter.upper()}) for letter in name))
    for spelling in itertools.islice(spellings, module.REMEMBERED + 10):
        catalogue.resolve("".join(spelling))
        sizes.append(len(catalogue._resolved))

    assert max(sizes) == module.REMEMBERED
    assert sizes[-1] < 20


def test_refused_names_are_not_remembered() -> None:
    """Only what exists takes memory."""
    catalogue = Catalogue.parse(BUILTIN)
    for number in range(20):
        refused("unknown-type", f"nonsense-{number}", catalogue=catalogue)
    assert not catalogue._resolved


def test_a_look_up_does_not_grow_with_the_catalogue() -> None:
    """Two thousand more models, and a first look-up calls no function more than before."""
    rows = [f"- {{kind: model, name: acme-model{n}, of: nvidia-gpu, mig: [1g.{n}gb]}}\n" for n in range(2_000)]
    small = Catalogue.parse((*BUILTIN, ("acme.yaml", rows[0].encode())))
    large = Catalogue.parse((*BUILTIN, ("acme.yaml", "".join(rows).encode())))
    for name in ("nvidia-l4", "nvidia-a100-40gb-mig-1g.5gb", "nvidia-mig-1g.5gb", "tpu-v4-16", "aws_p5.48xlarge"):
        assert calls(large, name) == calls(small, name)
    assert calls(large, "acme-model1999") == calls(small, "acme-model0")


def calls(catalogue: Catalogue, name: str) -> int:
    """Functions that a first look-up of `name` calls, in Python and in C."""
    seen: list[str] = []
    sys.setprofile(lambda frame, event, argument: seen.append(event))
    try:
        catalogue.resolve(name)
    finally:
        sys.setprofile(None)
    return sum(event in ("call", "c_call") for event in seen)


# Data files.

V9 = "- {kind: tpu, name: v9, prefix: tpu-v9, spellings: [v9], coresPerChip: 2, dimensions: 3, wrap: all-from-4, "
BROKEN = {
    "- {kind: tpu, name: v9, chip-per-host: 4}": "x.yaml: $[0].chip-per-host is not a known key; "
    "did you mean chipsPerHost?",
    "- {kind: model, name: a, of: b}": 'x.yaml: $[0].of: found "b"; valid: nvidia-gpu, ',
    "- {kind: devices, name: a, family: b, resource: c d}": 'x.yaml: $[0].resource: "c d" is not a key',
    "- {kind: devices, name: A, family: b, resource: c/d}": 'x.yaml: $[0].name: "A" is not a name',
    "- {kind: tpu, name: v9, prefix: tpu-v9, spellings: [v9], coresPerChip: 2, dimensions: 3, shapes: [2x2], "
    "wrap: all-from-4}": 'x.yaml: $[0].shapes: "2x2" is not a topology with 3 dimensions',
    "- {kind: tpu, name: v9, prefix: tpu-v9, spellings: [v9], coresPerChip: 2, dimensions: 2, shapes: [1x4], "
    "wrap: all-from-4}": "x.yaml: $[0].chipsPerHost: hosts of 4 chips do not tile 1x4",
    "- {kind: tpu, name: v9, prefix: tpu-v9, spellings: [v9], coresPerChip: 2, dimensions: 2, shapes: [3x1], "
    "chipsPerHost: 3, wrap: all-from-4}": "x.yaml: $[0].chipsPerHost: a host of 3 chips has no known layout",
    V9
    + "shapes: [3x3x3], cubes: {most: 4, longest: 64, edge: 3}}": "x.yaml: $[0].chipsPerHost: hosts of 4 chips do not "
    "tile 3x3x3",
    V9
    + "shapes: [2x2x1], cubes: {most: 4, longest: 64, edge: 3}}": "x.yaml: $[0].chipsPerHost: hosts of 4 chips do not "
    "tile a cube",
    V9 + "shapes: [2x2x1], cubes: {most: 0, longest: 64}}": "x.yaml: $[0].cubes.most: found 0; valid: 1 to ",
    V9 + "shapes: [2x2x1], otherHosts: {2x2x1: []}}": "x.yaml: $[0].otherHosts: 2x2x1 lists no number of chips",
    V9.replace("prefix: tpu-v9", "prefix: v-9") + "shapes: [2x2x1]}": 'x.yaml: $[0].prefix: "v-9" is not one of the ',
    V9.replace("[v9]", "[v9, V9]") + "shapes: [2x2x1]}": 'x.yaml: $[0].spellings: "V9" must be lower-case letters',
    "- {kind: model, name: a, of: nvidia-gpu}\n- {kind: model, name: a, of: amd-gpu}": "x.yaml: $[1].name: a is "
    "already defined, at x.yaml: $[0]",
    "name: x": "x.yaml: $: found a mapping; valid: a list",
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_data_file_is_refused_with_its_path(text: str) -> None:
    """The types are the schema."""
    with pytest.raises(BadConfig) as error:
        Catalogue.parse((*BUILTIN, ("x.yaml", text.encode())))
    assert str(error.value).startswith(BROKEN[text])
