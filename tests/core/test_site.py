"""The site config: defaults, every key, and errors that name the path and what is valid."""

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import budget
from webhook import load
from webhook.core.schema.site import Config, Device, Library
from webhook.core.site import Site
from webhook.errors import BadConfig

BUILTIN = load.builtin()

PROFILE = """
hostProfiles:
  nvidia:
    types: [nvidia-*]
    modes: [host]
    namespaces: [team-*]
    devices: [/dev/nvidiactl, {path: /dev/nvidia, perDevice: true}]
    optionalDevices: [/dev/nvidia-modeset]
    libraries: [{hostPath: /opt/driver/lib, mountPath: /usr/local/nvidia/lib64}]
    env: {LD_LIBRARY_PATH: /usr/local/nvidia/lib64}
    exclusiveNode: true
  libraries:
    types: [nvidia-*, tpu-*]
    modes: [plugin]
    namespaces: ["*"]
    env: {FROM: libraries}
detect: [nvidia.com/gpu, google.com/tpu]
"""

LEGACY = """
accelerators:
  alpha.kubernetes.io/nvidia-gpu:
    volumes:
      - {name: lib, mountPath: /usr/local/nvidia/lib64, hostPath: /home/kubernetes/bin/nvidia/lib}
      - {name: bin, mountPath: /usr/local/bin/nvidia, hostPath: /home/kubernetes/bin/nvidia/bin}
    envVars:
      - {name: LD_LIBRARY_PATH, value: /usr/local/nvidia/lib64}
"""


def parse(text: str) -> Site:
    """A site from YAML text, as a file of the name site.yaml."""
    return Site.parse(text.encode(), "site.yaml", BUILTIN)


@pytest.mark.parametrize("text", ["", "\n", "# nothing yet\n", "{}", "---\n"])
def test_an_empty_file_is_all_defaults(text: str) -> None:
    """Every key is optional, the file too."""
    site = parse(text)
    assert site.config == Config()
    assert site.config.platform == "gke"
    assert site.config.tpu.environment == "megascale"
    assert not site.config.tpu.legacy_nodes
    assert site.config.placement == "affinity"
    assert site.config.shared_memory is False
    assert site.config.schedulers.allowed == ("default-scheduler", "volcano")
    assert not site.config.placements
    assert not site.profiles
    assert not site.detect


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    """No --config is the same as an empty one."""
    empty = tmp_path / "site.yaml"
    empty.write_bytes(b"")
    assert load.load(None).config == load.load(empty).config == Config()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A missing file and a directory are an admin's mistakes, reported in one line."""
    with pytest.raises(BadConfig, match=r"absent\.yaml: No such file"):
        load.load(tmp_path / "absent.yaml")
    with pytest.raises(BadConfig, match="Is a directory"):
        load.load(tmp_path)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("false", False), ("64Gi", "64Gi"), ("1.5G", "1.5G")])
def test_shared_memory_is_a_switch_or_a_size(text: str, value: bool | str) -> None:
    """As the annotation, but with YAML's own booleans."""
    assert parse(f"sharedMemory: {text}").config.shared_memory == value


