"""This tree and that of another commit, measured in alternating rounds: `make bench ARGS="--against REF"`.

The other tree may have other packages and other benchmarks, so the measurement depends on little of it: where `admit`
is (probe.py), and `accel serve` with its options and certificates. Each round starts new processes, since the memory
layout of a process alone can change a result by a percent. The dependencies are this checkout's.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import load, machine, programs, report, reviews
from benchmarks.sample import Figure, ratios
from benchmarks.servers import Servers
from tests.cluster.process import ClusterError
from tests.cluster.tinyca import TinyCA
from tests.support import compiled

HERE = Path(__file__).parents[1]
PROBE = Path(__file__).with_name("probe.py")
ROUNDS, QUICK_ROUNDS = 11, 3
BATCHES = 15
CONNECTIONS, CALLS = 16, 20_000
CALL, RESIDENT = "serve: us of CPU per call over TLS", "serve: resident MiB afterwards"


class NoFigures(Exception):
    """A tree cannot be measured: there is no such commit, or it cannot be built or run."""


@dataclass
class Tree:
    """One of the two trees: the folder of its packages, and its figures."""

    name: str
    root: Path
    figures: dict[str, Figure] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)  # bytes of the response to each review

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which Python imports the tree's packages before all others."""
        return {**os.environ, "PYTHONPATH": str(self.root)}

    def add(self, name: str, unit: str, value: float, others: float) -> None:
        self.figures.setdefault(name, Figure(unit)).add(value, others)


def compare(ref: str, rounds: int) -> tuple[Tree, Tree]:
    """The other tree and this one, with their figures. The other one's files are temporary."""
    with tempfile.TemporaryDirectory(prefix="accel-against-") as scratch:
        directory = Path(scratch)
        name = check_out(ref, directory / "tree")
        old, new = Tree(name, directory / "tree"), Tree("this tree", HERE)
        if is_compiled(new):
            build(old)
        programs.ensure("load")
        bodies = {name: directory / f"{name}.json" for name in reviews.NAMES}
        for name, file in bodies.items():
            file.write_bytes(reviews.load(name))
        with Servers(directory / "servers", TinyCA()) as servers:
            for number in range(rounds):
                turn = machine.turn(number, (old, new))
                for tree in turn:
                    admit(tree, bodies)
                for tree in turn:
                    serve(tree, bodies["jobset-pod"], servers)
    return old, new


def check_out(ref: str, directory: Path, repository: Path = HERE) -> str:
    """Write a commit's files, without a git worktree: nothing is left in the repository. Returns its name."""
    top = Path(git(repository, "rev-parse", "--show-toplevel").decode().strip())
    with tarfile.open(fileobj=io.BytesIO(git(top, "archive", "--format=tar", ref))) as files:
        files.extractall(directory, filter="data")
    commit = git(top, "rev-parse", "--short", ref).decode().strip()
    return ref if ref.startswith(commit) else f"{ref}, {commit}"


def git(directory: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=directory, capture_output=True, check=False)
    if done.returncode != 0:
        raise NoFigures(f"git {' '.join(arguments)}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def build(tree: Tree) -> None:
    """Compile its core like that of this tree."""
    report.say(f"compiling the core of {tree.name}: about a minute")
    if error := compiled.in_place(tree.root):
        raise NoFigures(f"{tree.name} does not compile:\n{error}")
    if not is_compiled(tree):
        raise NoFigures(
            f"{tree.name} has no compiled core; to compare both as Python: .venv/bin/python -m benchmarks --against"
        )


def is_compiled(tree: Tree) -> bool:
    return not probe(tree, {}, batches=0)["file"].endswith(".py")


def admit(tree: Tree, bodies: dict[str, Path], batches: int = BATCHES) -> None:
    """Measure `admit` on every review, in a new process."""
    with machine.Watch() as watch:
        found = probe(tree, bodies, batches)
        watch.own = found["cpu_seconds"]
    tree.lengths = found["lengths"]
    for name, value in found["microseconds"].items():
        tree.add(f"admit, us: {name}", "us", value, watch.others)


def probe(tree: Tree, bodies: dict[str, Path], batches: int) -> dict[str, Any]:
    files = [f"{name}={file}" for name, file in bodies.items()]
    command = [sys.executable, "-P", str(PROBE), str(batches), *files]
    with machine.pinned(machine.cores()[0]):
        done = subprocess.run(command, env=tree.environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoFigures(f"`admit` of {tree.name} cannot be measured:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    if not Path(found["file"]).is_relative_to(tree.root):
        raise NoFigures(
            f"{tree.name} has no `admit` of its own: {found['file']} was imported, which is this checkout's"
        )
    return found


def serve(tree: Tree, body: Path, servers: Servers) -> None:
    """Measure a new server under load."""
    server_core, core = machine.cores()
    try:
        server = servers.start("accel", server_core, tree.environment)
        # The load generator does not busy-poll at idle priority here: on a busy machine it would hardly ever run, and
        # latency is not measured.
        with machine.pinned(core):
            result = load.run(server, load.Load(body, CONNECTIONS, calls=CALLS))
    except (ClusterError, load.Failed) as error:
        raise NoFigures(f"`accel serve` of {tree.name}: {error}") from None
    tree.add(CALL, "us", result.server_cpu, result.others)
    tree.add(RESIDENT, "MiB", machine.rss(server.process.pid), 0.0)
    servers.stop(server)


def show(old: Tree, new: Tree) -> None:
    """Print the table, and why the two may not be comparable."""
    lines = {name: (was, new.figures[name], ratios(new.figures[name], was)) for name, was in old.figures.items()}
    report.rows(f"{old.name} and this tree", [old.name, new.name, "ratio"], lines)
    for name, length in old.lengths.items():
        if new.lengths[name] != length:
            report.say(f"different work: the response to {name} had {length:,} bytes and now has {new.lengths[name]:,}")
    if any(figure.noisy for tree in (old, new) for figure in tree.figures.values()):
        report.say(report.NOISY)
