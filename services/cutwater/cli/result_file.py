"""The file that a long command writes at its end: its place is checked before the command begins."""

from __future__ import annotations

import os
from pathlib import Path

from cutwater.core.errors import MachineError, UsageError


def require_place(path: Path, option: str) -> None:
    """Raise UsageError if `path` is a folder, or its folder is not there or not writable."""
    folder = path.parent
    if path.is_dir():
        why = f"{path} is a folder: name a file"
    elif not folder.is_dir():
        why = f"the folder {folder} does not exist: create it, or name another file"
    elif not os.access(path if path.exists() else folder, os.W_OK):
        why = f"{path} is not writable for this user: name another file"
    else:
        return
    raise UsageError(f"{option}: {why}")


def write_result(path: Path, text: str) -> None:
    """Write in UTF-8. Raises MachineError, as for a full disk."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise MachineError(f"{path} cannot be written: {error.strerror or error}") from None
