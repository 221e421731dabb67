"""An order to rebuild a view from the changelog: a file beside its folder that the next start executes.

The file is `ordered` until the folder is removed, then `emptied` until a milestone is applied, so that a kill
loses neither order nor progress. The store is filled from the changelog alone, since snapshots hold the rejected
view.
"""

from __future__ import annotations

from pathlib import Path

from cutwater.core.errors import MachineError
from cutwater.views.store.folders import remove_view
from cutwater.views.store.meta_records import applied_in

_ORDERED, _EMPTIED = "ordered\n", "emptied\n"


def mark_of(folder: Path) -> Path:
    """Return the path of the order, a name that no file of a view has."""
    return folder.parent / f".rebuild-{folder.name}"


def order_rebuild(folder: Path) -> None:
    """Order a rebuild. Raises MachineError if the file cannot be written."""
    mark = mark_of(folder)
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        _write(mark, _ORDERED)
    except OSError as error:
        raise MachineError(f"{mark} cannot be written: {error.strerror}") from None


def execute_order(folder: Path) -> bool:
    """Execute an order before the store is opened; return whether to build from the changelog alone. Removes
    the folder if that is still to be done. Raises MachineError if it cannot, or if another process has it open."""
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
        raise MachineError(
            f"{folder} must be rebuilt, but another process has it open: stop that process"
        ) from None
    except OSError as error:
        raise MachineError(f"{folder} must be rebuilt, but cannot be removed: {error}") from None
    return True


def emptied(folder: Path) -> bool:
    """Return whether a start has removed the folder since the order."""
    try:
        return mark_of(folder).read_text(encoding="utf-8") == _EMPTIED
    except OSError:
        return True  # a start has completed the rebuild and deleted the order


def _write(mark: Path, word: str) -> None:
    unfinished = mark.with_name(f"{mark.name}.tmp")
    unfinished.write_text(word, encoding="utf-8")
    unfinished.replace(mark)