ERRORS = {
    "platform: gek": 'site.yaml: $.platform: found "gek"; valid: aks, eks, gfd, gke, none',
    "platfrom: gke": "site.yaml: $.platfrom is not a known key; did you mean platform?",
    "zzz: 1": "site.yaml: $.zzz is not a known key; valid: accelerators, catalogue, claims, controllers, "
    "detect, eks, exclusivePlacement, gfd, hostProfiles, placements, platform, schedulers, sharedMemory, tpu",
    "tpu: {environment: half}": 'site.yaml: $.tpu.environment: found "half"; valid: full, megascale',
    "tpu: {legacyNodes: 1}": "site.yaml: $.tpu.legacyNodes: found 1; valid: true or false",
    "tpu: {legacyVersion: 2.2}": "site.yaml: $.tpu.legacyVersion: found 2.2; valid: text",
    "tpu: on": "site.yaml: $.tpu: found true; valid: a mapping",
    "tpu:": "site.yaml: $.tpu: found nothing; valid: a mapping",
    "[]": "site.yaml: $: found a list; valid: a mapping",
    "sharedMemory: 'true'": 'site.yaml: $.sharedMemory: found "true"; valid: true, false, or a size such as 64Gi',
    "sharedMemory: much": 'site.yaml: $.sharedMemory: found "much"; valid: true, false, or a size such as 64Gi',
    "detect: [cpu]": 'site.yaml: $.detect: "cpu" is not a device resource, such as nvidia.com/gpu',
    "detect: [a/b/c]": 'site.yaml: $.detect: "a/b/c" is not a key, such as example.com/name',
    "platform: gke\nplatform: eks": 'site.yaml: line 2, column 1: duplicate key "platform"',
    "tpu: {environment: full, environment: full}": 'site.yaml: line 1, column 26: duplicate key "environment"',
    "? [a]\n: b": "site.yaml: line 1, column 3: a key that is not a scalar",
    "platform: [": "site.yaml: line 1, column 12: did not find expected node content (while parsing a flow node)",
    "a: 1\n---\nb: 2": "site.yaml: line 2, column 1: expected a single YAML document",
    "platform: !!python/name:os.system x": "site.yaml: line 1, column 11: not a value of type !!python/name:os.system",
    'platform: "g\\nk\\u001b"': 'site.yaml: $.platform: found "g?k?"; valid: aks, eks, gfd, gke, none',
    "schedulers: {allowed: volcano}": 'site.yaml: $.schedulers.allowed: found "volcano"; valid: a list',
    "schedulers: {defaults: [{scheduler: kai}]}": 'site.yaml: $.schedulers.defaults: scheduler "kai" is not allowed; '
    "valid: default-scheduler, volcano",
    "schedulers: {defaults: [{scheduler: default-scheduler, queue: q}]}": "site.yaml: $.schedulers.defaults: "
    'queue "q" needs a scheduler with queues (volcano, kai-scheduler, yunikorn, koord-scheduler), not '
    "default-scheduler",
    "schedulers: {queues: {lab: {}}}": "site.yaml: $.schedulers.queues.lab.label: "
    "one of label and annotation is needed",
    "schedulers: {queues: {lab: {label: queue, annotation: a}}}": "site.yaml: $.schedulers.queues.lab.label: "
    "one of label and annotation is needed",
    "schedulers: {queues: {lab: {label: example.com/q}}}": "site.yaml: $.schedulers.queues.lab.label: found "
    '"example.com/q"; valid: kai.scheduler/queue, kueue.x-k8s.io/queue-name, quota.scheduling.koordinator.sh/name, '
    "yunikorn.apache.org/queue, queue, or an annotation",
    "schedulers: {queues: {lab: {annotation: a b}}}": 'site.yaml: $.schedulers.queues.lab.annotation: "a b" is not a '
    "key, such as example.com/name",
    "schedulers: {queues: {lab: {annotation: accel.io/queue}}}": "site.yaml: $.schedulers.queues.lab.annotation: "
    '"accel.io/queue" is a key that users set, not schedulers',
    "schedulers: {queues: {'': {annotation: a}}}": "site.yaml: $.schedulers.queues: a scheduler's name has 1 to 253 "
    "characters",
    "placements: {a/b: {}}": 'site.yaml: $.placements: "a/b" is not a name: lower-case letters, digits, "-" and ".", '
    "at most 50",
    "placements: {a: {}, spot: {nodeSelector: {x y: z}}}": "site.yaml: $.placements.spot.nodeSelector: "
    '"x y" is not a key, such as example.com/name',
    "placements: {spot: {nodeSelector: {pool: a/b}}}": 'site.yaml: $.placements.spot.nodeSelector: pool: "a/b" is not '
    'a label value (at most 63 letters, digits, "-", "_", ".")',
    "placements: {spot: {nodeSelector: {spot: true}}}": "site.yaml: $.placements.spot.nodeSelector.spot: found true; "
    "valid: text",
    "placements: {a: {}, spot: {tolerations: [{key: a, operator: Exist}]}}": "site.yaml: "
    '$.placements.spot.tolerations[0].operator: found "Exist"; valid: Equal, Exists, Gt, Lt',
    "placements: {spot: {tolerations: [{operator: Equal}]}}": "site.yaml: $.placements.spot.tolerations[0].operator: "
    "a toleration without a key needs Exists",
    "placements: {spot: {tolerations: [{key: a, operator: Exists, value: b}]}}": "site.yaml: "
    '$.placements.spot.tolerations[0].value: found "b"; with operator Exists there is none',
    "placements: {spot: {annotations: {accel.io/type: none}}}": "site.yaml: $.placements.spot.annotations: "
    '"accel.io/type" is a key that users set, not placements',
    "placements: {spot: {resources: {vpc.amazonaws.com/efa: -1}}}": "site.yaml: $.placements.spot.resources: "
    'vpc.amazonaws.com/efa: "-1" is not a quantity, such as 32 or 64Gi',
    "placements: {lab: {runtimeClassName: NVIDIA}}": 'site.yaml: $.placements.lab.runtimeClassName: "NVIDIA" is not '
    "the name of a RuntimeClass, such as nvidia",
    "hostProfiles: {nv: {runtimeClassName: a/b}}": 'site.yaml: $.hostProfiles.nv.runtimeClassName: "a/b" is not the '
    "name of a RuntimeClass, such as nvidia",
    "hostProfiles: {nv: {modes: [hosts]}}": 'site.yaml: $.hostProfiles.nv.modes[0]: found "hosts"; valid: host, plugin',
    "hostProfiles: {a: {}, nv: {library: []}}": "site.yaml: $.hostProfiles.nv.library is not a known key; "
    "did you mean libraries?",
    "hostProfiles: {nv: {devices: [/dev/x]}}": "site.yaml: $.hostProfiles.nv.exclusiveNode: true is needed with "
    "devices: nothing counts them, so a Pod takes a whole node",
    "hostProfiles: {nv: {optionalDevices: [{path: dev/x}]}}": "site.yaml: $.hostProfiles.nv.optionalDevices[0].path: "
    '"dev/x" is not absolute',
    "hostProfiles: {nv: {devices: [/dev/../etc], exclusiveNode: true}}": "site.yaml: $.hostProfiles.nv.devices: "
    '"/dev/../etc" has "..", which Kubernetes refuses',
    "hostProfiles: {nv: {modes: [host, plugin], devices: [/dev/x], exclusiveNode: true}}": "site.yaml: "
    "$.hostProfiles.nv.modes: a profile with devices cannot serve mode plugin, where the device plugin provides them",
    "hostProfiles: {nv: {libraries: [{hostPath: /a/.., mountPath: /b}]}}": "site.yaml: "
    '$.hostProfiles.nv.libraries[0].hostPath: "/a/.." has "..", which Kubernetes refuses',
    "hostProfiles: {nv: {libraries: [{hostPath: /a, mountPath: '/b:c'}]}}": "site.yaml: "
    '$.hostProfiles.nv.libraries[0].mountPath: "/b:c" has a ":", which Kubernetes refuses',
    "hostProfiles: {nv: {libraries: [{hostPath: /a}]}}": "site.yaml: $.hostProfiles.nv.libraries[0] lacks the key "
    "mountPath",
    "hostProfiles: {nv: {env: {A=B: c}}}": 'site.yaml: $.hostProfiles.nv.env: "A=B" is not a valid variable name',
    "accelerators: {nvidia.com/gpu: {volumes: [{name: a, mountPath: /b, hostPath: c}]}}": "site.yaml: "
    '$.accelerators.nvidia.com/gpu.volumes[0].hostPath: "c" is not absolute',
    "catalogue: [{kind: gpu}]": 'site.yaml: $.catalogue[0].kind: found "gpu"; '
    "valid: tpu, devices, model, instance, ambiguous",
    "catalogue: [{name: a}]": "site.yaml: $.catalogue[0] lacks the key kind",
    "catalogue: [{kind: model, name: a/b, of: nvidia-gpu}]": 'site.yaml: $.catalogue[0].name: "a/b" is not a name: '
    'lower-case letters, digits, "-", "." and "_"',
    "catalogue: [{kind: model, name: a, of: b}]": 'site.yaml: $.catalogue[0].of: found "b"; valid: nvidia-gpu, '
    "amd-gpu, intel-gpu, intel-gpu-xe, intel-gaudi, aws-neuron, aws-neuroncore",
    "catalogue: [{kind: model, name: nvidia-gpu, of: amd-gpu}]": "site.yaml: $.catalogue[0].kind: aws.yaml: $[0] needs "
    "an entry of this name; valid: devices",
    "catalogue: [{kind: devices, name: nvidia-a100-40gb, family: a, resource: a/b}]": "site.yaml: $.catalogue[0].kind: "
    "nvidia.yaml: $[1] needs an entry of this name; valid: model",
    "catalogue: [{kind: model, name: a, of: nvidia-gpu, select: {gek: {}}}]": "site.yaml: $.catalogue[0].select: "
    'found the key "gek"; valid: aks, eks, gfd, gke, none',
    "catalogue: [{kind: devices, name: a, family: a, resource: a/b, tolerations: ['sku=gpu']}]": "site.yaml: "
    '$.catalogue[0].tolerations: "sku=gpu" is not KEY or KEY=VALUE:EFFECT with one of NoSchedule, PreferNoSchedule, '
    "NoExecute",
    "catalogue: [{kind: model, name: a, of: nvidia-gpu, platformTolerations: {aks: ['a b']}}]": "site.yaml: "
    '$.catalogue[0].platformTolerations: "a b" is not a key, such as example.com/name',
    "catalogue: [{kind: devices, name: nvidia-gpu, family: nvidia, resource: nvidia.com/gpu, mig: {prefix: mig-, "
    "resource: nvidia.com/mig-, labels: {gfd: nvidia.com/gpu.product}}}]": "site.yaml: $.catalogue[0].mig.labels.gfd: "
    "nvidia.com/gpu.product cannot be nvidia-a30's and a part's at once; for MIG's strategy single on platform gfd say "
    "gfd: {mig: single} instead",
    "catalogue: [{kind: model, name: a, of: nvidia-gpu, mig: [1g.5gb], select: {gke: "
    "{cloud.google.com/gke-gpu-partition-size: 1g.5gb}}}]": "site.yaml: $.catalogue[0].select.gke: "
    "cloud.google.com/gke-gpu-partition-size cannot be a's and a part's at once; for MIG's strategy single on platform "
    "gfd say gfd: {mig: single} instead",
    "gfd: {mig: none}": 'site.yaml: $.gfd.mig: found "none"; valid: mixed, single',
    "gfd: {models: {nvidia-t4: {share: true}}}": "site.yaml: $.gfd.models.nvidia-t4.share is not a known key; "
    "did you mean shared?",
    "catalogue: [{kind: ambiguous, name: a, choices: [nvidia-l4, b]}]": 'site.yaml: $.catalogue[0].choices: found "b"; '
    "valid: the name of a model",
    "catalogue: [{kind: instance, name: a, of: nvidia-gpu, instanceType: b, count: 0}]": "site.yaml: "
    "$.catalogue[0].count: this and each of extras must be numbers from 1 to 65536",
    "catalogue: [{kind: model, name: a, of: nvidia-gpu, most: {gke: 65537}}]": "site.yaml: $.catalogue[0].most: "
    "devices in one node must be numbers from 1 to 65536",
    '"a\\nb\\u202e": 1': "site.yaml: $.a?b? is not a known key; valid: accelerators, catalogue, claims, controllers, "
    "detect, eks, exclusivePlacement, gfd, hostProfiles, placements, platform, schedulers, sharedMemory, tpu",
}


