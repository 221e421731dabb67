"""The project of examples/testing, run as its users run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples/testing"  # conftest.py, test_orders.py


def run_pytest(*arguments: str, folder: Path = EXAMPLE) -> subprocess.CompletedProcess[str]:
    """pytest in a process of its own, which the plugin is part of because the package is installed."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "--rootdir",
        str(folder),
    ]
    return subprocess.run(
        [*command, *arguments, str(folder)], capture_output=True, text=True, timeout=400, check=False
    )
