"""The machine that a benchmark ran on."""

from __future__ import annotations

import platform
from typing import Any

import psutil


def describe() -> dict[str, Any]:
    """What a reader needs in order to compare figures. `load_before`: what else ran when it began."""
    return {
        "cores": psutil.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1024**3),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load_before": round(psutil.getloadavg()[0], 1),
    }