@pytest.mark.parametrize("text", ERRORS)
def test_an_error_names_file_path_value_and_what_is_valid(text: str) -> None:
    """One line that an admin can act on, for every kind of mistake."""
    with pytest.raises(BadConfig) as error:
        parse(text)
    assert str(error.value) == ERRORS[text]


TPU = "catalogue: [{kind: tpu, name: v9, prefix: tpu-v9, spellings: [v9], dimensions: 3, wrap: all-from-4, %s}]"
CUBES = TPU % "coresPerChip: 1, shapes: [2x2x2], cubes: {most: 8, longest: 64, %s}"
TOO_MUCH = {
    "x" * 64
    + ": &a 1\ny: ["
    + "*a," * 300_000
    + "]": "line 2, column 300005: aliases stand for more than 100,000 keys and values",
    "x: &a "
    + "x" * 50_000
    + "\ny: ["
    + "*a," * 100
    + "]": "line 2, column 254: aliases stand for more than 4 MiB of text",
    "# " + "x" * 1024 * 1024: "more than 1 MiB, which a ConfigMap cannot hold",
    "x: " + "[" * 100_000: "line 1, column 1003: nested too deeply: more than 200 levels",
    "x: 0x" + "f" * 10_000: "$.x is not a known key",
    "tpu: {legacyNodes: 0x" + "f" * 10_000 + "}": '$.tpu.legacyNodes: found "0xfff',
    "tpu: {legacyNodes: 1e999999999}": '$.tpu.legacyNodes: found "1e999999999"; valid: true or false',
    "tpu: {legacyNodes: 1" + ":1" * 10_000 + "}": '$.tpu.legacyNodes: found "1:1:1',
    "? " + "x" * 100_000 + "\n: 1": "$." + "x" * 64 + "… is not a known key",
    "placements:\n" + "".join(f"  p{n}: {{}}\n" for n in range(9000)) + "  z: {tolerations: 1}": "$.placements.z.toler",
    "placements: {a: {namespaces: [" + "[" * 9 + "]" * 9 + "]}}": "$.placements.a.namespaces[0]: found a list",
    "placements: {a: {namespaces: ['" + "[" * 254 + "']}}": '$.placements: a.namespaces: "[[[[[[',
    "hostProfiles: {a: {types: [" + "a," * 10_001 + "]}}": "$.hostProfiles: a.types: more than 10,000 patterns in all",
    "schedulers: {defaults: [{types: ['" + "a" * 254 + "']}]}": '$.schedulers: defaults[0].types: "aaa',
    "sharedMemory: '" + "9" * 65 + "'": '$.sharedMemory: found "999',
    "placements: {a: {resources: {x/y: '" + "9" * 10_000 + "'}}}": '$.placements.a.resources: x/y: "999',
    TPU % "coresPerChip: 17, shapes: [2x2x2]": "$.catalogue[0].coresPerChip: this and portsPerChip must be numbers",
    TPU % "coresPerChip: 1, portsPerChip: 1000000000, shapes: [2x2x2]": "$.catalogue[0].coresPerChip: this and ports",
    TPU
    % ("coresPerChip: 1, shapes: [" + "2x2x2," * 257 + "]"): "$.catalogue[0].shapes: found 257 topologies; valid: 1",
    TPU
    % "coresPerChip: 1, shapes: [2x2x2], cubes: {most: 4097, longest: 4}": "$.catalogue[0].cubes.most: found 4097; va",
    CUBES
    % "defaultsUpTo: 1000000000": "$.catalogue[0].cubes.defaults: these and defaultsUpTo are numbers of cubes, up",
    CUBES % "defaults: [1000000000000000000]": "$.catalogue[0].cubes.defaults: these and defaultsUpTo are numbers of",
}


