"""`cutwater blame` on a real broker, against DuckDB over the same events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.admin import set_configs
from cutwater.adapters.kafka.client import make_consumer, read_range
from cutwater.adapters.object_store import Objects
from cutwater.adapters.topics import commit_stream
from cutwater.cli.main import app
from cutwater.core.protocol.cuts import Cut
from cutwater.core.util.timestamps import iso
from support.cli.jsonshapes import parsed
from support.views.candidate_player import Candidate
from support.views.changelogs import HOUR_MS, Sold, Writing, make_job, until, with_measures
from support.views.generation_player import Next
from support.views.publishing import publishing
from support.views.sales_events import Sales
from support.views.snapshots import keeping

EAGER = {
    "min.compaction.lag.ms": "0",
    "segment.ms": "50",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "100",
}
"""A changelog that is compacted at once."""


class Blame:
    """The verb on one job."""

    def __init__(self, writing: Writing, job_file: Path, data: Path) -> None:
        self.writing, self.job_file, self.data = writing, job_file, data

    def __call__(self, *words: str) -> Result:
        fixed = ["--data-dir", str(self.data), "--bootstrap-servers", self.writing.cluster.bootstrap]
        return CliRunner().invoke(app, ["blame", *words, "--job-file", str(self.job_file), *fixed])

    def json(self, shop: str, hour: int, *options: str, code: int = 0) -> dict[str, Any]:
        done = self(shop, str(iso(hour * HOUR_MS)), *options, "--json")
        assert done.exit_code == code, done.output
        found: dict[str, Any] = parsed(["blame"], done.stdout)
        return found


@pytest.fixture
def blame(broker: Any, tmp_path: Path) -> Iterator[Blame]:
    job, path = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    yield Blame(writing, path, tmp_path / "data")
    writing.close()


@pytest.fixture
def eager(broker: Any, tmp_path: Path) -> Iterator[Blame]:
    """A job whose changelog has lost all but the newest records."""
    job, path = make_job(tmp_path, partitions=1)
    writing = Writing(broker.cluster, job, **EAGER)
    yield Blame(writing, path, tmp_path / "data")
    writing.close()


def history(found: dict[str, Any]) -> list[tuple[int, int | None, int | None]]:
    """Sequence, pieces before and after of each event."""
    return [
        (
            int(one["token"].rpartition(":")[2]),
            (one["before"] or {}).get("pieces"),
            (one["after"] or {}).get("pieces"),
        )
        for one in found["events"]
    ]


def kept(blame: Blame) -> int:
    """The records that are left on the changelog."""
    consumer = make_consumer(blame.writing.cluster)
    try:
        return sum(1 for _ in read_range(consumer, blame.writing.topic, 0, 0))
    finally:
        consumer.close()


def compacted(blame: Blame, records: int) -> None:
    """Wait until no more records than these are left."""
    time.sleep(0.1)
    blame.writing.rows(
        [Sold("roll", 1, 1)], epoch=blame.writing._next_epoch
    )  # the active segment is not compacted
    until(lambda: kept(blame) <= records + 1, "compaction")


def test_each_row_has_the_history_that_duckdb_says(blame: Blame) -> None:
    """The milestones that changed it and no other, with before and after; nothing is missing."""
    sales = Sales(blame.writing)
    sales.random_epochs(12, seed=4, shops=3, hours=2)
    for shop in ("s0", "s1", "s2"):
        for hour in (1, 2):
            found = blame.json(shop, hour)
            assert history(found) == sales.history(shop, hour)
            assert found["gaps"] == []
            kinds = [one["kind"] for one in found["events"]]
            assert kinds == ["added", *["changed"] * (len(kinds) - 1)]
    assert history(blame.json("nobody", 1, code=1)) == []


def test_an_event_names_writer_record_and_source_offsets(blame: Blame) -> None:
    """Of the epoch that changed the row; other events of it are in these offsets, too."""
    events = f"{blame.writing.job.name}.events"
    sales = Sales(blame.writing)
    sales.epoch([("a", 1, 5)], source_cut=Cut.of_topic(events, [3, 2]))
    sales.epoch([("b", 1, 5)], source_cut=Cut.of_topic(events, [4, 2]))
    sales.epoch([("a", 1, 1)], source_cut=Cut.of_topic(events, [9, 2]), attempt=2)
    first, second = blame.json("a", 1)["events"]
    assert first["source"] == {f"{events}/0": [0, 3], f"{events}/1": [0, 2]}
    assert second["source"] == {f"{events}/0": [4, 9]}
    assert second["writer"] == {"generation": "g1-local-00000000", "attempt": 2, "epoch": 2}
    assert second["record"].startswith(f"{blame.writing.topic}/")
    text = blame("a", "3600000", "--wide")
    assert text.exit_code == 0
    assert "pieces: 5 → 6" in text.output
    assert f"{events}/0 4 to 8" in text.output


def test_a_rollback_and_what_it_undid(blame: Blame) -> None:
    """Readers saw the row go back; then the events were read again, by another generation."""
    sales = Sales(blame.writing)
    for pieces in (1, 2, 4):
        sales.epoch([("a", 1, pieces)])
    after = Next(blame.writing, 1, rewinds=True)
    after.promoted([])
    after.epoch([Sold("a", 1, 3)])
    found = blame.json("a", 1)
    assert history(found) == [(1, None, 1), (2, 1, 3), (3, 3, 7), (4, 7, 1), (5, 1, 3)]
    assert [one["undone"] for one in found["events"]] == [False, True, True, False, False]
    assert [one["writer"]["generation"] for one in found["events"][3:]] == [str(after.generation)] * 2
    assert "changed, undone later" in blame("a", "3600000", "--wide").output


def test_a_hand_over_that_changes_nothing_is_no_event(blame: Blame) -> None:
    """The candidate's own epochs come before its promotion; the row that it carries over is the same."""
    sales = Sales(blame.writing)
    sales.epoch([("a", 1, 1)])
    sales.epoch([("a", 1, 2), ("b", 1, 1)])
    candidate = Candidate(blame.writing, partitions=5)
    candidate.begin()
    candidate.epoch([Sold("c", 1, 1)])
    candidate.take_over()
    candidate.epoch([Sold("a", 1, 9)])
    assert history(blame.json("a", 1)) == [(1, None, 1), (2, 1, 3), (4, 3, 9)]
    assert history(blame.json("c", 1)) == [(3, None, 1)]


