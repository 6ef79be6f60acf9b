"""The command as a user has it: arguments in; stdout, stderr and an exit code out."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.checkout import ACCEL, ROOT
from tests.support.command import POD, Done, accel, written
from webhook import __version__, load
from webhook.cli import DEFAULTS, app
from webhook.manifest.inject import injected
from webhook.server.settings import Settings

BAD = POD.replace("tpu-v4-8", "tpu-v4-17")
MULTI_HOST = POD.replace("tpu-v4-8", "tpu-v4-16")


SITE = load.load()


def test_inject_from_stdin_and_again() -> None:
    """The result is the pure function's, silent, and injecting it again changes nothing."""
    first = accel("inject", "-f", "-", stdin=POD)
    second = accel("inject", "-f", "-", stdin=first.out)

    assert (0, injected(POD, SITE)[0], "") == first
    assert first == second


def test_inject_several_files_and_a_directory(tmp_path: Path) -> None:
    """-f may be repeated, and name a directory: its .yaml, .yml and .json files in the order of their names."""
    (tmp_path / "b.yml").write_text(POD.replace("jax-devices", "b"))
    (tmp_path / "a.json").write_text(json.dumps(yaml.safe_load(POD.replace("jax-devices", "a"))))
    (tmp_path / "README.md").write_text("not: [yaml")

    done = accel("inject", "-f", "examples/pod.yaml", "-f", str(tmp_path))
    found = list(yaml.safe_load_all(done.out))

    assert (0, "") == (done.code, done.err)
    assert ["jax-devices", "a", "b"] == [pod["metadata"]["name"] for pod in found]
    assert all(pod["spec"]["nodeSelector"] for pod in found)


def test_inject_json_is_one_object_or_a_list() -> None:
    """Empty documents do not count."""
    one = json.loads(accel("inject", "-f", "-", "-o", "json", stdin=f"---\n{POD}---\n").out)
    two = json.loads(accel("inject", "-f", "-", "-o", "json", stdin=f"{POD}---\n{POD}").out)

    assert "4" == one["spec"]["containers"][0]["resources"]["limits"]["google.com/tpu"]
    assert [one, one] == two


def test_inject_diff_shows_only_what_changes() -> None:
    """A unified diff, without colours in a pipe."""
    done = accel("inject", "-f", "examples/pod.yaml", "-o", "diff")

    assert done.out.startswith("--- examples/pod.yaml\n+++ examples/pod.yaml (injected)\n@@ ")
    assert '+        google.com/tpu: "4"\n' in done.out
    assert "\x1b" not in done.out


def test_inject_warnings_go_to_stderr() -> None:
    """A warning names the file and the object; the exit code is 0."""
    done = accel("inject", "-f", "-", stdin=MULTI_HOST)

    assert 0 == done.code
    assert done.err.startswith("warning: stdin, Pod/jax-devices: accel.io: tpu-v4-16 has 2 hosts")
    assert "nodeSelector" in done.out


