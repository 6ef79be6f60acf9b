"""`accel config check`: every mistake with its line, whatever file it is in, and what can have no effect."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ACCEL = Path(sys.executable).with_name("accel")


def check(text: str, name: str = "-") -> tuple[int, str, list[str]]:
    """Exit code, stdout, and the lines of stderr."""
    plain = {**os.environ, "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        [ACCEL, "config", "check", name], input=text, capture_output=True, text=True, check=False, env=plain
    )
    return done.returncode, done.stdout, done.stderr.splitlines()


BROKEN = """\
# a comment
placements:
  spot:
    nodeselector: {a: b}
    tolerations:
    - {key: a, operator: Exist}
    - {key: b}
    - {key: c, operator: Equals}
hostProfiles:
  nv: {modes: [hosts, plugin, hos], devices: [/dev/x]}
schedulers: {defaults: [{scheduler: kai}]}
catalogue:
- {kind: model, name: a, of: nvidia-gpux}
- {kind: modle, name: b}
- {kind: model, name: c, of: nvidia-gpu, aliases: [nvidia-h200]}
- {kind: model, name: c, of: nvidia-gpu}
"""
ERRORS = [
    "4: $.placements.spot.nodeselector is not a known key; did you mean nodeSelector?",
    '6: $.placements.spot.tolerations[0].operator: found "Exist"; valid: Equal, Exists, Gt, Lt',
    '8: $.placements.spot.tolerations[2].operator: found "Equals"; valid: Equal, Exists, Gt, Lt',
    '10: $.hostProfiles.nv.modes[0]: found "hosts"; valid: host, plugin',
    '10: $.hostProfiles.nv.modes[2]: found "hos"; valid: host, plugin',
    "10: $.hostProfiles.nv.exclusiveNode: true is needed with devices: nothing counts them, so a Pod "
    "takes a whole node",
    '11: $.schedulers.defaults: scheduler "kai" is not allowed; valid: default-scheduler, volcano',
    '14: $.catalogue[1].kind: found "modle"; valid: tpu, devices, model, instance, ambiguous',
    "16: $.catalogue[3].name: c is already defined, at $.catalogue[2]",
    '13: $.catalogue[0].of: found "nvidia-gpux"; valid: nvidia-gpu, amd-gpu, intel-gpu, intel-gpu-xe, intel-gaudi, '
    "aws-neuron, aws-neuroncore",
]


def test_every_mistake_with_its_line() -> None:
    """All of them in one go, each where it is in the file, whatever was taken out to find the next."""
    code, out, lines = check(BROKEN)

    assert (1, "") == (code, out)
    assert [f"error: stdin:{error}" for error in ERRORS] == [line for line in lines if line.startswith("error")]
    assert 'warning: stdin:15: $.catalogue[2].aliases[0]: "nvidia-h200" is taken from nvidia-h200-141gb' in lines


def test_a_charts_values() -> None:
    """The config in them is checked, with paths and lines of the file; the chart's own platform is no mistake."""
    indented = "".join(f"  {line}\n" for line in BROKEN.splitlines())
    _, _, lines = check(f"replicas: 3\nconfig:\n  platform: auto\n{indented}")
    code, out, nothing = check("config: {platform: auto, sharedMemory: true}\nreplicas: 3\n")

    assert (
        "error: stdin:7: $.config.placements.spot.nodeselector is not a known key; did you mean nodeSelector?" in lines
    )
    assert len(ERRORS) == sum(line.startswith("error") for line in lines)
    assert (0, []) == (code, nothing)
    assert out.startswith("stdin: valid; platform gke, ")
    assert out.endswith("; platform auto: checked as gke\n")


def test_a_file_and_stdin_say_the_same(tmp_path: Path) -> None:
    """But for the name."""
    file = tmp_path / "site.yaml"
    file.write_text(BROKEN)
    lines = check("", str(file))[2]

    assert [line.replace(str(file), "stdin") for line in lines] == check(BROKEN)[2]