def test_a_window_of_panes(broker: Any, tmp_path: Path) -> None:
    """A sliding window changes whenever one of its panes does."""
    _, path = make_job(tmp_path)
    path.write_text(path.read_text().replace("{kind: tumbling, size: 1h}", "{kind: sliding, size: 3h, slide: 1h}"))
    writing = Writing(broker.cluster, with_measures(load_job(path)))
    writing.epoch([Sold("a", 5, 1)])
    writing.epoch([Sold("a", 9, 1)])
    writing.epoch([Sold("a", 6, 4), Sold("a", 5, 2)])
    verb = Blame(writing, path, tmp_path / "data")
    assert history(verb.json("a", 5)) == [(1, None, 1), (3, 1, 6)]
    refused = verb("a", "1")
    assert (refused.exit_code, "windows start every 3600000 ms" in " ".join(refused.output.split())) == (2, True)
    writing.close()


def test_a_window_below_the_horizon_has_expired(blame: Blame) -> None:
    sales = Sales(blame.writing)
    sales.epoch([("a", 1, 1)])
    sales.epoch([("b", 90, 1)], watermark_ms=2 * HOUR_MS + blame.writing.job.rows_retention_ms)
    assert [one["kind"] for one in blame.json("a", 1)["events"]] == ["added", "expired"]


@pytest.mark.slow
def test_what_compaction_took_is_a_gap_with_its_reason(eager: Blame) -> None:
    """Compaction takes a key's records from the oldest on: the rest of its history has no hole."""
    sales = Sales(eager.writing)
    for pieces in (1, 2, 4):
        sales.epoch([("a", 1, pieces), ("b", 1, 1)])
        time.sleep(0.06)
    compacted(eager, 2)
    sales.epoch([("a", 1, 8)])
    found = eager.json("a", 1)
    assert history(found) == [(3, None, 7), (4, 7, 15)]
    assert [one["before_known"] for one in found["events"]] == [False, True]
    [gap] = found["gaps"]
    assert (gap["first_sequence"], gap["last_sequence"]) == (1, 2)
    assert "compaction may have removed" in gap["reasons"][0]
    assert "cannot be told any more" in eager("a", "3600000").output