@pytest.mark.parametrize("text", TOO_MUCH, ids=range(len(TOO_MUCH)))
def test_what_is_too_much_is_refused_at_once(text: str) -> None:
    """A site config is read while calls are answered: by its size in time, and never with much memory."""
    with budget.within(len(text)):
        problem = error_of(text.encode())
    assert problem.startswith(f"site.yaml: {TOO_MUCH[text]}")
    assert problem.isprintable()
    assert len(problem) <= 1001


def test_types_of_a_site_are_bounded() -> None:
    """A generation of a few words can have thousands of sizes, and a config thousands of generations."""
    one = "- {kind: tpu, name: v%dx, prefix: tpu-v%dx, spellings: [v%dx], coresPerChip: 1, dimensions: 3, "
    one += "wrap: axis-of-16, shapes: [2x2x2], cubes: {most: 4096, longest: 4096, defaultsUpTo: 4096}}\n"

    assert error_of(("catalogue:\n" + "".join(one % (n, n, n) for n in range(12))).encode()) == ""
    problem = error_of(("catalogue:\n" + "".join(one % (n, n, n) for n in range(13))).encode())
    assert problem == "site.yaml: $.catalogue: found 53,261 types; valid: at most 50,000"


def test_ten_thousand_models_are_read() -> None:
    """A large catalogue of a site's own, and as many patterns as it may have, cost by their size."""
    models = [f"- {{kind: model, name: m{n}, of: nvidia-gpu, mig: [1g.{n}gb]}}\n" for n in range(10_000)]
    patterns = ", ".join(f"m{n}-*" for n in range(10_000))
    text = f"hostProfiles: {{a: {{types: [{patterns}]}}}}\ncatalogue:\n{''.join(models)}"

    with budget.within(len(text)):
        site = parse(text)

    assert site.catalogue.resolve("m9999-mig-1g.9999gb").max_per_node is None


