"""A failover, a fork and what was lost, between two real brokers: counted exactly, listed, decided."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import protocol_codec
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics.candidates import origin_parent
from cutwater.adapters.topics.commit_stream import source_end
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import SOURCE_OFFSET, from_origin, milestones_from
from cutwater.core.protocol.records import Claim, Milestone, Withdrawal
from cutwater.mirror.arrivals.fork_watch import ForkWatch
from cutwater.mirror.metrics import Metrics
from cutwater.mirror.service import Mirror
from cutwater.operations.regions.failover import Failover
from cutwater.operations.regions.forks import ForkReader
from support.cli.jsonshapes import parsed
from support.regions.mirroring import (
    ORIGIN,
    Events,
    Running,
    context_of,
    environment_of,
    mirroring,
    process,
    read_all,
    wait_arrived,
)
from support.views.changelogs import Sold, Writing, make_job, now_ms, until
from support.views.snapshots import Told

CARRIED, FORKED, MISSING, ABORTED = 3, 2, 70, 9
KNOWN = 35 * CARRIED + 12
WINDOW = {"window_start": 0, "window_end": 3_600_000}
EVENT = {"watermark_ms": 7_200_000, "event_time_ms": 5, "event_key": None, "event_value": None}
EVENT |= {"event_written_ms": 5, "event_headers": []}


@dataclass
class Regions:
    """One that was left with a fork and events that nobody had copied, and one that went on."""

    own: Cluster
    writing: Writing
    events: Events
    job_file: Path
    claim: Claim
    successor: Milestone
    """The first milestone of the generation that was promoted in the origin's fork."""

    @property
    def copy(self) -> str:
        return from_origin(self.writing.job.topic, ORIGIN)

    def forking(self, there: Cluster | None = None) -> ForkReader:
        return ForkReader(self.own, self.writing.job, ORIGIN, there or self.writing.cluster)

    def commit(self, epoch: int, source_cut: Cut, **changes: Any) -> Milestone:
        """A milestone of the generation that went on here, on this region's own commit stream."""
        parent = origin_parent(self.claim)
        one = replace(
            parent,
            generation=self.claim.generation,
            epoch=epoch,
            sequence=parent.sequence + 1 + epoch,
            source_cut=source_cut,
            attempt=1,
            **changes,
        )
        self._write(topics.milestones(self.writing.job.name), protocol_records.encode(one))
        return one

    def late(self, offsets: Sequence[tuple[int, int]], epoch: int, attempt: int = 1) -> None:
        """List events (partition, offset) of the copy as late, as the driver does."""
        by = {"job": self.writing.job.name, "generation": str(self.claim.generation)}
        for partition, offset in offsets:
            place = {"topic": self.copy, "partition": partition, "offset": offset}
            key = {"generation": by["generation"]} | place | {"key": "shop", **WINDOW}
            value = by | {"attempt": attempt, "epoch": epoch} | EVENT
            encoded = protocol_codec("late_key").encode(key), protocol_codec("late").encode(value)
            self._write(topics.late(self.writing.job.name), encoded[1], encoded[0])

    def _write(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        producer = Producer(self.own.librdkafka())
        producer.produce(topic, key=key, value=value, partition=0)
        assert producer.flush(20) == 0

    def copied(self) -> list[tuple[int, int, int]]:
        """(partition, offset there, offset here) of every record of the copy."""
        return [
            (partition, int(dict(one.headers)[SOURCE_OFFSET]), one.offset)
            for partition in range(self.events.partitions)
            for one in read_all(self.own, self.copy, partition)
        ]

    def mirror_again(self) -> list[tuple[int, int, int]]:
        """A mirror brings what was missing; the whole copy, then."""
        with mirroring(self.own, self.writing.cluster, self.writing.job) as mirror:
            wait_arrived(mirror, self.own, self.writing.job, CARRIED + FORKED + 1)
            found: list[tuple[int, int, int]] = []

            def whole() -> bool:
                found[:] = self.copied()
                return len(found) == KNOWN + MISSING

            mirror.until(whole, "the events")
        return found

    def is_missing(self, record: tuple[int, int, int]) -> bool:
        partition, there, _ = record
        return there >= {place.partition: end for place, end in self.claim.origin_cut}[partition]


@pytest.fixture
def regions(broker: Any, origin: Cluster, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Regions]:
    job, job_file = make_job(tmp_path)
    writing = Writing(origin, job)
    events = Events(writing)
    with mirroring(broker.cluster, origin, job) as mirror:
        for number in range(CARRIED):
            events.produce(30)
            events.transaction(unique("tx"), 5, commit=True)
            writing.epoch([Sold("shop", 1, number)], source_cut=events.cut(), events=35)
        wait_arrived(mirror, broker.cluster, job, CARRIED)
        events.produce(12)  # behind the milestone, and copied all the same
        copy = from_origin(job.topic, ORIGIN)
        mirror.until(lambda: sum(len(read_all(broker.cluster, copy, at)) for at in range(3)) == KNOWN, "them")
    going_on = Failover(broker.cluster, job, "there", ORIGIN, now_ms)
    going_on.fence()
    going_on.prepare(UNREPLICATED)
    claim = going_on.claim(going_on.read_copies(), UNREPLICATED)
    for number in range(FORKED):
        events.produce(20)
        events.transaction(unique("tx"), ABORTED, commit=False)
        writing.epoch([Sold("shop", 1, 100 + number)], source_cut=events.cut(), events=26)
    events.transaction(unique("tx"), MISSING - 20 * FORKED, commit=True)
    successor = writing.promote(2, source_cut=events.cut(), events=8)
    yield Regions(broker.cluster, writing, events, job_file, claim, successor)
    writing.close()


@pytest.mark.slow
def test_a_fork_is_listed_from_the_origin_or_from_what_is_copied(regions: Regions) -> None:
    """Both generations behind the parent; with the origin away only what a mirror has brought since."""
    (one,) = regions.forking().forks()
    told = [(str(line.first), str(line.last), line.milestones, line.events) for line in one.lines or ()]
    wanted = [
        ("g1-local-00000000:4", "g1-local-00000000:5", FORKED, 26 * FORKED),
        (str(regions.successor.token), str(regions.successor.token), 1, 8),
    ]
    assert told == wanted
    assert (str(one.parent.token), one.claim, one.promoted) == ("g1-local-00000000:3", regions.claim, False)
    assert (one.asked, one.open) == (True, True)
    end = source_end(regions.writing.cluster, regions.writing.job.topic)
    assert one.behind == end.records_since(one.parent.source_cut)
    away = regions.forking(Cluster("127.0.0.1:1"))
    (one,) = away.forks()
    assert (one.lines, one.asked, one.behind, one.open) == ([], False, None, False)
    regions.mirror_again()
    (one,) = away.forks()
    assert [(str(line.first), str(line.last), line.milestones, line.events) for line in one.lines or ()] == wanted
    with pytest.raises(UnavailableError):
        away.loss()


@pytest.mark.slow
def test_where_the_region_came_back_the_fork_ends(regions: Regions) -> None:
    """A generation that was started from a milestone of here contradicts nothing."""
    first = regions.commit(0, regions.claim.source_cut)
    before = [one.lines for one in regions.forking().forks()]
    back = Generation(9, ORIGIN, protocol_records.hash_of(first).hex()[:8])
    assert regions.writing.last is not None
    last = regions.writing.last
    regions.writing.publish(
        replace(
            last,
            generation=back,
            sequence=last.sequence + 1,
            parent_hash=protocol_records.hash_of(last),
            rewinds_to=3,
        )
    )
    (one,) = regions.forking().forks()
    assert ([one.lines], one.promoted) == (before, True)
    job = regions.writing.job.name
    given_up = Withdrawal(job, regions.claim.generation, "too late: it is promoted", now_ms())
    regions._write(topics.candidates(job), protocol_records.encode(given_up))
    assert [one.promoted for one in regions.forking().forks()] == [True]


@pytest.mark.slow
def test_the_loss_is_exact(regions: Regions) -> None:
    """I6: by the oracle's count, before the events are brought, while they are read, and with those too late."""
    fork, found = regions.forking().loss()
    assert (fork.milestones, found.exact) == (FORKED + 1, True)
    assert (found.events, found.copied, found.absent, found.read, found.late) == (MISSING, 0, MISSING, 0, (0, 0))
    records = regions.mirror_again()
    missing = [one for one in records if regions.is_missing(one)]
    known = [one for one in records if not regions.is_missing(one)]
    assert len(missing) == MISSING
    _, found = regions.forking().loss()
    assert (found.events, found.copied, found.absent, found.read) == (MISSING, MISSING, 0, 0)
    # Five came too late, and were listed before the promotion and after it; and two that were here before.
    early, afterwards, other = missing[:2], missing[2:5], known[-2:]
    candidate = replace(origin_parent(regions.claim), generation=regions.claim.generation, attempt=1)
    writer = TransactionalWriter(regions.own, f"{regions.writing.job.name}-candidate")
    writer.initialise()
    stage = replace(candidate, epoch=0, sequence=1, late=3)
    writer.write(topics.candidates(regions.writing.job.name), [protocol_records.encode(stage)])
    regions.late([(one[0], one[2]) for one in [*early, other[0]]], epoch=0)
    regions.late([(one[0], one[2]) for one in [*afterwards, other[1]]], epoch=1)
    regions.late([(missing[9][0], missing[9][2])], epoch=1, attempt=7)  # of one that did not win
    half = {one: [two[2] for two in missing if two[0] == one][4] for one in range(3)}
    regions.commit(1, Cut.of_topic(regions.copy, [half[one] for one in range(3)]), late=4)
    _, found = regions.forking().loss()
    assert found.late == (5, 5)
    assert (found.copied, found.absent, found.read) == (MISSING, 0, 12)
    regions.commit(2, source_end(regions.own, regions.copy))
    _, found = regions.forking().loss()
    assert (found.events, found.read, found.exact) == (MISSING, MISSING, True)


@pytest.mark.slow
def test_a_partition_that_was_never_copied_is_lost_too(regions: Regions) -> None:
    """Of a source that grew there: the mirror stopped it, and the claim names no position of what is new."""
    topic = regions.events.topic
    client = AdminClient(regions.writing.cluster.librdkafka())
    for done in client.create_partitions([NewPartitions(topic, 4)]).values():
        done.result(10)
    producer = Producer(regions.writing.cluster.librdkafka())
    for number in range(5):
        producer.produce(topic, b"%d" % number, partition=3)
    assert producer.flush(10) == 0
    _, found = regions.forking().loss()
    assert (found.events, found.absent, found.exact) == (MISSING + 5, MISSING + 5, True)
    new = found.partitions[-1]
    assert (new.place.partition, new.copied, new.records) == (3, 0, 5)


@pytest.mark.slow
def test_what_is_produced_there_after_the_promotion_is_told_apart(regions: Regions) -> None:
    """Run again later, the loss counts that, too: how much of it is of later is said beside it."""
    _, found = regions.forking().loss()
    assert (found.events, found.afterwards, found.promoted_ms) == (MISSING, None, None)
    assert "produced later" not in call(regions, "loss").stdout
    promoted = now_ms()
    regions.commit(0, regions.claim.source_cut, committed_ms=promoted)
    regions.commit(1, regions.claim.source_cut, committed_ms=promoted + 3_600_000)
    _, found = regions.forking().loss()
    assert (found.events, found.afterwards, found.promoted_ms) == (MISSING, 0, promoted)
    regions.events.produce(7, timestamp=promoted + 1)
    regions.events.produce(4, timestamp=promoted)
    _, found = regions.forking().loss()
    assert (found.events, found.afterwards, found.exact) == (MISSING + 11, 7, True)
    told = parsed(["forks", "loss"], call(regions, "loss", "--json").stdout)
    assert (told["events"]["missing"], told["events"]["after_promotion"]) == (MISSING + 11, 7)
    assert sum(one["after_promotion"] for one in told["partitions"]) == 7
    assert "produced later" in call(regions, "loss").stdout


@contextmanager
def telling(regions: Regions, log: Told) -> Iterator[Callable[[int], None]]:
    """A mirror that looks for forks twenty times as often; gives what waits until it counts so many milestones."""
    own, origin, job, metrics = regions.own, regions.writing.cluster, regions.writing.job, Metrics()
    context = context_of(own, origin, job, log=log, metrics=metrics)
    forks = ForkWatch(replace(context, clock_s=lambda: 20 * time.monotonic()), job)
    running = Running(Mirror(context, job, forks=forks))
    try:
        yield lambda count: running.until(
            lambda: metrics.registry.get_sample_value("cutwater_mirror_fork_milestones") == count,
            f"{count} milestones that contradict",
        )
    finally:
        running.end()


@pytest.mark.slow
def test_the_mirror_that_meets_a_fork_says_so(regions: Regions) -> None:
    """As it grows, and until it is decided; once in the log. What comes behind the return contradicts nothing."""
    log, writing = Told(), regions.writing
    with telling(regions, log) as counts:
        counts(FORKED + 1)
        writing.epoch([], source_cut=regions.events.cut())
        counts(FORKED + 2)
    first = regions.commit(0, regions.claim.source_cut)
    assert writing.last is not None
    back, last = Generation(9, ORIGIN, protocol_records.hash_of(first).hex()[:8]), writing.last
    writing.publish(
        replace(last, generation=back, sequence=last.sequence + 1, parent_hash=protocol_records.hash_of(last))
    )
    with mirroring(regions.own, writing.cluster, writing.job):
        wait_copied_stream(regions)
    require_told_by_the_service(regions)
    with telling(regions, Told()) as counts:
        counts(FORKED + 2)
        regions.forking().decide(regions.claim.generation, "readers follow it", now_ms())
        counts(0)
    (line,) = [fields for _, text, fields in log.lines if text == "fork"]
    assert str(regions.claim.generation) in line["reason"]


def require_told_by_the_service(regions: Regions) -> None:
    """As it is started by its users."""
    log = regions.job_file.parent / "mirror.log"
    running = process(regions.own, regions.writing.cluster, regions.job_file, log)
    try:
        until(lambda: "'cutwater forks list' shows both lines" in log.read_text(), "the line in its log")
    finally:
        running.terminate()
        assert running.wait(30) == 0


def wait_copied_stream(regions: Regions) -> None:
    stream = topics.milestones(regions.writing.job.name)
    wanted = len(read_all(regions.writing.cluster, stream, 0))
    copy = milestones_from(regions.writing.job.name, ORIGIN)
    until(lambda: len(read_all(regions.own, copy, 0)) == wanted, "the stream to be copied")


def call(regions: Regions, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cutwater.cli.main", "forks", words[0], str(regions.job_file), *words[1:]],
        env=environment_of(regions.own, regions.writing.cluster) | {"NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@pytest.mark.slow
def test_a_decision_is_recorded_and_listed(regions: Regions) -> None:
    """The verbs: a fork that nobody decided is exit 1; decided, it is still listed, with what contradicts."""
    with pytest.raises(UsageError, match="takes part in no fork"):
        regions.forking().decide(Generation(7, "us"), "why", now_ms())
    shown = call(regions, "list")
    assert (shown.returncode, "not decided" in shown.stdout) == (1, True)
    assert str(regions.successor.token) in shown.stdout
    kept = call(regions, "decide", "--keep", str(regions.claim.generation), "--reason", "readers follow [it]")
    assert kept.returncode == 0, kept.stderr
    shown = call(regions, "list")
    assert (shown.returncode, "readers follow [it]" in shown.stdout) == (0, True)
    told = parsed(["forks", "list"], call(regions, "list", "--json").stdout)
    (one,) = told["forks"]
    assert (told["region"], one["origin"], one["milestones"]) == ("there", ORIGIN, FORKED + 1)
    assert one["decision"]["keeps"] == str(regions.claim.generation)
    found = parsed(["forks", "loss"], call(regions, "loss", "--origin", ORIGIN, "--json").stdout)
    assert found["exact"]
    assert found["events"] == {
        "missing": MISSING,
        "after_promotion": None,
        "copied_since": 0,
        "absent": MISSING,
        "read": 0,
        "late": 0,
        "late_pairs": 0,
    }
    assert "not copied at the failover" in call(regions, "loss").stdout