def test_very_many_mistakes_end() -> None:
    """Twenty are printed; each costs a look at the whole file."""
    code, _, lines = check("placements:\n" + "".join(f"  p{n}: {{a: b}}\n" for n in range(500)))

    assert (1, 20) == (code, len(lines))


@pytest.mark.parametrize("text", ["[]", "a", "config: 3", "a: [", "a: 1\n---\nb: 2"])
def test_what_is_no_config(text: str) -> None:
    """One line, and no traceback."""
    code, _, lines = check(text)

    assert (1, 1) == (code, len(lines))
    assert lines[0].startswith("error: stdin:")


WARNINGS = {
    "hostProfiles: {nv: {types: [nvidia-*], namespaces: ['*'], privileged: true}}": "$.hostProfiles.nv.namespaces: "
    "privileged in every namespace: whoever may create a Pod in any of them gets the node",
    "hostProfiles: {nv: {types: [nvidia-*], namespaces: [a, '**'], privileged: true}}": "$.hostProfiles.nv.namespaces: "
    "privileged in every namespace: whoever may create a Pod in any of them gets the node",
    "hostProfiles: {nv: {types: [nvidia-*]}}": "$.hostProfiles.nv: no namespaces, so nobody may use it",
    "detect: [nvidia.com/gpu]": '$.detect[0]: no host profile of mode plugin is for "nvidia.com/gpu", so nothing comes '
    "of it",
    "detect: [amd.com/gpu]\nhostProfiles: {nv: {types: [amd-*], namespaces: [a]}}": "$.detect[0]: no host profile of "
    'mode plugin is for "amd.com/gpu", so nothing comes of it',
    "gfd: {shared: true}": "$.gfd: no effect on platform gke",
    "platform: gfd\ngfd: {models: {nvidia-h200: {shared: true}}}": "$.gfd.models.nvidia-h200 is no model's name; "
    "nearest: nvidia-h200-141gb",
    "catalogue: [{kind: model, name: a, of: nvidia-gpu, aliases: [nvidia-l4], select: {gke: {}}}]": "$.catalogue[0]"
    '.aliases[0]: "nvidia-l4" means nvidia-l4, whose own name is stronger',
    "catalogue: [{kind: model, name: a, of: nvidia-gpu, aliases: [v4-8], select: {gke: {}}}]": "$.catalogue[0]"
    '.aliases[0]: "v4-8" means the TPU v4-8, whose own name is stronger',
    "catalogue: [{kind: model, name: a, of: nvidia-gpu, select: {eks: {a: b}}}]": "$.catalogue[0].select: nothing for "
    "platform gke, so any node with the resource will do",
    "placements: {net: {resources: {hugepages-2Mi: 1Gi}}}": "$.placements.net.resources: hugepages need cpu or memory "
    "on the same container, or the API server refuses the Pod",
}


@pytest.mark.parametrize("text", WARNINGS)
def test_what_is_valid_and_not_meant(text: str) -> None:
    """A warning and no error, since it may be intended."""
    code, out, lines = check(text)

    assert code == 0
    assert "stdin: valid" in out
    assert [line.partition(": $")[2] for line in lines] == [WARNINGS[text].removeprefix("$")]


@pytest.mark.parametrize(
    "text",
    [
        "platform: none\ncatalogue: [{kind: model, name: a, of: nvidia-gpu, aliases: [lab-a]}]",
        "hostProfiles: {nv: {types: [nvidia-*], modes: [plugin], namespaces: [a]}}\ndetect: [nvidia.com/mig-1g.5gb]",
        "accelerators: {example.com/npu: {}}\ndetect: [example.com/npu]",
        "hostProfiles: {nv: {types: [nvidia-*], namespaces: [team-*], privileged: true}}",
        "hostProfiles: {nv: {types: ['*'], modes: [plugin], namespaces: ['*'], runtimeClassName: nvidia}}",
    ],
)
def test_nothing_is_made_of_what_is_meant(text: str) -> None:
    """A warning that always appears would not be read."""
    assert (0, []) == check(text)[::2]
