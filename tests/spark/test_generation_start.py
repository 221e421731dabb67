"""A generation started from a milestone: seed and events together are all the events, against an oracle."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.core.checks.state_comparison import RowName
from cutwater.core.errors import FencedError
from cutwater.core.job.job import PLAIN_KEY_SCHEMA
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Withdrawal
from cutwater.core.util.rate_limit import REST_MAX_S
from cutwater.local.machine.ports import free_ports
from cutwater.verify.state import fill_from_state
from support.crashes import Crashes
from support.harness import GENERATION, Flow, flow, scraped, wait_until
from support.lineage import EVENT, Second, assert_whole, events, job_text, read_all, run_first

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("shared_spark")]


@pytest.fixture
def job(request: Any, broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Flow]:
    text = job_text(unique("start"), getattr(request, "param", "sliding"))
    with flow(broker.cluster, text, tmp_path, json.dumps(EVENT)) as made:
        yield made


@pytest.mark.slow
def test_a_generation_goes_on_from_a_milestone(job: Flow) -> None:
    """Other partitions, sliding windows, every measure; events come meanwhile, some below the floor."""
    parent = run_first(job)
    job.produce(events(1_400, 600))
    second = Second(job, parent, 5)
    driver = second.driver()
    wait_until(second.barriers, "the first barrier")
    job.produce(events(2_000, 600))
    barriers = second.wait()
    first = barriers[0]
    assert first.late > 0, "the test must make events below the floor"
    assert first.source_cut.covers(parent.source_cut)
    assert_whole(second, barriers, "sliding")
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(60) == 0
    assert_state_is_the_changelogs(second, first)
    # A restart goes on from the checkpoint, and the seed is not read again.
    job.produce(events(2_600, 300))
    second.driver()
    assert_whole(second, second.wait(), "sliding")


@pytest.mark.slow
def test_a_candidate_rests_between_epochs(job: Flow) -> None:
    """Three quarters of the time are left to others while it catches up; what it commits is the same."""
    port = free_ports(1)[0]
    parent = run_first(job)
    job.produce(events(1_400, 500))
    second = Second(job, parent, 3)
    second.env |= {"CUTWATER_CATCH_UP_SHARE": "0.25", "CUTWATER_DRIVER_PORT": str(port)}
    second.driver()
    barriers = second.wait()
    told = scraped(port)
    assert_whole(second, barriers, "sliding")
    # Of an epoch of more than 10 s the rest is cut short.
    worked = [min(one.written_ms - one.epoch_started_ms, REST_MAX_S * 1000 / 3) for one in barriers]
    between = [two.epoch_started_ms - one.written_ms for one, two in pairwise(barriers)]
    assert len(between) > 1, "the test must make several epochs"
    for spent_ms, left_ms in zip(worked, between, strict=False):
        assert left_ms >= 2.9 * spent_ms - 10, (worked, between)
    # Asking whether it is wanted, and Spark's own work between two epochs, take a part of what is left.
    rested_s, worked_s = told["cutwater_driver_rested_seconds_total"], sum(worked[: len(between)]) / 1000
    assert rested_s >= 1.5 * worked_s, (rested_s, worked, between)


def assert_state_is_the_changelogs(second: Second, first: Any) -> None:
    """What `verify` reads of Spark's own state after the first epoch is byte for byte what the changelog holds."""
    keys, state, env = Codec(PLAIN_KEY_SCHEMA), Kept(), second.job.spark_env()
    fill_from_state(second.job.job_file, first, second.job.folder, 10_000, env, state)  # type: ignore[arg-type]
    rows = {
        tuple(keys.decode_body(key, 10).values()): value
        for key, value in read_all(second.job, second.changelog, first.changelog_cut)
    }
    assert len(rows) == first.rows > 100
    assert state == rows


