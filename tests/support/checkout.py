"""Paths in this checkout that tests use."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ACCEL = str(Path(sys.executable).with_name("accel"))
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.yaml") if path.stem != "site")
