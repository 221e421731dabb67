"""What this machine lacks for `make test-all`, and how many tests that costs: said before they begin.

With several workers pytest itself knows it only at the end.
"""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import pytest


def main() -> int:
    """Print a line for each missing tool; nothing if all are here."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = pytest.main(["--collect-only", "--quiet", "-p", "no:warnings", str(Path(__file__).parent)])
    lines = output.getvalue().splitlines()
    if code:
        print("\n".join(lines[-20:]))
    lacking = dict.fromkeys(line for line in lines if line.startswith("not here: "))
    print("\n".join(lacking) or "every tool that tests need is here")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