def test_one_denied_document_and_nothing_is_printed() -> None:
    """Half a stream must not reach a cluster; every denial is printed, with document, object and what is valid."""
    done = accel("inject", "-f", "-", stdin=f"{POD}---\n{BAD}---\n{BAD.replace('jax-devices', 'other')}")

    assert (1, "") == (done.code, done.out)
    assert 'denied: stdin, document 2, Pod/jax-devices: accel.io/type: "tpu-v4-17"' in done.err
    assert "document 3, Pod/other" in done.err
    assert "tpu-v4-16" in done.err


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["inject", "-f", "-"], "a: [1\n", "error: stdin:2:1: did not find expected ',' or ']'"),
        (["inject", "-f", "/no/such/file.yaml"], "", "error: /no/such/file.yaml: no such file or directory"),
        (["inject", "-f", "webhook/core"], "", "error: webhook/core: no manifest in it (.yaml, .yml, .json)"),
        (["inject", "-f", "-", "--config", "/no/file"], POD, "error: /no/file: "),
        (["explain", "tpu-v4-17"], "", 'error: "tpu-v4-17" is not in the catalogue'),
        (["explain", "nvidia-a100"], "", 'error: "nvidia-a100" matches several accelerators'),
        (["explain", "tpu-v4-16", "--topology", "3x3x3"], "", 'error: accel.io/topology: "3x3x3"'),
        (["catalogue", "nvidia-h1000"], "", 'error: no type matches "nvidia-h1000"; nearest: nvidia-'),
        (["config", "check", "examples/pod.yaml"], "", "error: examples/pod.yaml:2: $.apiVersion is not a known key"),
    ],
)
def test_mistakes_are_told_in_words(arguments: list[str], stdin: str, message: str) -> None:
    """Exit code 1, nothing on stdout, what is wrong on stderr, and no traceback."""
    done = accel(*arguments, stdin=stdin)

    assert (1, "") == (done.code, done.out)
    assert done.err.startswith(message)
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["inject"],
        ["inject", "-f", "-", "-o", "xml"],
        ["explain"],
        ["explain", "tpu-v4-8", "-f", "x.yaml"],
        ["serve"],
        ["serve", "--self-signed", "--port", "70000"],
        ["nonsense"],
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    """So that scripts can distinguish it from a denial."""
    done = accel(*arguments)

    assert (2, "") == (done.code, done.out)
    assert "Traceback" not in done.err


def test_text_that_is_not_utf_8(tmp_path: Path) -> None:
    """The line is named."""
    (tmp_path / "x.yaml").write_bytes(b"a: 1\nb: \xff\n")

    assert f"error: {tmp_path}/x.yaml:2: not UTF-8 text\n" == accel("inject", "-f", str(tmp_path)).err


def test_letters_that_the_locale_lacks() -> None:
    """The result is UTF-8 wherever it goes, a diff too; what is only shown is spelled out."""
    text = POD.replace("jax-devices", '"é"')
    changed = accel("inject", "-f", "-", "-o", "diff", stdin=text, PYTHONIOENCODING="ascii")
    shown = accel("inject", "-f", "-", stdin=text.replace("tpu-v4-8", "tpu-v4-16"), PYTHONIOENCODING="ascii")

    assert '"é"' in accel("inject", "-f", "-", stdin=text, PYTHONIOENCODING="ascii").out
    assert (0, "") == (changed.code, changed.err)
    assert 'name: "é"' in changed.out
    assert r"Pod/\xe9: accel.io" in shown.err


def test_nothing_in_the_input_gets_a_warning() -> None:
    """Empty input is most often a pipe that broke."""
    assert Done(0, "", "warning: no object in stdin\n") == accel("inject", "-f", "-")


def test_unexpected_errors_are_one_line() -> None:
    """Exit code 2 and a way to learn more; with ACCEL_DEBUG the traceback."""
    code = "import sys, webhook.cli as c; c._site = lambda path: 1 // 0; sys.argv = ['accel', 'catalogue']; c.main()"
    command = [sys.executable, "-c", code]
    short = subprocess.run(command, capture_output=True, cwd=ROOT)
    long = subprocess.run(command, capture_output=True, cwd=ROOT, env={**os.environ, "ACCEL_DEBUG": "1"})

    assert 2 == short.returncode
    assert b"error: ZeroDivisionError: " in short.stderr
    assert 1 == short.stderr.count(b"\n")
    assert b"Traceback" in long.stderr


def test_explain_type() -> None:
    """Hardware, what a Pod gets, and how to ask."""
    done = accel("explain", "v4-16")

    assert (0, "") == (done.code, done.err)
    for fact in ("tpu-v4-16", "2x2x2", "TensorCores (2 per chip)", "google.com/tpu: 4", "accel.io/type: tpu-v4-16"):
        assert fact in done.out
    assert all(line == line.rstrip() for line in done.out.splitlines())


