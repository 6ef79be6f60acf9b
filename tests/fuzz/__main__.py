"""As many hostile inputs as one likes: `python -m tests.fuzz reviews|manifests|configs [COUNT [SEED]]`."""

import sys
import time
from importlib import import_module


def main(what: str, count: str = "20000", seed: str = "") -> int:
    """The exit code: 1 where anything went wrong. Another seed each time, and printed, unless one is given."""
    wrong = import_module(f"tests.fuzz.{what}").run(int(count), int(seed or time.time()))
    for problem in wrong[:20]:
        print(problem)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