class Kept(dict[Any, bytes]):
    """A table of `verify`, in memory."""

    def put(self, row: RowName, value: bytes) -> None:
        self[tuple(row)] = value

    def flush(self) -> None:
        """Everything is there."""


@pytest.mark.slow
@pytest.mark.parametrize("job", ["tumbling"], indirect=True)
def test_kill_9_inside_the_seeding_and_in_the_first_epoch(job: Flow) -> None:
    """Half a seed is never read, a whole one is made once, and the first epoch's rows may come twice."""
    parent = run_first(job)
    job.produce(events(1_400, 300))
    second, crashes = Second(job, parent, 2), Crashes(job)
    checkpoint = job.folder / "checkpoints" / job.job.name / str(second.generation)
    crashes.arm("cutwater_spark.driver", "seed-written", **second.env).wait()
    for left in (checkpoint / "cutwater-seeds" / "1").glob("*.parquet"):
        left.write_bytes(b"half")  # as a kill a moment earlier would leave it
    crashes.arm("cutwater_spark.driver", "seed-kept", **second.env).wait()
    crashes.arm("cutwater_spark.driver", "rows-written", **second.env).wait()
    assert second.barriers() == []
    crashes.arm("cutwater_spark.driver", "barrier-written", **second.env).wait()
    assert [one.epoch for one in second.barriers()] == [0]
    job.produce(events(1_700, 300))
    second.driver()
    assert_whole(second, second.wait(), "tumbling")
    assert [one.name for one in (checkpoint / "cutwater-seeds").iterdir()] == ["2"]
    assert {one.attempt for one in second.barriers()} >= {5}


@pytest.mark.slow
def test_who_is_not_at_work_leaves_before_it_fences_anybody(job: Flow) -> None:
    """A candidate that was given up, and the first generation behind a promoted one: no start is written."""
    parent = run_first(job)
    second = Second(job, parent, 3)
    second.tell(Withdrawal(job.job.name, second.generation, "a better one is there", parent.written_ms))
    told = len(read_all(job, topics.barriers(job.job.name)))
    given_up = second.driver()
    assert given_up.wait(120) == FencedError.exit_code
    assert "was given up (a better one is there)" in job.log("cutwater_spark.driver").read_text()
    [*_, (last, _)] = job.milestones()
    promoted = replace(
        last,
        generation=second.generation,
        sequence=last.sequence + 1,
        parent_hash=protocol_records.hash_of(last),
    )
    signaller = TransactionalWriter(job.cluster, topics.signal_id(job.job.name))
    signaller.initialise()
    signaller.write(topics.milestones(job.job.name), [protocol_records.encode(promoted)])
    replaced = job.driver(CUTWATER_GENERATION=str(GENERATION))
    assert replaced.wait(120) == FencedError.exit_code
    assert (
        f"{GENERATION} has ended: {second.generation} is promoted" in job.log("cutwater_spark.driver").read_text()
    )
    assert len(read_all(job, topics.barriers(job.job.name))) == told


@pytest.mark.slow
@pytest.mark.parametrize("job", ["tumbling"], indirect=True)
def test_a_source_at_rest_does_not_hold_a_candidate_back(job: Flow) -> None:
    """It begins behind the newest event, whose watermark its parent reached without reading any more."""
    job.produce(events(0, 300))
    job.signal()
    driver = job.driver()
    job.wait_committed()

    def rested() -> bool:
        newest = [one for one, _ in job.milestones()][-1]
        return newest.events == 0 and newest.watermark_ms > 0

    wait_until(rested, "the epoch that closes what was read")
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(60) == 0
    stream = [one for one, _ in job.milestones()]
    parent, last = [one for one in stream if one.events][-1], stream[-1]
    assert parent.watermark_ms < last.watermark_ms
    second = Second(job, parent, 2)
    driver = second.driver()
    first = wait_until(second.barriers, "the first barrier")[0]
    assert first.watermark_ms == last.watermark_ms
    assert first.source_cut == last.source_cut
