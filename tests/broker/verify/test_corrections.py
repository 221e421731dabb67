"""Rows of the output that differ are corrected by the publisher, with its next milestone: `verify --repair`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cutwater.adapters.topics.commit_stream import published
from cutwater.cli.main import app
from cutwater.core.checks.state_comparison import CHANGELOG, OUTPUT, RowName, Verdict, output_can_be_corrected
from cutwater.core.job.job import CORRECTION, TOMBSTONE, Job
from cutwater.core.job.windows import WindowSpec
from cutwater.operations.correction_order import CorrectionOrders
from cutwater.publisher import encoding, transaction
from cutwater.verify.run import Request, Result, verify
from cutwater.views.changelog.row_batch import Piece
from support.views.changelogs import GENERATION, HOUR_MS, Sold, Writing, encoded, make_job, until
from support.views.publishing import crash_at_write, create, finals, publishing, read

WRONG, LOST, ADDED = "shop-7", "shop-8", "ghost"
ROWS = [Sold(f"shop-{number}", 1, 10 + number) for number in range(12)]
CLOSED_MS = 9 * HOUR_MS


def sliding(job: Job) -> Job:
    return replace(job, window=WindowSpec(3 * HOUR_MS, HOUR_MS))


JOBS = {"updates": lambda job: job, "final": finals, "sliding": sliding}


@dataclass
class Stage:
    """An output with a milestone whose rows a publisher's bug has damaged; the windows are closed."""

    writing: Writing
    folder: Path
    job_file: Path
    orders: CorrectionOrders

    @property
    def pending(self) -> bool:
        """Whether the publisher has not executed every order yet."""
        return any(self.orders.folder.glob("*.json"))

    def publish(self, **options: Any) -> None:
        """Publish up to the newest milestone."""
        writing, last = self.writing, self.writing.last
        assert last is not None
        with publishing(writing.cluster, writing.job, self.folder, orders=self.orders, **options):
            until(lambda: published(writing.cluster, writing.job.name) == last.token, "it to be published")
            until(lambda: last.sequence == 1 or not self.pending, "the order to be executed")

    def verify(self) -> Result:
        places, writing = (CHANGELOG, OUTPUT), self.writing
        return verify(Request(writing.job, self.job_file, writing.cluster, GENERATION, places, limit=100))

    def order_corrections(self) -> list[RowName]:
        """As the verb does."""
        result = self.verify()
        assert output_can_be_corrected(result.answers)
        wrong = [one.name for one in result.differences if OUTPUT in one.suspects]
        self.orders.write(wrong)
        return wrong


def damaged(writing: Writing) -> Any:
    """What a publisher's records are made by, with a bug: one wrong, one missing and one that nobody sent."""
    _, wrong = encoded(writing.job, Sold(WRONG, 1, 9_999))

    def records(encoder: Any, sequence: int, kind: str, piece: Piece) -> list[dict[str, bytes]]:
        rows = [
            (key, wrong if WRONG.encode() in key else value, offset)
            for key, value, offset in zip(piece.keys, piece.values, piece.offsets, strict=True)
            if LOST.encode() not in key
        ]
        if piece.partition == writing.partition(ADDED):
            rows.append((*encoded(writing.job, Sold(ADDED, 1, 5)), -1))
        keys, values, offsets = map(list, zip(*rows, strict=True))
        return encoding.records(encoder, sequence, kind, replace(piece, keys=keys, values=values, offsets=offsets))

    return records


