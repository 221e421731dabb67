"""Checks free disk space before a start, so that a full disk gives an error message and no stack trace."""

from __future__ import annotations

import shutil
from pathlib import Path

from cutwater.core.errors import MachineError

FREE_BYTES_MIN = 256 * 1024 * 1024
FOLDER_MODE = 0o770
"""Access for the group; the umask may restrict it."""


def require_room(folder: Path, owner: str, free_bytes_min: int = FREE_BYTES_MIN) -> None:
    """Create the folder if needed, without access for others. Raise MachineError unless it has this much space."""
    try:
        folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        probe = folder / ".probe"
        probe.write_bytes(b"x")
        probe.unlink()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise folder_error(folder, owner, error) from error
    if free < free_bytes_min:
        raise MachineError(
            f"The disk of {folder} has {free // 1024**2} MB free and {owner} needs at least "
            f"{free_bytes_min // 1024**2} MB: free some space, or choose another data folder"
        )


def folder_error(folder: Path, owner: str, error: OSError) -> MachineError:
    return MachineError(
        f"The data folder {folder} of {owner} cannot be used: {error.strerror or error}. "
        f"Make it writable or free some space, or choose another data folder"
    )
