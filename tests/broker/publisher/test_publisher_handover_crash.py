"""A publisher that dies in a hand-over of generations: the difference is on the output once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.job.job import Job
from cutwater.publisher import transaction as writer_module
from support.views.changelogs import HOUR_MS, Rows, Writing, make_job, until
from support.views.generation_player import Next
from support.views.output_rows import (
    as_rows,
    expected,
    folded,
    kinds,
    require_contiguous,
    require_no_repeat,
    sold,
    told,
)
from support.views.publishing import PublisherProcess, create, ends, publishing, read, wait_published

MODES = ("updates", "final")
POINTS = (
    ("states-read", 1),
    ("rows-read", 1),
    ("milestone-stored", 1),
    ("milestone-stored", 2),
    ("part-read", 2),
    ("transaction-open", 2),
    ("part-written", 2),
)
"""With the last milestone of the old generation still to be published: its transaction is the first."""


class Played(Writing):
    """Two generations: a rollback that changes rows, and lets rows vanish."""

    mode: str
    job_file: Path
    after: Next

    def begin(self, folder: Path) -> None:
        """The old generation, of which the last milestone is not published, and the promotion behind it."""
        self.epoch(sold(1, 5, shops=90) + sold(2, 7, shops=90), watermark_ms=2 * HOUR_MS)
        with publishing(self.cluster, self.job, folder):
            wait_published(self.cluster, self.job, 1)
        self.epoch(sold(2, 8, shops=60) + sold(3, 1, shops=70), watermark_ms=4 * HOUR_MS)
        self.after = Next(self, start=1, rewinds=True)
        self.after.promoted([], watermark_ms=2 * HOUR_MS)

    def end(self, job: Job) -> None:
        """What the output must hold, once everything is published."""
        self.after.epoch(sold(2, 9, shops=2), watermark_ms=3 * HOUR_MS)
        found = read(self.cluster, job, 4)
        require_contiguous(found)
        assert [one.token.sequence for one in found] == [1, 2, 3, 4]
        assert kinds(found[2]) == self.difference
        rows = told(self, job)
        require_no_repeat(rows)
        assert folded(rows, 0) == expected(self.after, job)

    @property
    def handed_over(self) -> bool:
        return any(end.sequence == 3 and end.last for end in ends(self.cluster, self.job))

    @property
    def difference(self) -> dict[str, Rows]:
        gone = as_rows(sold(3, 1, shops=70))
        if self.mode == "final":
            return {"tombstone": dict.fromkeys(gone | as_rows(sold(2, 7, shops=90)), -1)}
        return {"tombstone": dict.fromkeys(gone, -1), "correction": as_rows(sold(2, 7, shops=60))}


@pytest.fixture(params=MODES)
def played(broker: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Played]:
    job, path = make_job(tmp_path, partitions=4)
    if request.param == "final":
        path.write_text(path.read_text() + "output: {mode: final}\n")
        job = load_job(path)
    made = Played(broker.cluster, job)
    made.mode, made.job_file = request.param, path
    create(broker.cluster, job)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("lost", [False, True])
def test_a_difference_in_parts_goes_on_behind_the_last_one(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    """Broken off after each part in turn, with and without the stores that it has made."""
    real, writes = writer_module.OutputWriter.write, 0

    def dying(self: Any, transaction: writer_module.Transaction) -> None:
        nonlocal writes
        if transaction.plan.to.milestone.sequence == 3:
            writes += 1
            if writes > 1:
                raise KeyboardInterrupt
        real(self, transaction)

    played.begin(tmp_path / "store-0")
    job, deaths = played.job, 0
    with monkeypatch.context() as patch:
        patch.setattr(writer_module.OutputWriter, "write", dying)
        while not played.handed_over:
            assert deaths < 12, "each life must write a part more"
            writes, store = 0, tmp_path / (f"store-{deaths}" if lost else "store-0")
            with suppress(KeyboardInterrupt), publishing(played.cluster, job, store, part_rows=30) as errors:
                until(partial(_either, errors, played), "a crash, or the end")
            deaths += 1
    assert deaths >= 4, "the difference must have been split"
    with publishing(played.cluster, played.job, tmp_path / "store-0", part_rows=30):
        played.end(played.job)


def _either(errors: list[BaseException], played: Played) -> bool:
    return bool(errors) or played.handed_over


@pytest.mark.slow
@pytest.mark.parametrize(("point", "times"), POINTS)
def test_killed_at_any_point_it_says_the_same_once(
    played: Played, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, times: int
) -> None:
    """kill -9, and a second process that goes on."""
    mark, folder = tmp_path / "died", tmp_path / "data"
    played.begin(folder / ("finals" if played.mode == "final" else "handover") / played.job.name)
    monkeypatch.setenv("CUTWATER_CRASH_POINT", f"{point}@{times}")
    monkeypatch.setenv("CUTWATER_CRASH_MARK", str(mark))
    first = PublisherProcess(played.cluster, played.job_file, folder)
    until(mark.exists, "the crash")
    assert first.process.wait(20) == -9, "the kill must have happened"
    second = PublisherProcess(played.cluster, played.job_file, folder)
    try:
        wait_published(played.cluster, played.job, 3)
        played.end(played.job)
    finally:
        second.kill()
