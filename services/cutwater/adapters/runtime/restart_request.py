"""Requests of watch to the supervisor of `cutwater up`: files in the data folder, one for each process.

A file is written whole or not at all, and is removed by the supervisor once it has been read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

FOLDER = "requests"
MAY_CHANGE = frozenset({"CUTWATER_TRIGGER_MS"})
"""The settings that a request may give to the process; others are ignored."""
REQUESTS_MAX = 20
_BYTES_MAX = 10_000


@dataclass(frozen=True)
class RestartRequest:
    """Restart one process."""

    process: str
    """`driver`, `commit-signal`, `publisher` or `rehydrator`."""
    generation: str
    """The one that it works for."""
    why: str
    at_ms: int
    env: Mapping[str, str] = field(default_factory=dict)
    """Settings for this and later starts."""


def write_request(data_dir: Path, request: RestartRequest) -> None:
    """Write a request; a newer one for a process replaces the one before. Raises OSError."""
    folder = data_dir / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = folder / f"{request.process}.tmp"
    temporary.write_text(json.dumps(asdict(request)) + "\n", encoding="utf-8")
    temporary.replace(folder / f"{request.process}.json")


def take_requests(data_dir: Path) -> list[RestartRequest]:
    """Return the requests, and remove them. What is none is removed, too."""
    found = []
    for path in sorted((data_dir / FOLDER).glob("*.json"))[:REQUESTS_MAX]:
        with suppress(OSError):  # another time
            text = path.read_bytes()[:_BYTES_MAX]
            path.unlink()
            if (request := _parsed(text)) is not None:
                found.append(request)
    return found


def _parsed(text: bytes) -> RestartRequest | None:
    try:
        plain = json.loads(text)
        env = {str(name): str(value) for name, value in plain.pop("env").items() if name in MAY_CHANGE}
        made = RestartRequest(**plain, env=env)
        return made if all(isinstance(one, str) for one in (made.process, made.generation, made.why)) else None
    except (ValueError, TypeError, AttributeError, KeyError):
        return None
