"""What the console reads of a job's topics, how much of them, and what it refuses to read. No broker is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.config.settings import Settings
from cutwater.console import kafka_reader
from cutwater.console.kafka_reader import LISTED_MAX, OFFSETS_EACH, KafkaReader
from cutwater.core.console.timeline import KEPT_MAX
from cutwater.core.driver.rejected_events import Choice
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.generations.candidates import fold_candidates
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.output.position import nothing
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.state.backlog import Entry
from cutwater.core.state.point_in_time_restore import RestoreSources
from support.cli.verb_records import CLAIM, STREAM
from support.console.sample_job import NOW_MS, milestones, place
from support.protocol_samples import GENERATION, JOB, OTHER, heartbeat

NEWEST = STREAM[-1][0]
STATUS = JobStatus(JOB, GENERATION)


class Broker:
    """Topics with records in one partition each, and what was read of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.records: dict[str, list[bytes]] = {}
        self.ends: dict[str, tuple[int, int]] = {}
        self.first: list[int] = []
        self.closed = 0
        for name, answer in {
            "make_consumer": lambda _cluster: SimpleNamespace(close=self._close),
            "partition_count": lambda _cluster, _topic: 1,
            "bounds": lambda _consumer, topic, _partition: self._bounds(topic),
            "read_range": lambda _consumer, topic, _partition, first, _end: self._read(topic, first),
            "descriptions": lambda _cluster, names: {one: 1 for one in names if one in self.ends},
        }.items():
            monkeypatch.setattr(kafka_reader, name, answer)

    def _close(self) -> None:
        self.closed += 1

    def _bounds(self, topic: str) -> tuple[int, int]:
        return self.ends.get(topic, (0, len(self.records.get(topic, []))))

    def _read(self, topic: str, first: int) -> Iterator[Any]:
        self.first.append(first)
        for offset, value in enumerate(self.records.get(topic, [])):
            yield SimpleNamespace(value=lambda value=value: value, timestamp=lambda at=offset: (1, NOW_MS + at))


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    return Broker(monkeypatch)


@pytest.fixture
def reader(tmp_path: Path) -> KafkaReader:
    return KafkaReader(place(settings=Settings(data_dir=tmp_path)))


def test_the_history_has_the_milestones_only(broker: Broker, reader: KafkaReader) -> None:
    """Heartbeats lie between them; the consumer is closed."""
    every = list(milestones(5, 3))
    stream = [protocol_records.encode(one) for one in every]
    broker.records[topics.milestones(JOB)] = [*stream, protocol_records.encode(heartbeat(4, NOW_MS))]
    found = list(reader.history())
    assert [one.sequence for one in found] == [1, 2, 3, 4, 5]
    assert found[0].partition_rows == every[0].partition_rows
    assert (broker.first, broker.closed) == ([0], 1)


@pytest.mark.parametrize("strange", [b"", b"\xc3\x01of a later version", None])
def test_a_record_that_is_not_known_hides_no_history(broker: Broker, reader: KafkaReader, strange: Any) -> None:
    """As the watch, which counts it: the console would never read more than it."""
    stream: list[Any] = [protocol_records.encode(one) for one in milestones(3, 3)]
    broker.records[topics.milestones(JOB)] = [*stream[:2], strange, *stream[2:]]
    assert [one.sequence for one in reader.history()] == [1, 2, 3]


def test_of_a_long_history_only_the_end_is_read(broker: Broker, reader: KafkaReader) -> None:
    broker.ends[topics.milestones(JOB)] = (7, 10**9)
    list(reader.history())
    assert broker.first == [10**9 - OFFSETS_EACH * KEPT_MAX]


def test_an_empty_topic_has_no_history(broker: Broker, reader: KafkaReader) -> None:
    assert list(reader.history()) == []
    assert list(reader.published()) == []
    assert broker.first == []


def test_the_publishers_positions_have_their_times(broker: Broker, reader: KafkaReader) -> None:
    """Those that name no milestone, and records of others, are left out."""
    position = replace(nothing(JOB, GENERATION, "f"), milestone=protocol_records.encode(NEWEST))
    values = [protocol_records.encode(nothing(JOB, GENERATION, "f")), protocol_records.encode(position), b""]
    broker.records[topics.published(JOB)] = values
    assert list(reader.published()) == [(NEWEST.sequence, NOW_MS + 1)]