@pytest.mark.slow
def test_the_output_tells_what_compaction_took(broker: Any, tmp_path: Path) -> None:
    """From there on the history is whole again, as DuckDB has it."""
    job, path = make_job(tmp_path, partitions=1)
    writing = Writing(broker.cluster, job)
    verb, sales = Blame(writing, path, tmp_path / "data"), Sales(writing)
    with publishing(broker.cluster, job, tmp_path / "publisher"):
        for pieces in (1, 2, 4):
            last = sales.epoch([("a", 1, pieces), ("b", 1, 1)])
            until(lambda last=last: _published(verb) >= last.sequence, "the publisher")
    set_configs(broker.cluster, writing.topic, EAGER)
    compacted(verb, 2)
    found = verb.json("a", 1)
    assert history(found) == sales.history("a", 1)
    assert [one["from"] for one in found["events"]] == ["output", "output", "changelog"]
    assert found["gaps"] == []
    writing.close()


def _published(blame: Blame) -> int:
    token = commit_stream.published(blame.writing.cluster, blame.writing.job.name)
    return token.sequence if token else 0


@pytest.mark.slow
def test_a_snapshot_shows_the_row_within_a_gap(
    eager: Blame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And narrows the search for what is wrong."""
    monkeypatch.setenv("CUTWATER_SNAPSHOTS", str(tmp_path / "store"))
    sales = Sales(eager.writing)
    sales.epoch([("a", 1, 1)])
    with keeping(eager.writing, tmp_path / "view", Objects(str(tmp_path / "store"))) as (view, taking):
        for pieces in (2, 4, 8):
            last = sales.epoch([("a", 1, pieces)])
            view.wait_for(last.sequence)
            if last.sequence == 3:
                taking.snapshot()
            time.sleep(0.06)
    compacted(eager, 1)
    found = eager.json("a", 1)
    assert history(found) == [(3, None, 7), (4, 7, 15)]
    assert [one["kind"] for one in found["events"]] == ["seen", "changed"]
    wrong = eager.json("a", 1, "--wrong-since", "pieces > 7", code=1)["wrong_since"]
    assert (wrong["first_wrong"], wrong["last_right"], wrong["exact"]) == (
        "g1-local-00000000:4",
        "g1-local-00000000:3",
        True,
    )
    unread = eager.json("a", 1, "--wrong-since", "pieces > 7", "--snapshots", "0", code=1)
    assert (unread["wrong_since"]["last_right"], unread["snapshots_read"]) == (None, 0)


def test_since_when_a_row_is_wrong(blame: Blame) -> None:
    """The first milestone of those that lead to now; exit 0 if the row is right."""
    sales = Sales(blame.writing)
    for pieces in (3, -2, 4, 1):  # 3, 1, 5, 6
        sales.epoch([("a", 1, pieces)])
        sales.epoch([("b", 1, 1)])
    wrong = blame.json("a", 1, "--wrong-since", "pieces >= 3", code=1)["wrong_since"]
    assert (wrong["first_wrong"], wrong["last_right"], wrong["exact"]) == (
        "g1-local-00000000:5",
        "g1-local-00000000:4",
        True,
    )
    assert (
        blame.json("a", 1, "--wrong-since", "pieces > 10 or takings is null")["wrong_since"]["first_wrong"] is None
    )
    refused = blame("a", "3600000", "--wrong-since", "peices > 10")
    assert (refused.exit_code, "did you mean 'pieces'" in " ".join(refused.output.split())) == (2, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["a", "noon"], "is no window's start"),
        (["a", "b", "3600000"], "the job's key is one column"),
        (["a", "3600000", "--records-max", "1"], "give a larger --records-max"),
    ],
)
def test_what_is_asked_wrongly_is_refused_in_words(blame: Blame, words: list[str], why: str) -> None:
    Sales(blame.writing).epoch([("a", 1, 1), ("b", 1, 1), ("c", 1, 1), ("d", 1, 1), ("e", 1, 1), ("f", 1, 1)])
    refused = blame(*words)
    assert (refused.exit_code, why in " ".join(refused.output.split())) == (2, True), refused.output