def test_explain_type_as_data() -> None:
    """JSON and YAML say the same."""
    found = json.loads(accel("explain", "tpu-v5p-1024", "-o", "json").out)

    assert ("4x8x16" in found["slice"]["topologies"], 128) == (True, found["pods"])
    assert found == yaml.safe_load(accel("explain", "tpu-v5p-1024", "-o", "yaml").out)


def test_explain_manifest() -> None:
    """Each template: what was asked where, what it gets, from which rule, and what it does not get and why."""
    done = accel("explain", "-f", "examples/jobset-multislice.yaml")

    assert (0, "") == (done.code, done.err)
    for fact in (
        "JobSet/multislice injected",
        "on metadata.annotations",
        "spec.containers[jax].resources.limits google.com/tpu: 4",
        "the chips of one host",
        "MEGASCALE_NUM_SLICES from",
        "several slices form one job",
        "exclusivePlacement",
        "parallelism: 2",
    ):
        assert fact in " ".join(done.out.split())


def test_explain_why_not() -> None:
    """For an object that gets nothing the reason is printed; a denied one gives exit code 1."""
    silent = accel("explain", "-f", "-", stdin=POD.replace("accel.io/type", "other"))
    off = accel("explain", "-f", "-", stdin=POD.replace("tpu-v4-8", 'tpu-v4-8\n    accel.io/inject: "false"'))
    denied = accel("explain", "-f", "-", stdin=BAD)
    again = accel("explain", "-f", "-", stdin=injected(POD, SITE)[0])

    assert "no accel.io/type on metadata.annotations" in silent.out
    assert 'accel.io/inject is "false" on metadata.annotations' in off.out
    assert (1, True) == (denied.code, "denied" in denied.out and "tpu-v4-16" in denied.out)
    assert "nothing to add: everything is already set" in again.out


def test_catalogue() -> None:
    """A table, or everything as data; a pattern narrows both."""
    table = accel("catalogue", "tpu_v3*")
    data = json.loads(accel("catalogue", "-o", "json").out)

    assert table.out.startswith("TYPE")
    assert [line.split()[0] for line in table.out.splitlines()[1:-2]] == [
        entry["name"] for entry in data if entry["name"].startswith("tpu-v3")
    ]
    assert {"tpu-v4-16", "nvidia-l4", "aws_p5.48xlarge"} <= {entry["name"] for entry in data}


def test_config_show_is_a_config() -> None:
    """What `show` prints can be checked, and means the same."""
    shown = accel("config", "show").out
    path = ROOT / "tests" / "data" / "no-such-file"

    assert not path.exists()
    assert "platform: gke" in shown
    assert load.load().config == type(load.load()).parse(shown.encode(), "shown", load.builtin()).config


def test_config_check(tmp_path: Path) -> None:
    """A valid file is summarized, with settings that have no effect; for an invalid one the path in it is printed."""
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("platform: eks\nschedulers: {defaults: [{types: [nvida-*], scheduler: volcano}]}\n")
    bad.write_text("platfrom: eks\n")

    checked, broken = accel("config", "check", str(good)), accel("config", "check", str(bad))
    example = accel("config", "check", "examples/site.yaml")

    assert (0, True) == (checked.code, checked.out.startswith(f"{good}: valid; platform eks, 1 scheduler default"))
    assert '$.schedulers.defaults[0].types: "nvida-*" matches no accelerator type' in checked.err
    assert (0, "") == (example.code, example.err)
    assert (1, "") == (broken.code, broken.out)
    assert "platfrom" in broken.err
    assert "platform" in broken.err


def test_config_by_environment(tmp_path: Path) -> None:
    """ACCEL_CONFIG is --config."""
    path = tmp_path / "site.yaml"
    path.write_text("platform: none\n")

    assert "nodeSelector" not in accel("inject", "-f", "-", stdin=POD, ACCEL_CONFIG=str(path)).out


