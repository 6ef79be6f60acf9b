"""The core as in the image: compiled by mypyc in build/compiled, and used to run a command.

    python -m tests.support.compiled -m pytest tests/core/test_laws.py
    python -m tests.support.compiled -m benchmarks --quick

In `build/compiled` the two packages are copies, compiled in place; everything else is a symbolic link to the checkout.
Nothing is compiled in the checkout itself, where an edit must take effect at once.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.support.checkout import ROOT

PLACE = ROOT / "build" / "compiled"
COPIED = ("webhook", "certs")
LINKED = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Makefile",
    "README.md",
    "benchmarks",
    "charts",
    "docs",
    "examples",
    "pyproject.toml",
    "setup.py",
    "tests",
)


def missing() -> str:
    """Why nothing can be compiled here; empty if it can."""
    if shutil.which(os.environ.get("CC", "cc")) is None:
        return "no C compiler (cc)"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "Python's headers (Python.h) are not installed"
    return ""


def sources() -> list[Path]:
    """The files that determine the result of the build."""
    found = [path for name in COPIED for path in (ROOT / name).rglob("*") if path.is_file()]
    return sorted([ROOT / "setup.py", *(path for path in found if "__pycache__" not in path.parts)])


def build() -> None:
    """Create `build/compiled`, unless it is up to date. SystemExit with the compiler's output if that fails."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sources():
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    stamp = PLACE / ".built"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    print("compiling the core with mypyc: about a minute", file=sys.stderr, flush=True)
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    for name in LINKED:
        (PLACE / name).symlink_to(ROOT / name)
    for name in COPIED:
        shutil.copytree(ROOT / name, PLACE / name, ignore=shutil.ignore_patterns("__pycache__"))
    if error := in_place(PLACE):
        raise SystemExit(f"the core does not compile:\n{error}")
    stamp.write_text(digest.hexdigest())


def in_place(root: Path) -> str:
    """Compile the core of the tree in this folder, in place. Returns the error output; empty on success."""
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    environment = {**os.environ, "ACCEL_COMPILE": "1", "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"{done.stdout[-2000:]}{done.stderr[-4000:]}" or "without any output"


def main() -> int:
    """Run Python with these arguments on the compiled core, if it can be compiled. Returns the exit code."""
    if why := missing():
        print(f"running without a compiled core: {why}", file=sys.stderr)
        return subprocess.run([sys.executable, *sys.argv[1:]], cwd=ROOT, check=False).returncode
    build()
    path = os.pathsep.join(filter(None, [str(PLACE), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "ACCEL_COMPILED": "1"}
    return subprocess.run([sys.executable, *sys.argv[1:]], cwd=PLACE, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
