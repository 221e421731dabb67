"""Dead letters and late events: complete and exact, on a real broker, against an oracle, also after kill -9."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from cutwater.adapters.avro.codec import protocol_codec
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.undatable_records import undatable
from cutwater.adapters.topics.rejected_events import dead_letters, late_pairs
from cutwater.core.errors import UsageError
from cutwater.core.events import rejection
from cutwater.core.protocol import topics
from cutwater.local.machine.ports import free_ports
from support import crashing_driver
from support.events import readings
from support.harness import Flow, flow, kill_session, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("shared_spark")]

DAY_MS = 86_400_000


@pytest.fixture(params=["sliding", "tumbling"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def job(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Flow]:
    text = readings.job_text(unique("lost"))
    with flow(broker.cluster, text, tmp_path, json.dumps(readings.SCHEMA)) as made:
        yield made


def milestones(job: Flow) -> list[Any]:
    return [one for one, _ in job.milestones()]


def served(job: Flow) -> Counter[Any]:
    """Counted events by (key, window), as the changelog says."""
    rows = job.state(milestones(job)[-1])
    size = job.job.window.size_ms
    return Counter({(key, start, start + size): row["ticks"] for (key, start), row in rows.items()})


def letters_whole(job: Flow) -> dict[tuple[int, int], dict[str, Any]]:
    """Every record of the dead-letter topic by the event's place, the newest one."""
    consumer, found = make_consumer(job.cluster), {}
    topic = topics.dead_letters(job.job.name)
    for partition in range(job.job.shards.partitions):
        low, high = bounds(consumer, topic, partition)
        for message in read_range(consumer, topic, partition, low) if high else ():
            key = protocol_codec("dead_letter_key").decode(message.key())
            found[key["partition"], key["offset"]] = protocol_codec("dead_letter").decode(message.value())
    consumer.close()
    return found


def crashing(job: Flow) -> subprocess.Popen[bytes]:
    """Start the driver that dies between an epoch's lists and its barrier."""
    tests = str(Path(crashing_driver.__file__).parents[1])
    return job.start(
        "support.crashing_driver", PYTHONPATH=os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
    )


