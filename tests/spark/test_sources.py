"""A generation of another region: it reads the copy of that region's source and its own, against an oracle.

The first generation runs in a cluster of its own (`us`), which writes its events in transactions, so that offsets
have gaps. What a mirror would have brought until then is copied to the other cluster (`eu`), where the offsets are
others; the second generation is claimed there as a failover does.
"""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cutwater.adapters.avro.codec import Codec, crc64, protocol_codec
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.commit_stream import source_end
from cutwater.core.errors import UsageError
from cutwater.core.events import rejection
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import from_origin
from cutwater.core.protocol.records import Barrier, Milestone
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.java import find_java
from cutwater.local.processes.supervisor import Supervisor
from support import lineage
from support.crashes import Crashes
from support.harness import Flow, flow, wait_until
from support.kafka.copied_topic import Copy, Record, copies, read, write
from support.lineage import (
    EVENT,
    MINUTE_MS,
    Pair,
    Place,
    Second,
    assert_state,
    events,
    job_text,
    late_of,
    read_all,
)
from support.protocol_samples import milestone

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("shared_spark")]

KIND = "tumbling"
MEASURED = ("count", "sum_number", "first_label", "last_small")
"""The order is what two sources could make wrong; all measures over a seed are in test_generation_start.py."""
PARTITIONS = 3
US, EU = "us", "eu"
FIRST = Generation(1, US)
FAR = 1_000
"""The oracle's number of partition 0 of `us`: behind `eu` in the order of origins."""
BROKEN = b"no event at all"


@pytest.fixture(scope="module")
def away(tmp_path_factory: pytest.TempPathFactory, kafka_jars: list[Path]) -> Iterator[Cluster]:
    """The cluster of the other region."""
    embedded = Broker(tmp_path_factory.mktemp("away"), find_java(), kafka_jars)
    with Supervisor([embedded.supervised()]) as supervisor:
        supervisor.start(threading.Event())
        yield embedded.cluster


class Regions(NamedTuple):
    """One job in both regions."""

    us: Flow
    eu: Flow

    @property
    def copy(self) -> str:
        return from_origin(self.eu.source, US)


@pytest.fixture
def regions(
    away: Cluster,
    broker: Any,
    tmp_path: Path,
    unique: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Regions]:
    monkeypatch.setattr(lineage, "MEASURES", {one: lineage.MEASURES[one] for one in MEASURED})
    text, schema = job_text(unique("sources"), KIND), json.dumps(EVENT)
    text = text.replace("max_events_per_epoch: 200", "max_events_per_epoch: 300")
    with ExitStack() as stack:
        us = stack.enter_context(flow(away, text, tmp_path / US, schema))
        eu = stack.enter_context(flow(broker.cluster, text, tmp_path / EU, schema))
        us.settings["CUTWATER_REGION"], eu.settings["CUTWATER_REGION"] = US, EU
        owned = topics.generation_topics(us.job.name, FIRST, PARTITIONS)
        ensure_topics(away, [one for one in owned if one.name == topics.changelog(us.job.name, FIRST)])
        yield Regions(us, eu)


