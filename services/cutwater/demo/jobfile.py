"""The demonstration's job file with another lateness."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from cutwater.adapters.jobfile import parse_duration
from cutwater.core.errors import UsageError

_LATENESS = re.compile(r"^lateness:.*$", re.MULTILINE)


def with_lateness(job_file: Path, lateness: str, folder: Path) -> Path:
    """A copy of the job file in `folder`, with schemas that lie beside it, that differs in its lateness only.

    Raises UsageError when `lateness` is no duration or the job file has no line for it.
    """
    try:
        parse_duration(lateness)
    except ValueError as error:
        raise UsageError(f"--lateness: {error}") from None
    text, changed = _LATENESS.subn(f"lateness: {lateness}", job_file.read_text(encoding="utf-8"))
    if changed != 1:
        raise UsageError(f"{job_file}: it has {changed} lines 'lateness: …', and --lateness changes one")
    # By this folder a later run knows that it may empty the data folder.
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    for schema in job_file.parent.glob("*.avsc"):
        shutil.copy(schema, folder)
    copy = folder / job_file.name
    copy.write_text(text, encoding="utf-8")
    return copy
