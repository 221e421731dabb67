"""What the views of earlier generations have left on the disk: which of them can still be shown, and which go.

A generation that another one took over from never comes back: a rollback is a generation of its own, with a
changelog of its own. So its view serves until the next one's is whole, and nobody after that.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from cutwater.adapters.crashing import reach
from cutwater.core.errors import UsageError
from cutwater.core.generations import Generation
from cutwater.views.table import locked


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


def _named(folder: Path) -> set[Generation]:
    """Those of which there is a view, or a part that is named for it, as its checkpoints are."""
    found = set()
    for path in folder.iterdir() if folder.is_dir() else ():
        with suppress(UsageError):
            found.add(Generation.parse(path.name.partition(".")[0]))
    return found


def _remove(place: Path) -> None:
    """Set aside first: a folder that lacks files must not be taken for a view. The lock goes last."""
    lock = place.with_name(f"{place.name}.lock")
    with locked(lock):
        if place.is_dir():
            aside = place.with_name(f"{place.name}.removing")
            shutil.rmtree(aside, ignore_errors=True)
            place.rename(aside)
            reach("generation-set-aside")
        for path in place.parent.glob(f"{place.name}.*"):
            if path.is_dir():
                shutil.rmtree(path)
        lock.unlink()
