"""An order to build a view anew from the changelog: a mark beside its folder, obeyed by the next start.

The mark goes through two words, so that a kill at any moment loses neither the order nor what was done: `ordered`
(the folder is still to be removed) and `emptied` (the store is to be filled, from the changelog and from no
snapshot, since those were taken of the view that is given up). It goes once a milestone is applied.
"""

from __future__ import annotations

from pathlib import Path

from cutwater.core.errors import MachineError
from cutwater.views.store.folders import remove_view
from cutwater.views.store.store import applied_in

_ORDERED, _EMPTIED = "ordered\n", "emptied\n"


def mark_of(folder: Path) -> Path:
    """No name that a view's own files have."""
    return folder.parent / f".rebuild-{folder.name}"


def give(folder: Path) -> None:
    """Order it. Raises MachineError where the mark cannot be written."""
    mark = mark_of(folder)
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        _write(mark, _ORDERED)
    except OSError as error:
        raise MachineError(f"{mark} cannot be written: {error.strerror}") from None


def obey(folder: Path) -> bool:
    """At a start, before the store is opened: is the view to be built from the changelog alone?

    Removes the folder where that is still to be done. Raises MachineError where it cannot be, or another process
    has it.
    """
    mark = mark_of(folder)
    try:
        if not mark.exists():
            return False
        if mark.read_text(encoding="utf-8") != _EMPTIED:
            remove_view(folder)
            _write(mark, _EMPTIED)
        elif folder.is_dir() and applied_in(folder) is not None:
            mark.unlink()
            return False
    except BlockingIOError:
        raise MachineError(f"{folder} is to be built anew, and another process has it: end that one") from None
    except OSError as error:
        raise MachineError(f"{folder} is to be built anew, and cannot be removed: {error}") from None
    return True


def emptied(folder: Path) -> bool:
    """Has a start removed the folder that an order was given for?"""
    try:
        return mark_of(folder).read_text(encoding="utf-8") == _EMPTIED
    except OSError:
        return True  # a start has seen it whole, and removed the mark


def _write(mark: Path, word: str) -> None:
    """Whole or not at all."""
    unfinished = mark.with_name(f"{mark.name}.tmp")
    unfinished.write_text(word, encoding="utf-8")
    unfinished.replace(mark)