def test_values_are_those_that_helm_reads() -> None:
    """The chart's values go through the same rules, so a file means the same with and without Helm."""
    site = parse("placements: {1: {nodeSelector: {octal: '010', day: 2026-11-30}}}\nexclusivePlacement: n\n")

    assert site.config.placements["1"].node_selector == {"octal": "010", "day": "2026-11-30"}
    assert site.config.placement == "off"


def test_an_alias_of_itself_is_an_error() -> None:
    """YAML can describe a value without end; it is refused, whatever stands around it."""
    with pytest.raises(BadConfig, match=r"^site\.yaml: "):
        parse("placements: &a {spot: *a}")


SOME = (
    "platform tpu environment schedulers defaults placements spot nodeSelector tolerations resources catalogue kind of"
)
KEYS = st.sampled_from(sorted(set(re.findall(r"[a-zA-Z./]+", SOME + PROFILE + LEGACY))))
WORDS = KEYS | st.sampled_from(["gke", "full", "model", "tpu", "devices", "nvidia-gpu", "Exists", "/dev/x", "2x2"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | WORDS
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=4), max_leaves=20)


def error_of(data: bytes) -> str:
    """What is wrong with a site config, or nothing."""
    try:
        Site.parse(data, "site.yaml", BUILTIN)
    except BadConfig as error:
        return str(error)
    return ""


