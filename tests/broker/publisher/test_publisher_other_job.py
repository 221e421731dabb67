"""A publisher over a hand-over to a generation with another job file: a real process, killed at each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.job_files.carried_files import carried_files
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Claim, Redefinition
from support.views.changelogs import GENERATION, HOUR_MS, Writing, make_job, until, with_measures
from support.views.generation_player import Next
from support.views.output_rows import as_rows, kinds, require_contiguous, sold
from support.views.publishing import PublisherProcess, create, read, wait_published

SWITCH = "other-job"
POINTS = (
    (SWITCH, 1),
    ("states-read", 1),
    ("part-read", 1),
    ("transaction-open", 1),
    ("part-written", 1),
)
MODES = ("updates", "final")


class Changed(Writing):
    """A job, and a generation of it with one measure more, of which its rows have no value."""

    mode: str
    old_file: Path
    new_file: Path
    new: Job
    after: Next

    def promote_other(self) -> None:
        """Claim the generation with its job file, and promote it: a few rows differ, all others are the same."""
        assert self.last is not None
        old, parent = self.job, self.last
        self.after = after = Next(self, start=parent.sequence)
        after.job = with_measures(after.job, *(one for one in self.new.measures if one.name == "most"))
        assert after.job.fingerprint == self.new.fingerprint != old.fingerprint
        claim = Claim(old.name, after.generation, protocol_records.encode(parent), 6, 0, "", 0)
        files = (
            (GENERATION, old.fingerprint, carried_files(self.old_file)),
            (after.generation, self.new.fingerprint, carried_files(self.new_file)),
        )
        redefined = [Redefinition(old.name, of, meaning, texts, 0, 0) for of, meaning, texts in files]
        writer = TransactionalWriter(self.cluster, topics.claims_id(old.name))
        writer.initialise()
        writer.write(topics.candidates(old.name), [protocol_records.encode(one) for one in (claim, *redefined)])
        after.promoted(sold(1, 60, shops=3) + sold(4, 9, shops=5), watermark_ms=3 * HOUR_MS)
        after.epoch(sold(4, 10, shops=5) + sold(5, 1, shops=2), watermark_ms=6 * HOUR_MS)


@pytest.fixture(params=MODES)
def changed(broker: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Changed]:
    job, path = make_job(tmp_path, partitions=4)
    text = path.read_text()
    other = tmp_path / "new.yaml"
    other.write_text(text + "  most: {measure: max, field: pieces}\n")
    if request.param == "final":
        for file in (path, other):
            file.write_text(file.read_text() + "output: {mode: final}\n")
        job = load_job(path)
    made = Changed(broker.cluster, job)
    made.mode, made.old_file, made.new_file, made.new = request.param, path, other, load_job(other)
    create(broker.cluster, job)
    yield made
    made.close()


def assert_right(changed: Changed) -> None:
    """Only rows of which the shared measures differ are said again; all are shown with the reader's measures."""
    found = read(changed.cluster, changed.new, 4)
    require_contiguous(found)
    generations = [one.token.generation for one in found]
    assert generations[-2:] == [changed.after.generation] * 2
    # The first two milestones are one jump where the publisher finds both of them.
    assert generations[:-2] in ([GENERATION], [GENERATION] * 2)
    corrected = {"correction": as_rows(sold(1, 60, shops=3))}
    if changed.mode == "final":
        assert kinds(found[-2]) == {**corrected, "final": as_rows(sold(2, 7))}
        assert kinds(found[-1]) == {"final": as_rows(sold(4, 10, shops=5) + sold(5, 1, shops=2))}
    else:
        assert kinds(found[-2]) == {**corrected, "update": as_rows(sold(4, 9, shops=5))}
        assert kinds(found[-1]) == {"update": as_rows(sold(4, 10, shops=5) + sold(5, 1, shops=2))}
    shown = Counter("most" in change.values for one in found for change in one.changes)
    assert set(shown) == {True}
    old = [change for one in read(changed.cluster, changed.job, 4) for change in one.changes]
    assert not any("most" in change.values for change in old)
    assert len(old) == shown[True]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "times", "restarts_with"),
    [("", 0, "old"), *((*point, file) for point in POINTS for file in ("old", "new"))],
)
def test_the_process_goes_on_with_the_other_job_file(
    changed: Changed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, times: int, restarts_with: str
) -> None:
    """Started with the old one. After a kill it may be started with either."""
    folder, mark = tmp_path / "data", tmp_path / "died"
    changed.epoch(sold(1, 5) + sold(2, 7), watermark_ms=0)
    changed.epoch([], watermark_ms=2 * HOUR_MS)
    monkeypatch.setenv("CUTWATER_CRASH_MARK", str(mark))
    if point == SWITCH:  # one that starts behind the promotion begins with the other file
        monkeypatch.setenv("CUTWATER_CRASH_POINT", f"{point}@{times}")
    first = PublisherProcess(changed.cluster, changed.old_file, folder)
    wait_published(changed.cluster, changed.job, 2)
    if point and point != SWITCH:
        first.kill()
        monkeypatch.setenv("CUTWATER_CRASH_POINT", f"{point}@{times}")
        first = PublisherProcess(changed.cluster, changed.old_file, folder)
    try:
        changed.promote_other()
        if point:
            until(mark.exists, "the crash")
            assert first.process.wait(20) == -9, "the kill must have happened"
            file = changed.new_file if restarts_with == "new" else changed.old_file
            first = PublisherProcess(changed.cluster, file, folder)
        wait_published(changed.cluster, changed.new, 4)
    finally:
        first.kill()
    assert_right(changed)