def test_each_reason_is_listed_with_the_bytes_of_its_event(job: Flow) -> None:
    """Every way of being unusable: its own reason, key, value, headers and timestamp kept; the rest is counted."""
    now = time.time_ns() // 1_000_000
    good = readings.encode("k1", readings.START_MS, 7)
    huge = b"\xff" * 1_048_000  # the source topic takes 1,048,588 bytes with everything around them
    wanted: list[tuple[bytes | None, str]] = [
        (None, rejection.NO_VALUE),
        (b"", rejection.UNDECODABLE),
        (b"not avro at all", rejection.UNDECODABLE),
        (good[:-1], rejection.UNDECODABLE),
        (good + b"\x00", rejection.UNDECODABLE),
        (good[:10], rejection.UNDECODABLE),
        (good[:10] + b"\x02\xfe\xff\xff\xff\x0f", rejection.UNDECODABLE),  # a string of 2 GB
        (
            good[:10] + b"\x02\x80\xd0\xac\xf3\x0e",
            rejection.UNDECODABLE,
        ),  # one that Avro would allocate
        (good[:10] + b"\x08", rejection.UNDECODABLE),  # a branch that the union does not have
        (b"\xc3\x01" + bytes(8) + good[10:], rejection.UNKNOWN_SCHEMA),
        (huge, rejection.TOO_LARGE),
        (readings.encode(None, readings.START_MS), rejection.NO_KEY),
        (readings.encode("k" * (rejection.MAX_KEY_BYTES + 1), readings.START_MS), rejection.KEY_TOO_LARGE),
        (readings.encode("ü" * rejection.MAX_KEY_BYTES, None), rejection.KEY_TOO_LARGE),  # bytes, not letters
        (readings.encode("k1", None), rejection.NO_EVENT_TIME),
        (readings.encode("k1", now + 2 * DAY_MS), rejection.TOO_FAR_AHEAD),
        (readings.encode("k1", 2**62), rejection.UNDECODABLE),  # a time that no clock says
        (readings.encode("k1", -(2**62)), rejection.UNDECODABLE),
        (readings.encode("k1", -62_135_596_800_000), rejection.UNDECODABLE),
        (readings.encode("k1", readings.START_MS // 1_000), rejection.TOO_FAR_BEHIND),  # seconds
        (good.replace(b"k1", b"\xff\xfe"), rejection.UNDECODABLE),  # a key that no reader could take back
    ]
    readings.produce_raw(job, [value for value, _ in wanted], partition=1, key=None)
    longest = "ü" * (rejection.MAX_KEY_BYTES // 2)
    readings.produce_raw(job, [good] * 4 + [readings.encode(longest, readings.START_MS)])
    job.signal()
    port = free_ports(1)[0]
    job.driver(CUTWATER_DRIVER_PORT=str(port))
    milestone = job.wait_committed()
    found = dead_letters(job.cluster, job.job.name)
    assert found.problems == []
    assert {one.event.offset: one.reason for one in found.entries} == dict(
        enumerate(reason for _, reason in wanted)
    )
    assert {one.event.partition for one in found.entries} == {1}
    flaws = {one.event.offset: (one.field, one.rule) for one in found.entries}
    assert all(rule for _, rule in flaws.values())
    assert flaws[len(wanted) - 1] == ("key", "is not UTF-8")
    assert {field for field, _ in flaws.values()} == {None, "key", "at"}
    assert {one.head for one in found.entries} == {
        value[:200] if value is not None else None for value, _ in wanted
    }
    # of expressions: expressions/test_computed_columns.py
    # of copies alone: test_sources.py; of sums of decimals: test_measure_ranges.py; of time: test_jumps_held.py
    elsewhere = {rejection.NO_SOURCE_OFFSET, rejection.NO_ROOM, rejection.JUMPS_AHEAD}
    elsewhere.add(rejection.FAILED_EXPRESSION)
    told = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=20).text
    for reason, count in Counter(reason for _, reason in wanted).items():
        assert f'cutwater_driver_rejected_by_reason_total{{reason="{reason}"}} {count}.0' in told
    assert {*rejection.REASONS} - elsewhere == {one.reason for one in found.entries}, "each reason is in this test"
    for (_, offset), letter in letters_whole(job).items():
        assert letter["event_value"] == wanted[offset][0]
        assert letter["event_key"] is None
        assert letter["event_headers"] == [{"key": "trace", "value": b"7f"}]
        assert abs(letter["event_written_ms"] - now) < 600_000
        assert (letter["attempt"], letter["replayed"]) == (1, None)
    assert sum(count for (key, *_), count in served(job).items() if key == longest) == 3
    assert sum(served(job).values()) == 5 * 3, "five events in three windows each"
    assert sum(one.rejected for one in milestones(job)) == len(wanted)
    assert milestone.late == 0


def dated(job: Flow, value: bytes, timestamp_ms: int) -> KafkaError | None:
    """Produce one record with this date; returns why the broker refused it."""
    errors: list[KafkaError | None] = []
    producer = Producer(job.cluster.librdkafka())
    producer.produce(
        job.job.topic,
        value=value,
        partition=0,
        timestamp=timestamp_ms,
        on_delivery=lambda why, _: errors.append(why),
    )
    assert producer.flush(20) == 0
    return errors[0]


@pytest.mark.slow
def test_a_record_dated_in_microseconds_stops_nothing(job: Flow) -> None:
    """A topic of ours refuses it. Where a topic lets it in, a usable event counts, an unusable one is listed.

    One dated in nanoseconds Spark's source cannot read at all: the driver says so and what to do.
    """
    mistaken = readings.START_MS * 1000
    refused = dated(job, b"bad", mistaken)
    assert refused is not None
    assert refused.code() == KafkaError.INVALID_TIMESTAMP
    admin = AdminClient(job.cluster.librdkafka())
    entry = ConfigEntry(topics.TIMESTAMP_AHEAD, str(2**63 - 1), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, job.job.topic, incremental_configs=[entry])
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(20)
    wait_until(lambda: dated(job, b"bad", mistaken) is None, "the broker goes by the new setting")
    assert dated(job, readings.encode("k1", readings.START_MS), mistaken) is None
    job.signal()
    driver = job.driver()
    job.wait_committed()
    found = dead_letters(job.cluster, job.job.name)
    assert found.problems == []
    assert [(one.reason, one.written_ms) for one in found.entries] == [(rejection.UNDECODABLE, mistaken)]
    assert sum(served(job).values()) == 3
    assert dated(job, b"bad", mistaken * 1000) is None
    assert driver.wait(90) == UsageError.exit_code
    log = job.log("cutwater_spark.driver").read_text()
    assert f"a record of {job.job.topic} is dated further" in log
    found_at = undatable(job.cluster, [job.job.topic])
    assert [one.partition(" ")[0] for one in found_at] == [f"{job.job.topic}/0"]
    assert f"it is {found_at[0]}: " in log


@pytest.mark.slow
def test_late_pairs_are_exact(broker: Any, tmp_path: Path, unique: Callable[[str], str], kind: str) -> None:
    """State and late list together are the source: each event is in all its windows, or in the list once."""
    sliding = kind == "sliding"
    text = readings.job_text(unique("late"), sliding) + readings.BEFORE_1970
    with flow(broker.cluster, text, tmp_path, json.dumps(readings.SCHEMA)) as job:
        # Before 1970: closed for Spark from the beginning.
        early = [{"key": "k0", "at": at, "value": 0} for at in (-1, -readings.SIZE_MS, 1, -(10**9))]
        job.produce([*early, *readings.drifting(2_400, 11)])
        job.signal()
        first = job.driver()
        job.wait_committed()
        first.terminate()  # the first epoch after a restart knows the watermark, too
        assert first.wait(60) == 0
        job.produce(readings.drifting(1_500, 12))
        job.driver()
        job.wait_committed()
        late, counted = readings.oracle(job, milestones(job), sliding)
        found = late_pairs(job.cluster, job.job.name)
        assert found.problems == []
        assert readings.told(found.entries) == late
        # What was below the horizon from the beginning was collected, or is about to be.
        shown = served(job)
        horizon_ms = milestones(job)[-1].horizon_ms
        assert shown == Counter({one: n for one, n in counted.items() if one[2] > horizon_ms or one in shown})
        assert len(late) > 100, "the test must make late events"
        assert sum(one.late for one in milestones(job)) == len(late)
        assert len({place for place, _ in late}) == len(late)
        assert {one.attempt for one in milestones(job)} == {1, 2}


@pytest.mark.slow
def test_kill_9_between_the_lists_and_the_barrier(job: Flow) -> None:
    """An epoch whose lists were written and whose barrier was not is listed once, by the attempt that wins."""
    made = readings.drifting(2_400, 21)
    for first in range(0, len(made), 300):
        job.produce(made[first : first + 300])
        readings.produce_raw(job, [b"bad", None], partition=first // 300 % 2)
    job.signal()
    first_driver = crashing(job)
    assert first_driver.wait(150) == -9
    kill_session(first_driver.pid)
    attempt, epoch = (int(one) for one in (job.folder / "crashed").read_text().split())
    left = Counter(one["epoch"] for one in letters_whole(job).values() if one["attempt"] == attempt)
    assert left[epoch] > 0, "the crash came after the list"
    assert epoch not in {one.epoch for one in milestones(job)}
    shown = dead_letters(job.cluster, job.job.name)
    assert shown.problems == []
    assert epoch not in {one.by.epoch for one in shown.entries}, "not yet of the lineage"
    job.driver()
    job.wait_committed()
    dead, pairs = dead_letters(job.cluster, job.job.name), late_pairs(job.cluster, job.job.name)
    assert dead.problems + pairs.problems == []
    late, counted = readings.oracle(job, milestones(job), True)
    assert readings.told(pairs.entries) == late
    assert served(job) == counted
    unusable = {place for place, value in readings.source(job).items() if not readings.usable(value)}
    assert {(one.event.partition, one.event.offset) for one in dead.entries} == unusable
    assert len(dead.entries) == len(unusable) == 16
    assert {one.by.attempt for one in dead.entries if one.by.epoch == epoch} == {2}
    assert any(one.by.epoch == epoch for one in pairs.entries)


@pytest.mark.slow
def test_what_only_a_killed_attempt_rejected_is_not_listed(job: Flow) -> None:
    """After a crash with a smaller max_event_bytes, an event that the next attempt uses is no dead letter.

    The epoch had lists and no row, so nothing binds the next attempt to the settings that it was begun with.
    """
    text = job.job_file.read_text() + readings.BEFORE_1970
    job.job_file.write_text(text + "max_event_bytes: 20\n")
    job.produce([{"key": "k" * 30, "at": readings.START_MS, "value": 1}])
    readings.produce_raw(job, [b"bad", readings.encode("k1", -readings.SIZE_MS)])
    job.signal()
    first = crashing(job)
    assert first.wait(150) == -9
    kill_session(first.pid)
    assert Counter(one["reason"] for one in letters_whole(job).values())[rejection.TOO_LARGE] == 1
    job.job_file.write_text(text)
    job.driver()
    job.wait_committed()
    found = dead_letters(job.cluster, job.job.name)
    assert found.problems == []
    assert [one.reason for one in found.entries] == [rejection.UNDECODABLE]
    assert served(job)["k" * 30, *readings.windows(readings.START_MS, True)[0]] == 1


@pytest.mark.slow
def test_skew_between_partitions_is_told_and_warned_of(job: Flow) -> None:
    """Partitions further apart than the lateness: in the milestone, and as one warning in the driver's log."""
    ahead = [readings.encode("k1", readings.START_MS + 5 * 3_600_000)] * 20
    readings.produce_raw(job, [readings.encode("k2", readings.START_MS)] * 20, partition=0)
    readings.produce_raw(job, ahead, partition=1)
    job.signal()
    job.driver()
    job.wait_committed()
    assert milestones(job)[0].skew_ms == 5 * 3_600_000
    readings.produce_raw(job, ahead, partition=1)
    assert job.wait_committed().skew_ms == 0, "one partition alone is not apart from another"
    log = job.log("cutwater_spark.driver").read_text()
    assert log.count("more than the lateness of 20") == 1
    assert log.count("within the lateness again") == 1