@settings(deadline=None)  # other programs share the machine
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode) | VALUES.map(lambda v: json.dumps(v).encode()))
def test_any_bytes_are_a_site_or_an_error_of_one_line(data: bytes) -> None:
    """Whatever the file holds, there is no traceback."""
    error = error_of(data)
    assert not error or error.startswith("site.yaml: ")
    assert "\n" not in error


def test_a_date_stays_text() -> None:
    """A reservation named by a date is a label value, not a date."""
    placements = parse("placements: {a: {nodeSelector: {reserved: 2026-11-30}}}").config.placements
    assert placements["a"].node_selector == {"reserved": "2026-11-30"}


def test_a_placement_is_for_its_namespaces() -> None:
    """By default every namespace may use a placement; patterns narrow it."""
    site = parse("placements: {spot: {}, reserved: {namespaces: [team-a, research-*]}}")
    assert site.placement_names("team-b") == ("spot",)
    assert site.placement_names("team-a") == ("reserved", "spot")
    assert site.placement_names("research-9") == ("reserved", "spot")


def test_the_order_of_keys_in_the_file_means_nothing() -> None:
    """Helm sorts the keys of its values: the file as it was written must decide as the ConfigMap does."""
    written = """
hostProfiles:
  b: {types: [nvidia-*], env: {Y: "1", X: "2"}}
  a: {types: [nvidia-*]}
accelerators: {example.com/b: {}, example.com/a: {}}
placements: {b: {}, a: {}}
"""
    site, stored = parse(written), parse(yaml.safe_dump(yaml.safe_load(written), sort_keys=True))
    assert site.profiles == stored.profiles
    assert ["a", "b", "example.com/a", "example.com/b"] == [profile.name for profile in site.profiles]
    assert site.placement_names("team-a") == stored.placement_names("team-a") == ("a", "b")


def test_the_first_scheduler_default_that_fits_counts() -> None:
    """Order decides between defaults by type and by namespace."""
    site = parse("""
schedulers:
  defaults:
    - {types: [tpu-*], scheduler: default-scheduler}
    - {namespaces: [batch-*], scheduler: volcano, queue: night}
    - {namespaces: [queues], queue: day}
""")
    tpu, night, day = site.config.schedulers.defaults
    assert site.scheduler_default("tpu-v4-16", "batch-1") == tpu
    assert site.scheduler_default("nvidia-l4", "batch-1") == night
    assert site.scheduler_default("nvidia-l4", "queues") == day
    assert day.scheduler is None
    assert site.scheduler_default("nvidia-l4", "team-a") is None


