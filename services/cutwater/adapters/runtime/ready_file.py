"""The file by which a driver tells the stack on its machine that its query has started."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from cutwater.core.protocol.generation import Generation


def ready_file(data_dir: Path, job: str, generation: Generation) -> Path:
    return data_dir / "ready" / f"driver-{job}-{generation}"


def mark_ready(path: Path) -> None:
    """Create the file, or renew its time. A driver without a stack needs no such file, so no error is raised."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def is_ready_since(path: Path, since_ms: int) -> bool:
    try:
        return path.stat().st_mtime_ns // 1_000_000 >= since_ms
    except OSError:
        return False
