"""What may command a terminal does not reach one: escapes, other controls, marks that turn text round."""

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.checkout import ACCEL, ROOT
from tests.support.command import POD, accel, written
from webhook.command import terminal
from webhook.manifest.style import Layout

NASTY = "\x1b[31m\x07\x9b2J\u202e\u2028\u2066\x7f\x00\U000e0001"
STYLE = re.compile(r"\x1b\[[0-9;]*m")  # what rich writes for a colour
QUOTED = Layout().scalar(NASTY)
TYPED = "    accel.io/type: tpu-v4-8\n"
ANNOTATED = POD.replace(TYPED, f"{TYPED}    accel.io/container: {QUOTED}\n    accel.io/{QUOTED[1:-1]}: x\n")
NAMED = POD.replace("name: jax-devices", f"name: {QUOTED}")
CONTAINER = POD.replace("name: jax\n", f"name: {QUOTED}\n")


def harmless(text: str) -> bool:
    """Whether there is nothing in it but text, line ends and colours."""
    return all(line.isprintable() for line in STYLE.sub("", text).replace("\r\n", "\n").split("\n"))


def on_a_terminal(*arguments: str, stdin: str = "") -> str:
    """All that a run of the program writes to a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    command = [ACCEL, *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs, cwd=ROOT, env=environment
    ) as run:
        os.close(theirs)
        assert run.stdin is not None
        run.stdin.write(stdin.encode())
        run.stdin.close()
        text = written(ours)
    os.close(ours)
    return text.decode()


@pytest.mark.parametrize("text", [ANNOTATED, NAMED, CONTAINER], ids=["annotations", "name", "container"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "-f", "-"),
        ("inject", "-f", "-"),
        ("inject", "-f", "-", "-o", "diff"),
        ("inject", "-f", "-", "-o", "json"),
    ],
    ids=" ".join,
)
def test_a_manifest_commands_no_terminal(arguments: tuple[str, ...], text: str) -> None:
    """Annotations, keys and names, in results, denials and warnings."""
    assert NASTY in str(yaml.safe_load(text)).encode().decode("unicode_escape")
    assert harmless(on_a_terminal(*arguments, stdin=text))
    assert harmless(accel(*arguments, stdin=text).err)


def test_characters_in_the_file_itself_are_shown_harmless_and_kept_in_a_pipe() -> None:
    """YAML may have these as they are, in comments too; a diff that `patch` reads must have them."""
    text = POD.replace("spec:\n", "spec: # \u202e\u2028  # \ue000\t\U000e0001\n")

    for output in ("yaml", "diff"):
        piped = accel("inject", "-f", "-", "-o", output, stdin=text)
        shown = on_a_terminal("inject", "-f", "-", "-o", output, stdin=text)
        assert "spec: # \u202e\u2028  # \ue000\t\U000e0001\n" in piped.out
        assert harmless(shown)
        assert "spec: # ??  # ?" in STYLE.sub("", shown)
    assert harmless(accel("explain", "-f", "-", stdin=text).out)


def test_a_diff_in_a_pipe_is_a_patch(tmp_path: Path) -> None:
    """Line ends of any kind, and a missing one at the end, come out as they went in."""
    for number, text in enumerate((POD, POD.replace("\n", "\r\n"), POD.rstrip("\n"), f"---\n{POD}---\n{POD}", NAMED)):
        file = tmp_path / f"{number}.yaml"
        file.write_bytes(text.encode())
        wanted = accel("inject", "-f", str(file)).out
        patch = accel("inject", "-f", str(file), "-o", "diff").out
        subprocess.run(["patch", "--binary", "-s", str(file)], input=patch.encode(), check=True)
        assert wanted.encode() == file.read_bytes()


def test_json_has_nothing_that_commands_a_terminal() -> None:
    """In a pipe too, since a log is often the end of one; the value is the same."""
    done = accel("inject", "-f", "-", "-o", "json", stdin=NAMED)

    assert NASTY == json.loads(done.out)["metadata"]["name"]
    assert harmless(done.out)


def test_names_of_files_command_no_terminal(tmp_path: Path) -> None:
    """In warnings, errors and the head of a diff; and they begin no line."""
    name = NASTY.replace("\x00", "").replace("/", "") + "\nwarning: forged"
    (tmp_path / f"{name}.yaml").write_text(POD.replace("tpu-v4-8", "tpu-v4-16"))
    (tmp_path / f"{name}.bad").write_text("a: [")
    (tmp_path / name).mkdir()

    for arguments in (
        ("inject", "-f", str(tmp_path)),
        ("inject", "-f", str(tmp_path), "-o", "diff"),
        ("inject", "-f", str(tmp_path / f"{name}.bad")),
        ("inject", "-f", str(tmp_path / f"{name}.absent")),
        ("inject", "-f", str(tmp_path / name)),
        ("explain", "-f", str(tmp_path / f"{name}.bad")),
        ("config", "check", str(tmp_path / f"{name}.bad")),
        ("config", "check", str(tmp_path / f"{name}.absent")),
        ("inject", "-f", "examples/pod.yaml", "--config", str(tmp_path / f"{name}.bad")),
        ("catalogue", name),
        ("explain", name),
    ):
        done = accel(*arguments)
        assert harmless(done.err)
        assert harmless(done.out)
        assert "\nwarning: forged" not in f"\n{done.err}\n{done.out}"
        assert harmless(on_a_terminal(*arguments))


def test_a_site_config_commands_no_terminal(tmp_path: Path) -> None:
    """What an admin wrote is shown, as YAML that means the same."""
    file = tmp_path / "site.yaml"
    file.write_text(
        f"placements: {{a: {{annotations: {{note: {QUOTED}}}}}}}\n"
        f"hostProfiles: {{p: {{types: [{QUOTED}], namespaces: [x]}}}}\n"
    )

    checked = accel("config", "check", str(file))
    shown = accel("config", "show", "--config", str(file))

    assert (0, True, True) == (checked.code, harmless(checked.err), "matches no accelerator type" in checked.err)
    assert harmless(shown.out)
    assert NASTY == yaml.safe_load(shown.out)["placements"]["a"]["annotations"]["note"]
    assert harmless(on_a_terminal("config", "show", "--config", str(file)))
    assert harmless(on_a_terminal("config", "check", str(file)))


def test_the_demo_shows_a_manifest_harmless(tmp_path: Path) -> None:
    """What the webhook answered and what the file has, on a terminal and in a pipe."""
    file = tmp_path / "x.yaml"
    file.write_text(f"# \u202e\n{ANNOTATED}---\n{NAMED}---\n{CONTAINER}")

    assert harmless(accel("demo", "-f", str(file)).out)
    assert harmless(on_a_terminal("demo", "-f", str(file)))


@pytest.mark.parametrize("text", ["", "a", "é\t\n", "a\r\nb\r\n", "\r", "\x1b[0m", "a\u2028b\n\x0b", "\x85"])
def test_harmless_text(text: str) -> None:
    """Text without controls stays as it is, but for tabs and returns."""
    shown = terminal.harmless(text)

    assert shown.replace("\n", "").isprintable()
    assert shown.count("\n") == text.count("\n")
    if text.replace("\n", "").isprintable():
        assert shown == text


def test_what_is_said_of_an_object_is_one_line_a_sentence() -> None:
    """A newline in a value begins no line of its own in `explain`."""
    text = POD.replace("tpu-v4-8", 'tpu-v4-8\n    accel.io/queue: "a\\nJob/forged  injected"')

    assert "queue: a?Job/forged  injected\n" in accel("explain", "-f", "-", stdin=text).out