def test_a_profile_is_for_its_types_modes_and_namespaces() -> None:
    """All three must fit; a namespace that is not listed gets nothing."""
    site = parse(PROFILE)
    (profile,) = site.host_profiles("nvidia-l4", "nvidia.com/gpu", "host", "team-a")
    assert profile.name == "nvidia"
    assert profile.devices == (Device(path="/dev/nvidiactl"), Device(path="/dev/nvidia", per_device=True))
    assert profile.optional_devices == (Device(path="/dev/nvidia-modeset"),)
    assert profile.libraries == (Library(host_path="/opt/driver/lib", mount_path="/usr/local/nvidia/lib64"),)
    assert profile.env == (("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64"),)
    assert profile.exclusive_node
    assert not profile.privileged
    assert not site.host_profiles("nvidia-l4", "nvidia.com/gpu", "host", "kube-public")
    assert not site.host_profiles("amd-gpu", "amd.com/gpu", "host", "team-a")
    assert [p.name for p in site.host_profiles("nvidia-l4", "nvidia.com/gpu", "plugin", "x")] == ["libraries"]


def test_a_profile_without_namespaces_is_for_nobody() -> None:
    """Host paths are granted by name, never by default."""
    site = parse("hostProfiles: {a: {types: ['*'], modes: [host, plugin]}}")
    assert not site.host_profiles("nvidia-l4", "nvidia.com/gpu", "host", "default")


def test_detection_applies_profiles_of_the_any_model_type() -> None:
    """A detected resource counts as its any-model type, and only where the config lists it."""
    site = parse(PROFILE)
    assert [p.name for p in site.detected("nvidia.com/gpu", "x")] == ["libraries"]
    assert [p.name for p in site.detected("google.com/tpu", "x")] == ["libraries"]
    assert site.detected("amd.com/gpu", "x") == ()


def test_the_old_operator_file_is_detection_and_profile() -> None:
    """Each entry is for its resource, whatever the type, in every namespace, and gives no devices."""
    site = parse(LEGACY)
    assert site.detect == {"alpha.kubernetes.io/nvidia-gpu"}
    (profile,) = site.detected("alpha.kubernetes.io/nvidia-gpu", "anywhere")
    assert [library.host_path for library in profile.libraries] == [
        "/home/kubernetes/bin/nvidia/lib",
        "/home/kubernetes/bin/nvidia/bin",
    ]
    assert profile.env == (("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64"),)
    assert not profile.devices
    assert not site.host_profiles("nvidia-gpu", "nvidia.com/gpu", "plugin", "anywhere")
    assert not site.host_profiles("nvidia-gpu", "alpha.kubernetes.io/nvidia-gpu", "host", "anywhere")


def test_an_admin_adds_and_replaces_catalogue_entries() -> None:
    """The site's entries are written as the packaged ones and win by name."""
    site = parse("""
platform: gfd
catalogue:
  - {kind: model, name: nvidia-l4, of: nvidia-gpu, select: {gfd: {nvidia.com/gpu.product: NVIDIA-L4-PCIe}}}
  - {kind: devices, name: acme-npu, family: acme, resource: acme.example/npu, tolerations: [acme.example/npu]}
  - {kind: model, name: acme-npu-2, of: acme-npu, aliases: [npu2], most: {gfd: 4}}
""")
    assert site.catalogue.resolve("nvidia-l4").selector == (("nvidia.com/gpu.product", ("NVIDIA-L4-PCIe",)),)
    assert site.catalogue.resolve("NPU2").name == "acme-npu-2"
    assert site.catalogue.resolve("acme-npu-2").max_per_node == 4
    assert not site.catalogue.resolve("acme-npu-2").pinned
    assert list(site.catalogue.names()).count("nvidia-l4") == 1


def test_an_admin_adds_a_tpu_generation() -> None:
    """A generation is one entry of rules."""
    site = parse("""
catalogue:
  - {kind: tpu, name: v9, prefix: tpu-v9, spellings: [v9], coresPerChip: 2, dimensions: 2, label: tpu-v9-slice,
     shapes: [2x2, 4x4, 8x8], wrap: all-from-4}
""")
    accelerator = site.catalogue.resolve("v9-32")
    assert accelerator.name == "tpu-v9-32"
    assert accelerator.slice is not None
    assert (accelerator.slice.topology, accelerator.hosts) == ("4x4", 4)


def test_the_packaged_files_are_found_in_order() -> None:
    """The catalogue comes with the package."""
    assert [name for name, _ in BUILTIN] == sorted(name for name, _ in BUILTIN)
    assert {name for name, _ in BUILTIN} >= {"aws.yaml", "nvidia.yaml", "others.yaml", "tpu.yaml"}
