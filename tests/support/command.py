"""The installed command `accel`, run in a pipe or on a terminal."""

import os
import subprocess
from typing import NamedTuple

from tests.support.checkout import ACCEL, ROOT

POD = (ROOT / "examples" / "pod.yaml").read_text()


class Done(NamedTuple):
    """The result of a command."""

    code: int
    out: str
    err: str


def accel(*arguments: str, stdin: str = "", program: str = ACCEL, **environment: str) -> Done:
    """Runs the real program, without a terminal."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ACCEL_", "FORCE_COLOR"))}
    run = subprocess.run(
        [program, *arguments],
        input=stdin.encode(),
        capture_output=True,
        cwd=ROOT,
        env={**clean, **environment},
        timeout=120,
    )
    return Done(run.returncode, run.stdout.decode(), run.stderr.decode())


def written(terminal: int) -> bytes:
    """Everything that is written to a terminal until it is closed, read from its other side."""
    text = b""
    while chunk := _chunk(terminal):
        text += chunk
    return text


def _chunk(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # on Linux, reading fails when the other side is closed
        return b""
