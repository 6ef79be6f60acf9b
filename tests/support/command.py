"""The installed command, run as in a pipe or on a terminal."""

import os
import subprocess
from typing import NamedTuple

from tests.support.checkout import ACCEL, ROOT

POD = (ROOT / "examples" / "pod.yaml").read_text()


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def accel(*arguments: str, stdin: str = "", program: str = ACCEL, **environment: str) -> Done:
    """One run of the real program, as in a pipe."""
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
    """All that is written to the other side of a terminal until it is closed."""
    text = b""
    while chunk := _chunk(terminal):
        text += chunk
    return text


def _chunk(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux reports the other side's end as an error
        return b""
