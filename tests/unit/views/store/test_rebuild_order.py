"""The order to build a view anew: it survives a kill between any two steps, and removes a view once."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutwater.core.errors import MachineError
from cutwater.core.job.job import Job
from cutwater.views.snapshots.local_tier import Checkpoints
from cutwater.views.store import rebuild_order
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, Sold, make_job
from unit.views.store.test_store import entry, rows


def fill(job: Job, folder: Path) -> None:
    """A view at a milestone, with one row and a snapshot beside it."""
    store = Store(folder, job, GENERATION)
    store.commit(entry(job, 1), rows(job, store, [Sold("a", 1, 1)]))
    store.close()
    Checkpoints(folder).folder.mkdir(exist_ok=True)


def test_a_view_is_removed_once_and_built_from_the_changelog_alone(tmp_path: Path) -> None:
    """Folder and snapshots go; a start that is killed before the view is whole goes on, the next one is done."""
    job, _ = make_job(tmp_path)
    folder = tmp_path / "views" / str(GENERATION)
    assert not rebuild_order.execute_order(folder), "nothing was ordered, and nothing is there"
    fill(job, folder)
    assert not rebuild_order.execute_order(folder)
    rebuild_order.order_rebuild(folder)
    assert folder.is_dir()
    assert not rebuild_order.emptied(folder)
    assert rebuild_order.execute_order(folder)
    assert not folder.exists()
    assert not Checkpoints(folder).folder.exists(), "they were taken of it"
    assert rebuild_order.emptied(folder)
    half = Store(folder, job, GENERATION)
    half.begin(entry(job, 2))
    half.close()
    assert rebuild_order.execute_order(folder), "killed while it was filled: still no snapshot"
    assert folder.is_dir(), "and what was read stays"
    fill(job, folder)
    assert not rebuild_order.execute_order(folder)
    assert not rebuild_order.mark_of(folder).exists()
    assert folder.is_dir()


def test_a_kill_between_the_steps_loses_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is removed and the mark still says `ordered`: the next start does it again, over nothing."""
    job, _ = make_job(tmp_path)
    folder = tmp_path / "views" / str(GENERATION)
    fill(job, folder)
    rebuild_order.order_rebuild(folder)
    with monkeypatch.context() as patch:
        patch.setattr(rebuild_order, "_write", _killed)
        with pytest.raises(KeyboardInterrupt):
            rebuild_order.execute_order(folder)
    assert not folder.exists()
    assert rebuild_order.execute_order(folder), "no snapshot, all the same"


def test_a_view_that_somebody_has_open_is_not_removed(tmp_path: Path) -> None:
    """Its process is named as the reason, and its rows stay."""
    job, _ = make_job(tmp_path)
    folder = tmp_path / "views" / str(GENERATION)
    fill(job, folder)
    store = Store(folder, job, GENERATION)
    rebuild_order.order_rebuild(folder)
    with pytest.raises(MachineError, match="another process has it"):
        rebuild_order.execute_order(folder)
    assert store.applied is not None
    store.close()
    assert rebuild_order.execute_order(folder)


def _killed(*_: object) -> None:
    raise KeyboardInterrupt
