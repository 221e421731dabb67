"""What `cutwater replay` refuses before it starts a sandbox, and what needs none, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.record_deletion import delete_below
from cutwater.cli.main import app
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from support.cli.jsonshapes import parsed
from support.views.changelogs import HOUR_MS, Sold, Writing, make_job

PARTITIONS = 3


class Verb:
    """The command line on one job, whose source has so many records in each partition."""

    def __init__(self, writing: Writing, job_file: Path, data: Path) -> None:
        self.writing, self.job_file, self.data = writing, job_file, data
        self.topic = writing.job.topic
        admin.create_topics(writing.cluster, [topics.events(self.topic, PARTITIONS)])

    def epoch(self, read: list[int], *rows: Sold, **changes: Any) -> None:
        """A milestone that has read so many records of each partition, which are produced if they are missing."""
        producer = Producer(self.writing.cluster.librdkafka())
        before = self.writing.last.source_cut if self.writing.last else Cut()
        for partition, end in enumerate(read):
            for _ in range(before.offset(Cut.of_topic(self.topic, [0] * PARTITIONS).entries[partition][0]), end):
                producer.produce(self.topic, b"no event", partition=partition)
        assert producer.flush(20) == 0
        self.writing.epoch(rows, source_cut=Cut.of_topic(self.topic, read), **changes)

    def __call__(self, *options: str, job_file: Path | None = None) -> Result:
        fixed = ["--data-dir", str(self.data), "--bootstrap-servers", self.writing.cluster.bootstrap]
        return CliRunner().invoke(app, ["replay", str(job_file or self.job_file), *options, *fixed])

    def refused(self, *options: str, job_file: Path | None = None) -> str:
        done = self(*options, job_file=job_file)
        assert done.exit_code == 2, done.output
        assert not (self.data / "replay").exists()
        return " ".join(done.output.split())


@pytest.fixture
def verb(broker: Any, tmp_path: Path) -> Iterator[Verb]:
    job, path = make_job(tmp_path)
    writing = Writing(broker.cluster, job)
    made = Verb(writing, path, tmp_path / "data")
    made.epoch([3, 3, 3], Sold("a", 1, 2))
    made.epoch([5, 4, 3], Sold("a", 1, 5), Sold("b", 2, 1))
    made.epoch([9, 9, 9], Sold("b", 2, 7))
    yield made
    writing.close()


def test_no_event_needs_no_sandbox(verb: Verb, tmp_path: Path) -> None:
    """From a milestone to itself, its rows are expected, and written; two epochs without events are equal, too."""
    done = verb("--from", "2", "--to", "2", "--out", str(tmp_path / "out"), "--json")
    assert done.exit_code == 0, done.output
    told = parsed(["replay"], done.stdout)
    assert (told["equal"], told["events"], told["live_rows"], told["replayed_rows"]) == (True, 0, 2, 2)
    live, replayed, differences = (
        pq.read_table(tmp_path / "out" / f"{name}.parquet").to_pylist()
        for name in ("live", "replayed", "differences")
    )
    assert live == replayed
    assert [(one["key"], one["pieces"]) for one in live] == [("a", 5), ("b", 1)]
    assert differences == []
    assert [one["rows"] for one in told["files"]] == [2, 2]
    assert not (verb.data / "replay").exists()
    verb.epoch([9, 9, 9])
    assert verb("--from", "3").exit_code == 0


def test_rows_that_no_event_explains_differ(verb: Verb, tmp_path: Path) -> None:
    """A row that changed between two milestones without an event, one that came, and one that went."""
    verb.epoch([9, 9, 9], Sold("a", 1, 6), Sold("c", 3, 1))
    done = verb("--from", "3", "--out", str(tmp_path / "out"), "--json")
    assert done.exit_code == 1, done.output
    told = parsed(["replay"], done.stdout)
    found = {one["key"]: (one["kind"], one["live"] and one["live"]["pieces"]) for one in told["differences"]}
    assert found == {"a": ("changed", 6), "c": ("removed", 1)}
    assert told["differences"][0]["replayed"]["pieces"] == 5
    assert told["reasons"] == {"late": 0, "job_file": 0, "unknown": 2}
    rows = pq.read_table(tmp_path / "out/differences.parquet").to_pylist()
    pieces = [(one["key"], one["live"], one["replayed"]) for one in rows if one["measure"] == "pieces"]
    assert pieces == [("a", "6", "5"), ("c", "1", None)]
    text = verb("--from", "3").output
    assert "1 only in the job, 1 changed" in text
    assert "by reason: 2 unknown" in text


def test_windows_below_the_horizon_are_not_expected(verb: Verb) -> None:
    """The later milestone's horizon has passed the first hour."""
    passed_ms = 2 * HOUR_MS + verb.writing.job.rows_retention_ms
    verb.epoch([9, 9, 9], watermark_ms=passed_ms)
    done = verb("--from", "3", "--json")
    assert done.exit_code == 0, done.output
    told = parsed(["replay"], done.stdout)
    assert (told["live_rows"], told["replayed_rows"]) == (1, 1)


def test_deleted_events_are_refused_with_the_earliest_start(verb: Verb) -> None:
    delete_below(verb.writing.cluster, verb.topic, {1: 4})
    said = verb.refused()
    assert f"deleted offsets 0 to 3 of {verb.topic}/1" in said
    assert "the earliest possible start is --from g1-local-00000000:2 (" in said
    assert f"deleted offset 3 of {verb.topic}/1" in verb.refused("--from", "1", "--to", "3")
    assert verb("--from", "3").exit_code == 0
    delete_below(verb.writing.cluster, verb.topic, {2: 9, 1: 9, 0: 9})
    assert "--from g1-local-00000000:3 (" in verb.refused("--from", "2")


def test_other_milestones_and_jobs_are_refused(verb: Verb, tmp_path: Path) -> None:
    assert "is later than" in verb.refused("--from", "3", "--to", "2")
    assert "does not hold" in verb.refused("--from", "7")
    text = verb.job_file.read_text()
    (tmp_path / "other.yaml").write_text(text.replace(f"topic: {verb.topic}", "topic: returns"))
    assert "no event is in both" in verb.refused("--job-file", str(tmp_path / "other.yaml"))
    (tmp_path / "day.yaml").write_text(text.replace("size: 1h", "size: 2h"))
    assert "no window is in both" in verb.refused("--job-file", str(tmp_path / "day.yaml"))
    assert "--rate" in verb.refused("--rate", "fast")
    admin.delete_topics(verb.writing.cluster, [verb.topic])
    admin.create_topics(verb.writing.cluster, [topics.events(verb.topic, PARTITIONS)])
    assert "was created again" in verb.refused("--from", "1")


def test_a_milestone_that_a_rollback_has_undone_is_no_start(verb: Verb) -> None:
    verb.writing.promote(PARTITIONS, rewinds_to=1, source_cut=Cut.of_topic(verb.topic, [3, 3, 3]))
    verb.epoch([9, 9, 9])
    said = verb.refused("--from", "2")
    assert "g1-local-00000000:2 was undone" in said
    assert "went back to milestone 1" in said
