"""The driver as a real process: what it proves, whom it fences, how it refuses, how it survives kill -9."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.hashing import key_hash
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.runtime.ready_file import is_ready_since, ready_file
from cutwater.adapters.topics.recovery_log import history
from cutwater.core.errors import LostRecordsError
from cutwater.core.job.job import WINDOW_KEY_SCHEMA
from cutwater.core.protocol import topics
from cutwater.core.protocol.chain import find_chain_faults
from cutwater.core.protocol.changelog_rows import WRITER_HEADER
from cutwater.core.protocol.records import Barrier, Committed, Heartbeat, Start
from cutwater.local.machine.ports import free_ports
from support.events import counting
from support.harness import GENERATION, Flow, kill_session, scraped, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("shared_spark")]
DRIVER = "cutwater_spark.driver"


def started(job: Flow, attempt: int) -> bool:
    return any(isinstance(one, Start) and one.attempt == attempt for one in job.barriers())


def epochs_written(job: Flow) -> int:
    return sum(isinstance(one, Barrier) for one in job.barriers())


def scratches(job: Flow) -> list[Path]:
    """Where the JVMs of drivers keep their working files."""
    return list((job.folder / "scratch").glob("driver-*"))


def run_once(job: Flow) -> None:
    """One attempt commits 400 events and is stopped cleanly."""
    job.produce(counting.events(400))
    job.signal()
    first = job.driver()
    job.wait_committed()
    first.terminate()
    assert first.wait(60) == 0
    wait_until(lambda: not scratches(job), "the working files to be deleted")


@pytest.mark.slow
def test_kill_9_of_the_driver_loses_and_repeats_nothing(job: Flow) -> None:
    """After kill -9 in the middle of the backlog the next attempt goes on; state and stream are exact.

    That only Python or only the JVM is killed: tests/integration, in the demonstration and at the crash points.
    """
    job.settings["CUTWATER_SPARK_APPLICATION"] = ""  # its JVM dies, too
    made = counting.events(6_000)
    job.produce(made)
    job.signal()
    first = job.driver()
    wait_until(lambda: epochs_written(job) >= 3, "three epochs")
    before = epochs_written(job)
    (scratch,) = scratches(job)
    assert list(scratch.glob("spark-*")), "where Spark works"
    kill_session(first.pid)
    assert first.wait(60) == -9
    assert before < 12, "the kill must come in the middle of the backlog"
    assert scratch.exists(), "a killed driver cannot clear up"
    job.driver()
    milestone = job.wait_committed()
    assert job.state(milestone) == counting.expected(made)
    assert list(find_chain_faults(job.milestones())) == []
    assert milestone.attempt == 2
    assert len(scratches(job)) == 1
    assert not scratch.exists(), "the next one does"
    _, again = [one for one in history(job.cluster, job.job.name, 100) if one.service == "driver"]
    found = dict(again.found)
    assert int(found["planned"]) >= int(found["barrier"]) >= before - 1, "the trail tells what the restart found"
    assert again.decision.startswith(f"run epoch {int(found['committed']) + 1}")
    assert "starting Spark" in [step.name for step in again.steps if step.took_ms > 0]


@pytest.mark.slow
def test_an_unusable_event_is_counted_and_does_not_stop_the_job(job: Flow) -> None:
    """Bytes of no schema, a cut-short record, an empty value and a time of the far future count as rejected.

    The rest is exact: above all, the far future has not made it late.
    """
    made = counting.events(400)
    producer = Producer(job.cluster.librdkafka())
    for value in (b"not avro", b"", None, b"\xc3\x01" + bytes(8) + b"x"):
        producer.produce(job.job.topic, value=value, key=b"k1")
    producer.flush(10)
    job.produce([{"key": "k1", "at": 4_000_000_000_000, "value": 1}])
    job.signal()
    job.driver()
    job.wait_committed()
    job.produce(made)
    milestone = job.wait_committed()
    assert job.state(milestone) == counting.expected(made)
    told = {one.epoch: one for one in job.barriers() if isinstance(one, Barrier)}
    assert sum(one.rejected for one in told.values()) == 5
    assert sum(one.events for one in told.values()) == 405


@pytest.mark.slow
def test_a_foreign_row_ends_the_generation_at_a_heartbeat(job: Flow) -> None:
    """A record that no barrier accounts for stops an idle driver, which names it; nothing foreign is committed."""
    job.produce(counting.events(400))
    job.signal()
    driver = job.driver(CUTWATER_HEARTBEAT_MS="200")
    milestone = job.wait_committed()
    wait_until(lambda: any(isinstance(one, Heartbeat) for one in job.barriers()), "a heartbeat")
    topic = topics.changelog(job.job.name, GENERATION)
    producer = Producer(job.cluster.librdkafka())
    headers = {WRITER_HEADER: f"{GENERATION}/1/0"}
    producer.produce(topic, key=b"zombie", value=b"old", partition=1, headers=headers)
    producer.flush(10)
    assert driver.wait(60) == 8
    ends = Offsets(job.cluster).topic_ends(topic, 2)
    assert f"{topic}/1@{ends[1] - 1}" in job.log(DRIVER).read_text()
    assert job.milestones()[-1][0].changelog_cut == milestone.changelog_cut

    again = job.driver()  # a restart must find it too: the generation has ended
    assert again.wait(90) == 8


@pytest.mark.slow
def test_a_foreign_row_inside_an_epoch_ends_the_generation_at_the_barrier(job: Flow) -> None:
    """A zombie's row that lands between two barriers is found by the proof of rows, before the barrier."""
    job.produce(counting.events(400))
    job.signal()
    driver = job.driver(CUTWATER_HEARTBEAT_MS="3600000")
    job.wait_committed()
    written = epochs_written(job)
    topic = topics.changelog(job.job.name, GENERATION)
    producer = Producer(job.cluster.librdkafka())
    producer.produce(topic, key=b"zombie", value=b"old", partition=0)
    producer.flush(10)
    job.produce(counting.events(50, seed=8))
    assert driver.wait(60) == 8
    assert "at the barrier of epoch" in job.log(DRIVER).read_text()
    assert epochs_written(job) == written