@pytest.mark.parametrize(("name", "topic"), [("dead_letters", topics.dead_letters), ("late", topics.late)])
def test_a_list_that_is_too_long_is_not_read(broker: Broker, reader: KafkaReader, name: str, topic: Any) -> None:
    """The page says with which command it can be."""
    with pytest.raises(UsageError, match="does not exist"):
        getattr(reader, name)()
    broker.ends[topic(JOB)] = (10, LISTED_MAX + 11)
    with pytest.raises(UsageError, match=r"200,001 offsets.*run 'cutwater (dead-letters|late) list'"):
        getattr(reader, name)()


def test_a_list_is_that_of_the_promoted_generation(
    broker: Broker, reader: KafkaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in (topics.dead_letters(JOB), topics.late(JOB)):
        broker.ends[topic] = (0, 10)
    asked: list[tuple[str, str]] = []
    for name in ("dead_letters", "late_pairs"):
        monkeypatch.setattr(
            kafka_reader.rejected_events,
            name,
            lambda _cluster, job, _name=name: asked.append((_name, job)) or Choice([], []),  # type: ignore[func-returns-value]
        )
    assert reader.dead_letters().entries == reader.late().entries == []
    assert asked == [("dead_letters", JOB), ("late_pairs", JOB)]


def test_the_status_is_that_of_the_promoted_generation(
    reader: KafkaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The running file still names the generation of the stack's start."""
    asked: list[Any] = []
    monkeypatch.setattr(
        kafka_reader.job_status, "recover", lambda _cluster, _job, generation, _ms: asked.append(generation)
    )
    for newest in (replace(NEWEST, generation=OTHER), None):
        monkeypatch.setattr(kafka_reader.candidates, "promoted", lambda _cluster, _job, found=newest: found)
        reader.status()
    assert asked == [OTHER, GENERATION]


def test_the_parents_of_claims_are_read(reader: KafkaReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_reader.candidates, "candidates", lambda _cluster, _job: fold_candidates([CLAIM]))
    found, parents = reader.generations()
    assert list(found.by_id) == [OTHER]
    assert parents[OTHER].sequence == STREAM[0][0].sequence


def test_an_unknown_end_is_no_error(reader: KafkaReader, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_status: Any) -> Any:
        raise UnavailableError("no answer")

    monkeypatch.setattr(reader._ends, "open_transactions", lambda _status: [SimpleNamespace(records=3)])
    monkeypatch.setattr(reader._ends, "ask", lambda _status: Cut.of_topic("flights.events", [5]))
    assert reader.source_end(STATUS) == (Cut.of_topic("flights.events", [5]), 3)
    monkeypatch.setattr(reader._ends, "ask", away)
    assert reader.source_end(STATUS) is None


def test_polls_share_a_connection_until_an_error(
    broker: Broker, reader: KafkaReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection each second would cost the brokers more than the read."""
    used: list[Any] = []
    monkeypatch.setattr(
        kafka_reader.job_status,
        "read_new_with",
        lambda consumer, _job, _status: used.append(consumer) or [],  # type: ignore[func-returns-value]
    )
    for _ in range(3):
        reader.poll(STATUS)
    assert (len({id(one) for one in used}), broker.closed) == (1, 0)

    def away(*_given: Any) -> Any:
        raise UnavailableError("no answer")

    monkeypatch.setattr(kafka_reader.job_status, "read_new_with", away)
    with pytest.raises(UnavailableError):
        reader.poll(STATUS)
    assert broker.closed == 1
    reader.close()
    assert broker.closed == 1


def test_without_its_object_store_the_changelog_is_still_restorable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the page says what is missing."""
    reader = KafkaReader(place(settings=Settings(data_dir=tmp_path), snapshots=str(tmp_path / "kept")))
    tiers_asked: list[int] = []

    def sources(*_given: Any) -> RestoreSources:
        tiers = _given[5]
        tiers_asked.append(len(tiers))
        _given[6].warning("snapshot not usable", sequence=3)
        if tiers:
            raise UnavailableError("the store does not answer")
        entries = [Entry(one, value, at) for at, (one, value) in enumerate(STREAM)]
        return RestoreSources(entries, {0: 0, 1: 0}, {0: 0, 1: 0}, NOW_MS)

    monkeypatch.setattr(kafka_reader, "read_sources", sources)
    found = reader.restorable(GENERATION)
    assert tiers_asked == [2, 0]
    assert [one.sequence for one in found.milestones] == [1, 2]
    assert found.notes[0] == "snapshot not usable: sequence 3"
    assert found.notes[-1] == "snapshots are left out: the store does not answer"
