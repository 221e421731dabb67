"""The project of examples/testing, run as its users run it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples/testing"  # conftest.py, test_orders.py


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
    running = subprocess.Popen(
        [*command, *arguments, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        output, _ = running.communicate(timeout=400)
    except subprocess.TimeoutExpired:
        running.send_signal(signal.SIGINT)  # so that it ends what it has started
        output, _ = running.communicate(timeout=60)
    finally:
        running.kill()
    return subprocess.CompletedProcess(command, running.returncode, output)
