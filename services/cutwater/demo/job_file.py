"""The demonstration's job file with another lateness."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from cutwater.adapters.job_files.loader import parse_duration
from cutwater.core.errors import UsageError

EVENTS_PER_EPOCH = 300
"""About four hours of flights: an epoch drops by the watermark of the one before, so with days in an epoch next to
nothing would be late."""


def with_lateness(job_file: Path, lateness: str, folder: Path) -> Path:
    """A copy of the job file in `folder`, beside its schemas, with another lateness and small epochs.

    Raises UsageError when `lateness` is no duration or the job file does not say both in a line of its own.
    """
    try:
        parse_duration(lateness)
    except ValueError as error:
        raise UsageError(f"--lateness: {error}") from None
    text = job_file.read_text(encoding="utf-8")
    for field, value in (("lateness", lateness), ("max_events_per_epoch", EVENTS_PER_EPOCH)):
        text, changed = re.subn(rf"^{field}:.*$", f"{field}: {value}", text, flags=re.MULTILINE)
        if changed != 1:
            raise UsageError(f"{job_file}: it has {changed} lines '{field}: …', and --lateness changes one")
    # By this folder a later run knows that it may empty the data folder.
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    for schema in job_file.parent.glob("*.avsc"):
        shutil.copy(schema, folder)
    copy = folder / job_file.name
    copy.write_text(text, encoding="utf-8")
    return copy
