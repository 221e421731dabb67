"""What the views of earlier generations have left on the disk: which of them can still be shown, and which go.

A generation that another one took over from never comes back: a rollback is a generation of its own, with a
changelog of its own. So its view serves until the next one's is whole, and nobody after that.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from cutwater.adapters.runtime.crash_points import reach
from cutwater.core.errors import UsageError
from cutwater.core.protocol.generation import Generation
from cutwater.views.store.store import loading_folder
from cutwater.views.store.table import locked

_AHEAD = ".ahead"


def earlier(folder: Path) -> list[Path]:
    """The views of generations before that of a view's folder which lie beside it, the newest first."""
    own = Generation.parse(folder.name)
    found = sorted(generations_in(folder.parent), reverse=True)
    return [folder.with_name(str(one)) for one in found if one.number < own.number]


def remove_earlier(folder: Path) -> list[str]:
    """Delete them, and whatever else lies there of them; their names. One that is open stays. Raises OSError."""
    own, removed = Generation.parse(folder.name), []
    for generation in _named(folder.parent):
        if generation.number < own.number:
            with suppress(BlockingIOError):
                _remove(folder.with_name(str(generation)))
                removed.append(str(generation))
    return removed


def generations_in(folder: Path) -> set[Generation]:
    """Those whose views lie in the folder of a job."""
    return {one for one in _named(folder) if (folder / str(one)).is_dir()}


def remove_view(folder: Path) -> None:
    """Delete a view and whatever belongs to it, its checkpoints too. BlockingIOError where it is open; OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove(folder)


def _named(folder: Path) -> set[Generation]:
    """Those of which there is a view, or a part that is named for it, as its checkpoints are."""
    found = set()
    for path in folder.iterdir() if folder.is_dir() else ():
        with suppress(UsageError):
            found.add(Generation.parse(path.name.partition(".")[0]))
    return found


def ahead_of(folder: Path) -> Path:
    """Where rows of a candidate lie before it is promoted: not in the folder of its view, which somebody shows."""
    return folder.with_name(f"{folder.name}{_AHEAD}")


def take_ahead(folder: Path) -> None:
    """Begin a view with what was loaded ahead of it, where that is there and nothing else is."""
    ahead = ahead_of(folder)
    if folder.exists() or not ahead.is_dir():
        return
    with suppress(OSError), locked(_lock_of(ahead)):  # open or not to be moved: the view is built without it
        ahead.rename(folder)
        shutil.rmtree(loading_folder(ahead), ignore_errors=True)  # of a load that was killed
        _lock_of(ahead).unlink()


def drop_ahead(folder: Path) -> None:
    """Delete what was loaded ahead of one view. Raises OSError, also where it is open."""
    ahead = ahead_of(folder)
    if ahead.is_dir() or _lock_of(ahead).exists():
        _remove(ahead)


def remove_ahead(folder: Path, keep: Generation | None) -> list[str]:
    """Delete what was loaded ahead of generations beside a view's folder, but of `keep`; their names.

    What is open stays. Raises OSError.
    """
    removed = []
    # What belongs to one, too: of itself a process that was killed may have left nothing else.
    for name in sorted({path.name.partition(_AHEAD)[0] for path in folder.parent.glob(f"*{_AHEAD}*")}):
        if name != str(keep):
            with suppress(BlockingIOError):
                _remove(folder.with_name(f"{name}{_AHEAD}"))
                removed.append(name)
    return removed


def _lock_of(place: Path) -> Path:
    return place.with_name(f"{place.name}.lock")


def _remove(place: Path) -> None:
    """Set aside first: a folder that lacks files must not be taken for a view. The lock goes last."""
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
                path.unlink(missing_ok=True)  # of what was loaded ahead
        lock.unlink(missing_ok=True)
