"""The demonstration's job file with another lateness."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from cutwater.adapters.job_files.loader import parse_duration
from cutwater.core.errors import UsageError

EVENTS_PER_EPOCH = 300
"""About four hours of flights. An epoch drops events by the previous epoch's watermark: with days in an epoch
almost no event would be late."""


def with_lateness(job_file: Path, lateness: str, folder: Path) -> Path:
    """Copy the job file and its schemas to `folder`, with another lateness and small epochs. Raise UsageError if
    `lateness` is not a duration, or the job file does not have each field on one line."""
    try:
        parse_duration(lateness)
    except ValueError as error:
        raise UsageError(f"--lateness: {error}") from None
    text = job_file.read_text(encoding="utf-8")
    for field, value in (("lateness", lateness), ("max_events_per_epoch", EVENTS_PER_EPOCH)):
        text, changed = re.subn(rf"^{field}:.*$", f"{field}: {value}", text, flags=re.MULTILINE)
        if changed != 1:
            raise UsageError(f"{job_file}: it has {changed} lines '{field}: …', but --lateness needs exactly one")
    folder.mkdir(parents=True, exist_ok=True)
    for schema in job_file.parent.glob("*.avsc"):
        shutil.copy(schema, folder)
    copy = folder / job_file.name
    copy.write_text(text, encoding="utf-8")
    return copy
