"""What the views of earlier generations have left on the disk: which of them can still be shown, and which go.

A generation that another one took over from never comes back: a rollback is a generation of its own, with a
changelog of its own. So its view serves until the next one's is whole, and nobody after that.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cutwater.adapters.crashing import reach
from cutwater.core.errors import UsageError
from cutwater.core.generations import Generation
from cutwater.views.table import locked

_REMOVING = ".removing"


def earlier(folder: Path) -> list[tuple[Generation, Path]]:
    """The views of generations before that of a view's folder which lie beside it, the newest first."""
    own = Generation.parse(folder.name).number
    found = [one for one in _views(folder.parent) if one[0].number < own]
    return sorted(found, reverse=True)


def remove_earlier(folder: Path) -> list[str]:
    """Delete them, with their checkpoints; their names. One that is open stays. Raises OSError."""
    removed = []
    for generation, path in earlier(folder):
        with suppress(BlockingIOError):
            _remove(path)
            removed.append(str(generation))
    for path in folder.parent.glob(f"*{_REMOVING}"):
        shutil.rmtree(path)
    return removed


def _views(folder: Path) -> Iterator[tuple[Generation, Path]]:
    for path in folder.iterdir() if folder.is_dir() else ():
        with suppress(UsageError):
            if path.is_dir():
                yield Generation.parse(path.name), path


def _remove(path: Path) -> None:
    """Set aside first: a folder that lacks files must not be taken for a view."""
    lock = path.with_name(f"{path.name}.lock")
    with locked(lock):
        aside = path.with_name(f"{path.name}{_REMOVING}")
        shutil.rmtree(aside, ignore_errors=True)
        path.rename(aside)
        reach("generation-set-aside")
        for one in path.parent.glob(f"{path.name}.*"):
            if one.is_dir():
                shutil.rmtree(one)
        lock.unlink()