def test_version_and_plugin_name(tmp_path: Path) -> None:
    """`kubectl accel` calls a program of another name, and its help says so."""
    plugin = f"{Path(ACCEL).parent}/kubectl-accel"

    assert Done(0, f"accel {__version__}\n", "") == accel("--version")
    assert f"accel {__version__}\n" == accel("--version", program=plugin).out
    assert "Usage: kubectl accel inject" in accel("inject", "--help", program=plugin).out
    assert "Usage: accel inject" in accel("inject", "--help").out


def test_help_lists_every_command() -> None:
    """Those of other rooms too."""
    text = accel("--help").out

    assert all(f" {name} " in text for name in ("serve", "inject", "explain", "catalogue", "config", "certs", "demo"))
    assert " run " in accel("certs", "--help").out


def test_serve_has_a_flag_and_a_variable_for_every_setting() -> None:
    """Neither a setting without a flag, nor a flag with another default than the setting's."""
    import typer

    command = typer.main.get_command(app).get_command(None, "serve")  # type: ignore[attr-defined, arg-type]
    flags = {param.name: param for param in command.params if param.name != "help"}

    assert set(Settings.__struct_fields__) == set(flags)
    for name, param in flags.items():
        assert f"--{name.replace('_', '-')}" in param.opts
        assert f"ACCEL_{name.upper()}" == param.envvar
        assert (getattr(DEFAULTS, name) or None) == (param.default or None)


def test_serve_starts_without_the_command_s_own_libraries() -> None:
    """What is not loaded costs no memory in the cluster, and no time at its start."""
    code = (
        "import sys, webhook.cli, webhook.server.replica\n"
        "slow = {'rich', 'ruamel', 'kubernetes', 'jsonpatch', 'certs.cli', 'webhook.command.demo'}\n"
        "print(sorted(slow & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, text=True)

    assert "[]\n" == run.stdout


def test_demo_shows_before_after_warning_and_denial() -> None:
    """It ends by itself, says what to do next, and everything in it came over TLS from the real webhook."""
    done = accel("demo")

    assert (0, "") == (done.code, done.err)
    assert '  +        google.com/tpu: "4"\n' in done.out
    assert "Warning: accel.io: tpu-v4-16 has 2 hosts" in done.out
    assert 'denied the request: accel.io/type: "tpu-v4-17"' in done.out
    assert "100 more reviews of JobSet multislice over the same connection" in done.out
    assert "inject -f examples/pod.yaml" in done.out


def test_demo_with_own_manifests() -> None:
    """The same for any file: kinds that are only validated, and unknown kinds."""
    done = accel("demo", "-f", "examples/deployment.yaml", "-f", "examples/job.yaml")

    assert 0 == done.code
    assert "Deployment/llm" in done.out
    assert "admitted as it is" in done.out
    assert "+  parallelism: 2" in done.out


def test_a_reader_that_leaves_early_is_no_error() -> None:
    """`accel catalogue | head -1` ends quietly."""
    run = subprocess.Popen([ACCEL, "catalogue"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.read(1)
    run.stdout.close()

    assert b"" == run.stderr.read()
    assert run.wait(60) in (0, 1, 141)
    run.stderr.close()


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colours_only_on_terminals_that_want_them(environment: dict[str, str], coloured: bool) -> None:
    """A terminal gets colours, unless NO_COLOR or TERM says otherwise."""
    ours, theirs = pty.openpty()
    base = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    command = [ACCEL, "inject", "-f", "examples/pod.yaml", "-o", "diff"]
    with subprocess.Popen(command, stdout=theirs, cwd=ROOT, env={**base, "TERM": "xterm", **environment}) as run:
        os.close(theirs)
        text = written(ours)
    os.close(ours)

    assert 0 == run.returncode
    assert coloured == (b"\x1b[32m+" in text)
