"""`make bench`: accel-injector and its peers, measured in one run on one machine.

    python -m benchmarks [--quick] [--level LEVEL ... | --against REF] [--json FILE]

A full run takes about twelve minutes and builds the control plane if it is not cached. --quick: `admit` in process and
TLS with 16 connections, in about a minute, without a control plane. --against: instead of peers, this tree and that of
another commit in alternating rounds: CPU time of `admit` and of a call over TLS, and memory. It takes about three
minutes, or one with --quick, and a build of the other tree.
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
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measures accel-injector and its peers.")
    parser.add_argument("--quick", action="store_true", help="only in process and TLS with 16 connections: a minute")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--level", action="append", choices=list(run.LEVELS), help="only this level; may be repeated")
    what.add_argument("--against", metavar="REF", help="compare this tree with that of a commit, instead of peers")
    parser.add_argument("--json", type=Path, help="output file (default: benchmarks/results/<time>.json)")
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
        report.say("only one core: servers and load share it, so the figures are not reliable")
    began = time.monotonic()
    try:
        found = trees(given) if given.against else peers(given)
    except (Failed, Different, BuildError, ClusterError, against.NoFigures) as error:
        print(f"benchmark aborted: {error}", file=sys.stderr)
        return 1
    path = given.json or RESULTS / f"{date.replace(':', '')}.json"
    report.write(path, {"machine": about, **found})
    report.say(f"{time.monotonic() - began:.0f} s; all rounds are in {path}")
    return 0


def peers(given: argparse.Namespace) -> dict[str, Any]:
    """Measures the levels of a run against the targets; returns what the JSON file keeps."""
    levels = tuple(given.level or (run.QUICK if given.quick else run.LEVELS))
    found = run.run(levels, given.quick)
    report.verdicts(found.measured)
    return {"levels": levels, "figures": found.found, "targets": found.measured}


def trees(given: argparse.Namespace) -> dict[str, Any]:
    """Compares this tree with another; returns what the JSON file keeps."""
    old, new = against.compare(given.against, against.QUICK_ROUNDS if given.quick else against.ROUNDS)
    against.show(old, new)
    return {"old": old, "new": new}


if __name__ == "__main__":
    sys.exit(main())
