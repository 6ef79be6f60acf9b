"""`make bench`: accel-injector beside its peers, in one run on one machine.

    python -m benchmarks [--quick] [--level LEVEL ... | --against REF] [--json FILE]

A full run takes about twelve minutes and builds the control plane when it is not cached. --quick: `admit` in process
and TLS with 16 connections, in about a minute, without a control plane. --against: no peers, but this tree beside that
of another commit, by turns: processor time of `admit` and of a call over TLS, and memory, in about three minutes and
one build; with --quick, in one.
"""

import argparse
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import against, machine, report, run
from benchmarks.load import Failed
from benchmarks.programs import BuildError, version
from benchmarks.sameness import Different
from tests.cluster.process import ClusterError

RESULTS = Path(__file__).parent / "results"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="accel-injector beside its peers")
    parser.add_argument("--quick", action="store_true", help="in process and TLS with 16 connections: a minute")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--level", action="append", choices=list(run.LEVELS), help="only this; may be repeated")
    what.add_argument("--against", metavar="REF", help="this tree beside that of a commit, instead of peers")
    parser.add_argument("--json", type=Path, help="where the figures go (default: benchmarks/results/<time>.json)")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    date = datetime.now(UTC).isoformat(timespec="seconds")
    about = {**machine.description(), "date": date, "peer": version()}
    report.say(
        f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}, Python {about['python']}, "
        f"core: {about['core']}, {about['date']}"
    )
    if os.cpu_count() == 1:
        report.say("one core: servers and load share it, and nothing here means much")
    began = time.monotonic()
    try:
        found = trees(given) if given.against else peers(given)
    except (Failed, Different, BuildError, ClusterError, against.NoFigures) as error:
        print(f"benchmark stopped: {error}", file=sys.stderr)
        return 1
    path = given.json or RESULTS / f"{date.replace(':', '')}.json"
    report.write(path, {"machine": about, **found})
    report.say(f"{time.monotonic() - began:.0f} s; every round is in {path}")
    return 0


def peers(given: argparse.Namespace) -> dict[str, Any]:
    """The levels of a run, and the targets; what is kept of it."""
    levels = tuple(given.level or (run.QUICK if given.quick else run.LEVELS))
    found = run.run(levels, given.quick)
    report.verdicts(found.measured)
    return {"levels": levels, "figures": found.found, "targets": found.measured}


def trees(given: argparse.Namespace) -> dict[str, Any]:
    """This tree beside another; what is kept of it."""
    old, new = against.compare(given.against, against.QUICK_ROUNDS if given.quick else against.ROUNDS)
    against.show(old, new)
    return {"old": old, "new": new}


if __name__ == "__main__":
    sys.exit(main())