def produce(job: Flow, made: list[dict[str, Any]], size: int = 30) -> None:
    """Events of few different times, those of a key in every partition: their order must be told by all it has."""
    records = [
        Record(number % PARTITIONS, None, encoded({**one, "at": one["at"] // MINUTE_MS * MINUTE_MS}), [])
        for number, one in enumerate(made)
    ]
    write(job.cluster, job.source, records, size)


def encoded(event: dict[str, Any]) -> bytes:
    return Codec(EVENT).encode(event)


def run_first(us: Flow) -> Milestone:
    """Run the first generation over some events and end it; returns a milestone in the midst of its stream."""
    gone = [Record(number % PARTITIONS, None, BROKEN, []) for number in range(300)]
    write(us.cluster, us.source, gone, 300, aborted=True)  # so that offsets there are far from those of a copy
    produce(us, events(0, 900))
    signaller, driver = us.signal(), us.driver()
    us.wait_committed()
    for process in (driver, signaller):
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    return [one for one, _ in us.milestones() if one.events][1]


def copy_changelog(regions: Regions, parent: Milestone) -> Cut:
    """Copy it; returns where the parent's cut lies in the copy.

    Rows of later epochs stand below it, in a transaction that was aborted.
    """
    us, eu = regions
    topic = topics.changelog(us.job.name, FIRST)
    owned = topics.generation_topics(eu.job.name, FIRST, PARTITIONS)
    ensure_topics(eu.cluster, [one for one in owned if one.name == topic])
    rows = read(us.cluster, topic)
    ends = parent.changelog_cut.as_dict()
    later = [one for one in rows if one.offset() >= ends[TopicPartition(topic, one.partition())]]
    assert later, "the parent must not be the last milestone"
    write(eu.cluster, topic, copies(later), len(later), aborted=True)
    write(eu.cluster, topic, copies(rows), 50)
    return Copy(eu.cluster, topic).local(parent.changelog_cut)


def fail_over(regions: Regions, parent: Milestone, lost: int) -> tuple[Second, Copy]:
    """Copy all but the newest events of each partition, and claim the second generation."""
    us, eu = regions
    ensure_topics(eu.cluster, [topics.events(regions.copy, PARTITIONS)])
    found = read(us.cluster, us.source)
    kept = [
        one
        for number in range(PARTITIONS)
        for one in [message for message in found if message.partition() == number][:-lost]
    ]
    # A header of that name which the event had before is not the mirror's.
    marked = [one._replace(headers=[("source-offset", b"7"), *one.headers]) for one in copies(kept)]
    write(eu.cluster, regions.copy, marked, 50)
    copy = Copy(eu.cluster, regions.copy)
    begun = Cut.of_topic(eu.source, [0] * PARTITIONS)
    source_cut = Cut.of({**copy.local(parent.source_cut).as_dict(), **begun.as_dict()})
    changelog_cut = copy_changelog(regions, parent)
    return Second(eu, parent, 5, EU, origin=US, source_cut=source_cut, changelog_cut=changelog_cut), copy


def covered(second: Second, copy: str) -> list[Barrier]:
    """The barriers once they cover what stands on both sources."""
    cluster, source = second.job.cluster, second.job.source
    end = Cut.of({**source_end(cluster, source).as_dict(), **source_end(cluster, copy).as_dict()})

    def look() -> list[Barrier]:
        found = second.barriers()
        return found if found and found[-1].source_cut.covers(end) else []

    barriers: list[Barrier] = wait_until(look, f"a barrier that covers {end}; logs in {second.job.folder}")
    return barriers


def in_order(barrier: Any, own: str) -> Any:
    """The same with a source cut in the oracle's numbers, and in the offsets of the origins."""
    ends = {at.partition: offset for at, offset in barrier.source_cut if at.topic == own}
    far = {FAR + at.partition: offset for at, offset in barrier.origin_cut}
    return replace(barrier, source_cut=Cut.of({TopicPartition("", at): end for at, end in (ends | far).items()}))


def readings(cluster: Cluster, topic: str, copy: Copy | None = None) -> dict[Place, dict[str, Any]]:
    """The usable events of a topic, by where they stand in the oracle's order."""
    found = {}
    for one in read(cluster, topic):
        place, value = TopicPartition(topic, one.partition()), one.value()
        if value == BROKEN or (copy and one.offset() not in copy.there[place]):
            continue
        at = Place(FAR + place.partition, copy.there[place][one.offset()]) if copy else Place(*_own(one))
        row = Codec(EVENT).decode(value)
        found[at] = {**row, "at": round(row["at"].timestamp() * 1000)}
    return found


def _own(message: Any) -> tuple[int, int]:
    return message.partition(), message.offset()


def late_list(second: Second, copy: Copy) -> Counter[tuple[Place, Pair]]:
    """What the attempts that won its epochs have listed as late, by the oracle's place."""
    won = {(one.epoch, one.attempt) for one in second.barriers()}
    keys, values = protocol_codec("late_key"), protocol_codec("late")
    found: Counter[tuple[Place, Pair]] = Counter()
    for key, value in read_all(second.job, topics.late(second.job.job.name)):
        one, of = values.decode(value), keys.decode(key)
        if (one["epoch"], one["attempt"]) in won:
            place = TopicPartition(of["topic"], of["partition"])
            far = copy.there.get(place)
            at = Place(FAR + place.partition, far[of["offset"]]) if far else Place(place.partition, of["offset"])
            start, end = (round(of[f"window_{edge}"].timestamp() * 1000) for edge in ("start", "end"))
            found[at, Pair(of["key"], start, end)] += 1
    return found


def assert_whole(regions: Regions, second: Second, barriers: list[Barrier], copy: Copy) -> None:
    """State, late list and cuts of the second generation are those of its lineage."""
    us, eu = regions
    parent, source = second.parent, eu.source
    assert [one.epoch for one in barriers] == list(range(len(barriers)))
    for one in barriers:
        assert one.origin_cut == copy.origin_cut(parent.source_cut, one.source_cut), one.epoch
    before_us = {FAR + at.partition: offset for at, offset in parent.source_cut}
    own = [one for one, _ in us.milestones() if one.epoch <= parent.epoch]
    first = [
        replace(
            one, source_cut=Cut.of({TopicPartition("", FAR + at.partition): end for at, end in one.source_cut})
        )
        for one in own
    ]
    there, here = readings(eu.cluster, regions.copy, copy), readings(eu.cluster, source)
    inherited = late_of(there, first, {}, 0)
    placed = [in_order(one, source) for one in barriers]
    late = late_of(there | here, placed, before_us, parent.watermark_ms)
    assert late_list(second, copy) == Counter(late), "each late pair once, at its own place, and no other"
    assert {at.partition >= FAR for at, _ in late} == {True, False}, "the test must make late events of both"
    for one in {placed[0], placed[len(placed) // 2], placed[-1]}:
        assert_state(second, one, there | here, inherited | late, KIND)


def letters(second: Second) -> set[tuple[str, int, int, str]]:
    """Topic, partition and offset of the dead letters, and why."""
    keys, values = protocol_codec("dead_letter_key"), protocol_codec("dead_letter")
    found = read_all(second.job, topics.dead_letters(second.job.job.name))
    decoded = ((keys.decode(key), values.decode(value)) for key, value in found)
    return {(of["topic"], of["partition"], of["offset"], one["reason"]) for of, one in decoded}


@pytest.mark.slow
def test_a_generation_goes_on_with_a_copy_and_its_own_source(regions: Regions) -> None:
    """Order, late pairs, dead letters and both regions' offsets are right, whichever attempt runs an epoch."""
    us, eu = regions
    parent = run_first(us)
    write(us.cluster, us.source, [Record(1, None, BROKEN, [])], 1)
    produce(us, events(900, 30))
    produce(eu, events(500, 300))
    second, copy = fail_over(regions, parent, lost=5)
    # Killed behind the barrier of epoch 1: the next attempt reads that epoch again, and tells it again.
    Crashes(eu).arm("cutwater_spark.driver", "barrier-written", times=2, **second.env).wait()
    told = second.barriers()
    assert [(one.epoch, one.attempt) for one in told] == [(0, 1), (1, 1)]
    driver = second.driver()
    covered(second, regions.copy)
    # From here on only the own source has anything new; and then records of which no mirror says where they stood.
    produce(eu, events(800, 200))
    write(eu.cluster, eu.source, [Record(2, None, BROKEN, [])], 1)
    barriers = covered(second, regions.copy)
    assert_whole(regions, second, barriers, copy)
    foreign = [Record(0, None, encoded(events(900, 1)[0]), headers) for headers in NOT_A_MIRRORS]
    write(eu.cluster, regions.copy, foreign, 9)
    barriers = covered(second, regions.copy)
    assert_whole(regions, second, barriers, copy)
    assert {one.attempt for one in barriers} == {1, 2}
    assert (barriers[1].attempt, barriers[1].origin_cut) == (2, told[1].origin_cut)
    assert any(one.events and same(barriers, one, regions.copy) for one in barriers), "one of the own source alone"
    ends = source_end(eu.cluster, regions.copy).as_dict()
    first = ends[TopicPartition(regions.copy, 0)] - 1 - len(foreign)
    [garbled] = [one.offset() for one in read(eu.cluster, regions.copy) if one.value() == BROKEN]
    [own] = [one.offset() for one in read(eu.cluster, eu.source) if one.value() == BROKEN]
    assert letters(second) == {
        (regions.copy, 1, garbled, rejection.UNDECODABLE),
        (eu.source, 2, own, rejection.UNDECODABLE),
        *((regions.copy, 0, first + number, rejection.NO_SOURCE_OFFSET) for number in range(len(foreign))),
    }
    assert sum(one.rejected for one in barriers) == 2 + len(foreign)
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(60) == 0


NOT_A_MIRRORS: list[list[tuple[str, bytes | None]]] = [
    [],
    [("source-offset", None)],
    [("source-offset", b"x")],
    [("source-offset", b"5"), ("source-offset", b"")],
]


def same(barriers: list[Barrier], one: Barrier, topic: str) -> bool:
    """Has an epoch read nothing of a topic?"""
    before = barriers[one.epoch - 1].source_cut if one.epoch else Cut()
    return all(before.offset(place) == offset for place, offset in one.source_cut if place.topic == topic)


@pytest.mark.slow
def test_a_source_that_is_not_here_is_named(regions: Regions) -> None:
    """Before anything is read; the topic and the parent that has read it are told."""
    eu, missing = regions.eu, f"{regions.eu.source}.from-ap"
    changelog_cut = Cut.of_topic(topics.changelog(eu.job.name, FIRST), [1])
    parent = milestone(
        5,
        generation=FIRST,
        job=eu.job.name,
        source_cut=Cut.of_topic(eu.source, [1]),
        changelog_cut=changelog_cut,
        schema_fingerprint=crc64(eu.job.state_schema).hex(),
        definition=eu.job.fingerprint,
    )
    places = {"source_cut": Cut.of_topic(missing, [0]), "changelog_cut": changelog_cut}
    second = Second(eu, parent, 3, EU, origin=US, **places)
    assert second.driver().wait(120) == UsageError.exit_code
    said = eu.log("cutwater_spark.driver").read_text()
    assert f"{parent.token} has read {missing}/0, but there is no topic {missing} here" in said