@pytest.mark.slow
@pytest.mark.parametrize("key", ["k1", "nobody"])
def test_rows_of_a_killed_attempt_pass_only_where_this_attempt_writes_the_key(job: Flow, key: str) -> None:
    """A pure repeat (the coming epoch, an earlier attempt, a key written again) passes; another key does not."""
    job.produce(counting.events(400))
    job.signal()
    first = job.driver()
    milestone = job.wait_committed()
    wait_until(lambda: any(isinstance(one, Heartbeat) for one in job.barriers()), "an idle driver")
    first.terminate()
    assert first.wait(60) == 0
    newest = max(one.epoch for one in job.barriers() if isinstance(one, Barrier))
    start = datetime.fromtimestamp(counting.START_MS // 60_000 * 60, UTC)
    row = {"key": key, "window_start": start, "window_end": start + timedelta(minutes=1)}
    left_over = Codec(WINDOW_KEY_SCHEMA).encode(row)
    headers = {WRITER_HEADER: f"{GENERATION}/1/{newest + 1}"}
    partition = job.job.shards.partition(job.job.shards.shard(key_hash(key)))
    producer = Producer(job.cluster.librdkafka())
    topic = topics.changelog(job.job.name, GENERATION)
    producer.produce(topic, key=left_over, value=b"of a killed attempt", partition=partition, headers=headers)
    producer.flush(10)
    job.produce([{"key": "k1", "at": counting.START_MS, "value": 1}])
    second = job.driver()
    if key == "nobody":
        assert second.wait(90) == 8
        assert "attempt 1 epoch" in job.log(DRIVER).read_text()
        return
    after = job.wait_committed()
    expected = counting.expected([*counting.events(400), {"key": "k1", "at": counting.START_MS, "value": 1}])
    assert job.state(after) == expected
    assert after.changelog_cut.records_since(milestone.changelog_cut) == 2, "the left-over row and ours"


@pytest.mark.slow
def test_a_second_driver_fences_the_first(job: Flow) -> None:
    """Of two drivers on one generation the older one leaves with the exit code of a fenced owner."""
    job.produce(counting.events(400))
    job.signal()
    older = job.driver(CUTWATER_HEARTBEAT_MS="200")
    job.wait_committed()
    job.driver(CUTWATER_SPARK_APPLICATION="")  # the application would let it wait for the older one's end
    wait_until(lambda: started(job, 2), "the second attempt")
    assert older.wait(60) == 6
    assert "newer process" in job.log(DRIVER).read_text()


@pytest.mark.slow
def test_a_driver_that_lost_records_says_what_can_be_done(job: Flow) -> None:
    """Its changelog is made anew: it has an exit code of its own. Advice with a milestone: tests/integration."""
    run_once(job)
    job.remake_changelog()
    written, ready = len(job.barriers()), ready_file(job.folder, job.job.name, GENERATION)
    begun_ms = ready.stat().st_mtime_ns // 1_000_000 + 1
    assert job.driver().wait(90) == LostRecordsError.exit_code
    assert not is_ready_since(ready, begun_ms), "only the first driver started a query"
    said = job.log(DRIVER).read_text()
    assert "No milestone is complete any more: restore the topics, or start the job under another name" in said
    assert "from the last milestone" not in said
    assert len(job.barriers()) == written


@pytest.mark.slow
def test_a_lost_checkpoint_stops_the_driver(job: Flow) -> None:
    """A checkpoint that contradicts the stream is refused with what to do, before anything is written."""
    run_once(job)
    shutil.rmtree(job.folder / "checkpoints")
    written = len(job.barriers())
    assert job.driver().wait(90) == 7
    assert "start a new generation" in job.log(DRIVER).read_text()
    assert len(job.barriers()) == written


@pytest.mark.slow
def test_another_definition_of_the_job_is_refused(job: Flow) -> None:
    """A changed window on an old checkpoint ends with exit code 2 and what changed: rows would mix."""
    run_once(job)
    job.job_file.write_text(job.job_file.read_text().replace("size: 1m", "size: 2m"))
    written = len(job.barriers())
    assert job.driver().wait(90) == 2
    assert "window_size_ms was 60000 and is 120000" in job.log(DRIVER).read_text()
    assert len(job.barriers()) == written


@pytest.mark.slow
def test_milestones_come_without_hints(job: Flow) -> None:
    """With hints off, epochs are committed by the next barrier, and the last one by an idle job's heartbeat."""
    made, port = counting.events(2_000), free_ports(1)[0]
    job.produce(made)
    job.signal()
    job.driver(CUTWATER_HINTS="false", CUTWATER_HEARTBEAT_MS="500", CUTWATER_DRIVER_PORT=str(port))
    milestone = job.wait_committed()
    figures = scraped(port)
    stream = [one for one, _ in job.milestones()]
    assert figures["cutwater_driver_events_total"] == sum(one.events for one in stream) == len(made)
    assert figures["cutwater_driver_rows_total"] == sum(one.rows for one in stream)
    assert figures["cutwater_driver_epochs_total"] == figures["cutwater_driver_epoch_seconds_count"] == len(stream)
    assert figures["cutwater_driver_epoch"] == milestone.epoch
    assert figures["cutwater_driver_attempt"] == 1
    assert figures["cutwater_driver_heartbeats_total"] >= 1
    assert 0 < figures["cutwater_driver_jvm_heap_used_bytes"] <= figures["cutwater_driver_jvm_heap_max_bytes"]
    assert figures["cutwater_driver_jvm_gc_collections_total"] > 0
    assert figures["process_resident_memory_bytes"] > 0
    assert job.state(milestone) == counting.expected(made)
    assert milestone.epoch >= 3
    assert not any(isinstance(one, Committed) for one in job.barriers())
    assert list(find_chain_faults(job.milestones())) == []


@pytest.mark.slow
def test_a_clean_stop_leaves_nothing_to_replay(job: Flow) -> None:
    """After SIGTERM every planned epoch is committed, and the next attempt writes no row twice."""
    made = counting.events(4_000)
    job.produce(made)
    job.signal()
    first = job.driver()
    wait_until(lambda: epochs_written(job) >= 2, "two epochs")
    first.terminate()
    assert first.wait(60) == 0
    job.driver()
    milestone = job.wait_committed()
    assert job.state(milestone) == counting.expected(made)
    told = [one.epoch for one in job.barriers() if isinstance(one, Barrier)]
    assert told == sorted(set(told))


@pytest.mark.slow
def test_a_missing_source_topic_is_named(job: Flow) -> None:
    """A job whose topic does not exist ends with exit code 2 and the topic's name."""
    missing = job.job_file.read_text().replace(job.job.topic, "no.such.topic")
    job.job_file.write_text(missing)
    assert job.driver().wait(90) == 2
    assert "no.such.topic" in job.log(DRIVER).read_text()


@pytest.mark.slow
def test_a_broker_that_is_down_is_named(job: Flow) -> None:
    """Without a broker the driver ends within its bound, with exit code 4 and the address."""
    assert job.driver(CUTWATER_BOOTSTRAP_SERVERS="127.0.0.1:1", CUTWATER_WAIT_MS="1500").wait(60) == 4
    assert "127.0.0.1:1" in job.log(DRIVER).read_text()
