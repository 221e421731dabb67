"""The folders of views: those of earlier generations, and those preloaded for a candidate.

A generation that another one replaced never becomes active again, since a rollback is a new generation with its
own changelog. Its view is shown until the next generation's view is complete, and never after that.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from cutwater.adapters.runtime.crash_points import reach
from cutwater.core.errors import UsageError
from cutwater.core.protocol.generation import Generation
from cutwater.views.store.table import locked

_AHEAD = ".ahead"


def folder_of(data_dir: Path, job: str, generation: Generation) -> Path:
    """Return the folder of the view of a job's generation."""
    return data_dir / "views" / job / str(generation)


def loading_folder(folder: Path) -> Path:
    """Return the folder of row files that wait to be ingested into this store."""
    return folder.with_name(f"{folder.name}.loading")


def restoring_folder(folder: Path) -> Path:
    """Return the folder in which the files of a snapshot for this store are collected."""
    return folder.with_name(f"{folder.name}.restoring")


def earlier(folder: Path) -> list[Path]:
    """Return the views of earlier generations beside `folder`, newest first."""
    own = Generation.parse(folder.name)
    found = sorted(generations_in(folder.parent), reverse=True)
    return [folder.with_name(str(one)) for one in found if one.number < own.number]


def remove_earlier(folder: Path) -> list[str]:
    """Delete the earlier views and their files; return their names. An open view stays. Raises OSError."""
    own, removed = Generation.parse(folder.name), []
    for generation in _named(folder.parent):
        if generation.number < own.number:
            with suppress(BlockingIOError):
                _remove(folder.with_name(str(generation)))
                removed.append(str(generation))
    return removed


def generations_in(folder: Path) -> set[Generation]:
    """Return the generations with a view in the folder of a job."""
    return {one for one in _named(folder) if (folder / str(one)).is_dir()}


def remove_view(folder: Path) -> None:
    """Delete a view with its files and checkpoints. Raises BlockingIOError if it is open; OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove(folder)


def _named(folder: Path) -> set[Generation]:
    """Return the generations that have a view or any file named after one, such as checkpoints."""
    found = set()
    for path in folder.iterdir() if folder.is_dir() else ():
        with suppress(UsageError):
            found.add(Generation.parse(path.name.partition(".")[0]))
    return found


def preload_folder(folder: Path) -> Path:
    """Return the folder of a candidate's preloaded rows. The folder of its view may already be shown."""
    return folder.with_name(f"{folder.name}{_AHEAD}")


def adopt_preload(folder: Path) -> bool:
    """Rename the preloaded folder to the view's, if only the preloaded one exists; return whether it was."""
    ahead = preload_folder(folder)
    if folder.exists() or not ahead.is_dir():
        return False
    with suppress(OSError), locked(_lock_of(ahead)):  # open, or the rename failed: the view is built without it
        ahead.rename(folder)
        shutil.rmtree(loading_folder(ahead), ignore_errors=True)  # left by a load that was killed
        _lock_of(ahead).unlink()
        return True
    return False


def remove_preload(folder: Path) -> None:
    """Delete the preloaded rows of one view. Raises OSError, also if they are open."""
    ahead = preload_folder(folder)
    if ahead.is_dir() or _lock_of(ahead).exists():
        _remove(ahead)


def remove_ahead(folder: Path, keep: Generation | None) -> list[str]:
    """Delete preloaded rows beside a view's folder, except those of `keep`; return the names. An open folder
    stays. Raises OSError."""
    removed = []
    # Includes their files: a killed process may have left only those.
    for name in sorted({path.name.partition(_AHEAD)[0] for path in folder.parent.glob(f"*{_AHEAD}*")}):
        if name != str(keep):
            with suppress(BlockingIOError):
                _remove(folder.with_name(f"{name}{_AHEAD}"))
                removed.append(name)
    return removed


def _lock_of(place: Path) -> Path:
    return place.with_name(f"{place.name}.lock")


def _remove(place: Path) -> None:
    """Rename the folder first, so that an incomplete one is not taken for a view. The lock goes last."""
    lock = _lock_of(place)
    with locked(lock):
        if place.is_dir():
            aside = place.with_name(f"{place.name}.removing")
            shutil.rmtree(aside, ignore_errors=True)
            place.rename(aside)
            reach("generation-set-aside")
        for path in place.parent.glob(f"{place.name}.*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path != lock:
                path.unlink(missing_ok=True)  # files of preloaded rows
        lock.unlink(missing_ok=True)
