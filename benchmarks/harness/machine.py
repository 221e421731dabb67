"""The machine that a benchmark ran on, and what it must have."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil

from cutwater.core.errors import MachineError


def describe() -> dict[str, Any]:
    """What a reader needs in order to compare figures. `load_before`: what else ran when it began."""
    return {
        "cores": psutil.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1024**3),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load_before": round(psutil.getloadavg()[0], 1),
    }


def require_compiler(java: Path) -> None:
    """Raise MachineError unless this Java can run a source file, as the peers' programs need."""
    try:
        listed = subprocess.run([java, "--list-modules"], capture_output=True, text=True, timeout=30, check=False)
        modules = listed.stdout
    except subprocess.TimeoutExpired:
        modules = ""
    if "jdk.compiler" not in modules:
        raise MachineError(
            f"{java} is a Java runtime without compiler, and the Kafka Streams program is compiled here: install "
            f"a JDK, for example 'apt-get install openjdk-17-jdk-headless', or leave it out (--contenders)"
        )
