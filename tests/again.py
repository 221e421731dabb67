"""python tests/again.py: what failed in the last run, once more, with the machine to itself.

A test of real brokers can be late where several processes share two cores. Such a one is named, and has one more
chance. More than two at once are no accident. What fails alone is wrong.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST = 2
FAILED, ALL_RAN = 1, "1"
"""pytest's code where tests have failed, and all have run. Anything else was no run of all."""


def failed() -> list[str]:
    """Of the last run."""
    found = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
    return list(json.loads(found.read_text(encoding="utf-8"))) if found.exists() else []


def main() -> int:
    code = ROOT / "build" / "test.code"
    if not code.exists() or code.read_text(encoding="utf-8").strip() != ALL_RAN:
        return FAILED
    names = failed()
    print(f"failed at first: {' '.join(names)}", flush=True)
    if not 1 <= len(names) <= MOST:
        return FAILED
    asked = [sys.executable, "-m", "pytest", "--timeout=1200", *names]
    return subprocess.run(asked, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