@pytest.fixture
def stage(request: Any, broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    job, job_file = make_job(tmp_path / "job")
    writing = Writing(broker.cluster, JOBS[request.param](job))
    create(writing.cluster, writing.job)
    made = Stage(writing, tmp_path / "publisher", job_file, CorrectionOrders(tmp_path, job.name))
    writing.epoch(ROWS, watermark_ms=CLOSED_MS)
    with monkeypatch.context() as bug:
        bug.setattr(transaction, "records", damaged(writing))
        made.publish()
    yield made
    writing.close()


@pytest.mark.variations
@pytest.mark.parametrize("stage", JOBS, indirect=True)
def test_an_ordered_correction_comes_with_the_next_milestone(stage: Stage) -> None:
    """Right values, and tombstones; `committed()` has them in that milestone, and the comparison is content."""
    wrong = stage.order_corrections()
    assert {WRONG, LOST} <= {one.key for one in wrong} <= {WRONG, LOST, ADDED}
    stage.writing.epoch([Sold("shop-1", 30, 1)], watermark_ms=CLOSED_MS)
    stage.publish()
    assert {one.place: one.verdict for one in stage.verify().answers} == dict.fromkeys(
        (CHANGELOG, OUTPUT), Verdict.EQUAL
    )
    last = read(stage.writing.cluster, stage.writing.job, 2)[-1]
    told = {(one.key, one.window_start_ms): one.kind for one in last.changes}
    for row in wrong:
        assert told[row.key, row.start_ms] == (TOMBSTONE if row.key == ADDED else CORRECTION)


@pytest.mark.slow
@pytest.mark.parametrize("crash", [1, 2, 3])
@pytest.mark.parametrize("stage", ["updates", "final"], indirect=True)
def test_a_publisher_that_dies_while_it_corrects_ends_alike(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, crash: int
) -> None:
    """Each row is a part of its own, two of the milestone first; the order stays until the last one is written."""
    stage.order_corrections()
    stage.writing.epoch([Sold("shop-1", 9, 77), Sold("shop-2", 9, 78)], watermark_ms=CLOSED_MS + HOUR_MS)
    with monkeypatch.context() as patch:
        crash_at_write(patch, crash)
        with (
            suppress(KeyboardInterrupt),
            publishing(
                stage.writing.cluster, stage.writing.job, stage.folder, orders=stage.orders, part_rows=1
            ) as errors,
        ):
            until(lambda: errors, "the crash")
    assert stage.pending
    stage.publish(part_rows=1)
    assert {one.verdict for one in stage.verify().answers} == {Verdict.EQUAL}
    assert [one.token.sequence for one in read(stage.writing.cluster, stage.writing.job, 2)] == [1, 2]


@pytest.mark.parametrize("stage", ["updates"], indirect=True)
def test_the_verb_orders_the_rows_that_differ(stage: Stage) -> None:
    """Without --yes it only says so. The next milestone brings them, and then it is content."""
    brokers, data_dir = stage.writing.cluster.bootstrap, stage.orders.folder.parents[1]
    words = ["verify", str(stage.job_file), "--bootstrap-servers", brokers, "--data-dir", str(data_dir)]
    asked = [*words, "--place", "output", "--repair", "--json"]

    def said(*more: str) -> tuple[int, str | None]:
        done = CliRunner().invoke(app, [*asked, *more])
        return done.exit_code, json.loads(done.stdout)["repair"]

    code, plan = said()
    assert code == 1
    assert plan
    assert plan.startswith("would publish corrections of 3 rows of the output")
    assert not stage.pending
    code, ordered = said("--yes")
    assert code == 1
    assert ordered
    assert f"corrections of 3 rows are ordered in {stage.orders.folder}" in ordered
    assert {one.key for one in stage.orders.rows()} == {WRONG, LOST, ADDED}
    stage.writing.epoch([Sold("shop-1", 30, 1)], watermark_ms=CLOSED_MS)
    stage.publish()
    assert said("--yes") == (0, None)


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["updates"], indirect=True)
def test_an_order_that_cannot_be_read_stops_nobody(stage: Stage) -> None:
    """It stays where it is, and the milestone is published."""
    stage.orders.folder.mkdir(parents=True)
    (stage.orders.folder / "1.json").write_text("{")
    stage.writing.epoch([Sold("shop-1", 30, 1)], watermark_ms=CLOSED_MS)
    with publishing(stage.writing.cluster, stage.writing.job, stage.folder, orders=stage.orders):
        until(
            lambda: published(stage.writing.cluster, stage.writing.job.name) == stage.writing.last.token,  # type: ignore[union-attr]
            "the milestone",
        )
    assert stage.pending
