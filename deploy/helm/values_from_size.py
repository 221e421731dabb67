"""Turn the figures of `cutwater size` into values of the chart.

    cutwater size JOB_FILE --events-per-second 5000 --keys 3000 --json | python deploy/helm/values_from_size.py

Limits of memory are a quarter above the requests. CPU has none: an epoch that is throttled is late.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any

import yaml

ROOM = 1.25
"""What `size` does not count: Python beside the JVM, a page cache, a volume's own files."""
GIB, MIB = 1 << 30, 1 << 20
DISK_MIN_GIB = 1
HEAP_SHARE = 0.75
"""Of the driver's memory that is the JVM's heap; the rest is Spark's state and Python."""


def memory(gigabytes: float) -> dict[str, str]:
    """Return request and limit for a figure in GB."""
    mib = math.ceil(gigabytes * 1e9 / MIB / 64) * 64
    return {"request": f"{mib}Mi", "limit": f"{math.ceil(mib * ROOM / 64) * 64}Mi"}


def disk(gigabytes: float) -> str:
    return f"{max(DISK_MIN_GIB, math.ceil(gigabytes * 1e9 * ROOM / GIB))}Gi"


def resources(cpu: str, gigabytes: float) -> dict[str, Any]:
    bounds = memory(gigabytes)
    return {"requests": {"cpu": cpu, "memory": bounds["request"]}, "limits": {"memory": bounds["limit"]}}


def values_of(figures: Mapping[str, float]) -> dict[str, Any]:
    """Return the values for one job."""
    cores = int(figures["driver_cores"])
    # The figure is of a heap of 1 GB; an epoch's events are on the heap as well.
    driver_gb = figures["driver_memory_gb"] * ROOM
    heap = max(1024, math.floor(figures["driver_memory_gb"] * 1e9 * HEAP_SHARE / MIB))
    return {
        "driver": {
            "spark": {"cores": cores, "memory": f"{heap}m"},
            "resources": resources(str(cores), driver_gb),
            "storage": {"size": disk(figures["driver_disk_gb"])},
        },
        "rehydrator": {
            "owners": int(figures["rehydrators"]),
            "resources": resources("500m", figures["rehydrator_memory_gb"]),
            "storage": {"size": disk(figures["rehydrator_disk_gb"])},
        },
        "snapshots": {"everySeconds": int(figures["snapshot_interval_s"])},
    }


def main() -> None:
    told = json.load(sys.stdin)
    figures = {one["name"]: one["value"] for one in told["figures"]}
    print(f"# From `cutwater size` for the job {told['job']}. Its job file needs at least these numbers:")
    for name in ("changelog_partitions", "shuffle_partitions"):
        print(f"#   {name}: {figures[name]:g}")
    for warning in told.get("warnings", ()):
        print(f"# warning: {warning}")
    print(yaml.safe_dump({"jobs": {told["job"]: values_of(figures)}}, sort_keys=False), end="")


if __name__ == "__main__":
    main()
