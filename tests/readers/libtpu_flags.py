"""The flags that libtpu derives from an environment: it logs them when it is initialized, with chips or without.

A question is the environment; the answer has flags without their dashes. Each takes a process that may end badly, since
there are no chips.
"""

import ctypes
import json
import os
import re
import subprocess
import sys

SECONDS = 60
LOUD = {"TPU_STDERR_LOG_LEVEL": "0", "TPU_MIN_LOG_LEVEL": "0"}
FLAG = re.compile(r"argv\[\d+\]: '--([a-z_]+)=([^']*)'")


def main() -> None:
    """Ask one process for each environment."""
    answers = []
    for environment in json.load(sys.stdin):
        command = [sys.executable, __file__, "process"]
        done = subprocess.run(
            command, env={**environment, **LOUD}, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        answers.append(dict(FLAG.findall(done.stderr)))
    json.dump(answers, sys.stdout)


def process() -> None:
    """Initialize it, and leave without its exit handlers."""
    import libtpu

    library = ctypes.CDLL(libtpu.get_library_path())
    library.TfTpu_Initialize(ctypes.c_bool(True), 0, None)
    os._exit(0)


if sys.argv[1:] == ["process"]:
    process()
else:
    main()
