"""The cadence controller in a driver as a real process: decided, applied while the query runs, recorded, shown."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cutwater.adapters.topics.recovery_log import history
from cutwater.cli.main import app
from cutwater.core.cadence.decisions import decision_of
from cutwater.core.protocol.records import Barrier, Start
from support.events import counting
from support.harness import Flow, flow, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("shared_spark")]
OBJECTIVES = "objectives: {readable_p99: 5s, recovery: 60s}\n"
FIRST_MS = 1_300
"""Of five seconds with epochs of unknown cost: half of what it were if none were slow."""


@pytest.fixture
def job(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Flow]:
    text = counting.job_text(unique("paced"), per_epoch=100_000) + OBJECTIVES
    with flow(broker.cluster, text, tmp_path, counting.SCHEMA) as made:
        yield made


def decisions(job: Flow) -> list[Any]:
    records = history(job.cluster, job.job.name, 100)
    return [(one, decision) for one in records if (decision := decision_of(one))]


@contextmanager
def steady(job: Flow) -> Iterator[list[dict[str, Any]]]:
    """Events at a steady rate, while the block runs; all of them."""
    ended, made = threading.Event(), list[dict[str, Any]]()

    def produce() -> None:
        for number in range(2_000):
            if ended.wait(0.1):
                return
            made.extend(some := counting.events(20, seed=number))
            job.produce(some)

    producing = threading.Thread(target=produce)
    producing.start()
    try:
        yield made
    finally:
        ended.set()
        producing.join(60)


def test_a_decision_is_applied_while_the_query_runs_and_recorded(job: Flow) -> None:
    """The driver of a steady load finds that it may wait longer; its epochs then do. No restart, one attempt.

    Every event is counted once, and `cutwater cadence` shows what is in force.
    """
    job.signal()
    driver = job.driver()
    with steady(job) as made:
        wait_until(lambda: len(decisions(job)) >= 2, "a decision on the interval", 170)
        time.sleep(12)
    assert driver.poll() is None
    milestone = job.wait_committed()
    assert job.state(milestone) == counting.expected(made)
    first, (record, newest) = decisions(job)[0], decisions(job)[-1]
    assert first[1].sets["interval_ms"] == FIRST_MS
    assert (record.attempt, newest.part) == (1, "epochs")
    assert "epochs take" in newest.reason
    found = job.barriers()
    assert [one.attempt for one in found if isinstance(one, Start)] == [1]
    begun = [one.epoch_started_ms for one in found if isinstance(one, Barrier)]
    behind = [later - before for before, later in pairwise(begun) if before > record.begun_ms]
    shortest = min(behind[:-1])  # the last one may be a batch without data
    assert shortest >= 0.8 * newest.sets["interval_ms"], (begun, newest)
    shown = CliRunner().invoke(
        app, ["cadence", str(job.job_file), "--bootstrap-servers", job.cluster.bootstrap, "--json"]
    )
    told = json.loads(shown.stdout)
    assert told["objectives"] == {"readable_p99_ms": 5_000, "recovery_ms": 60_000}
    assert [one["sets"] for one in told["in_force"]] == [dict(newest.sets)]


def test_the_controller_works_behind_a_batch_that_is_repeated(job: Flow) -> None:
    """A driver dies in an epoch. The first batch of the next one is a plan of Spark's log, without a look
    for the source's end.
    """
    job.settings["CUTWATER_SPARK_APPLICATION"] = ""  # its JVM dies, too
    job.signal()
    with steady(job) as made:
        mark = job.job_file.parent / "died"
        first = job.driver(
            CUTWATER_CRASH_POINT="rows-written@3", CUTWATER_CRASH_VICTIM="both", CUTWATER_CRASH_MARK=str(mark)
        )
        assert first.wait(170) == -9
        assert mark.exists()
        second = job.driver()

        def decided() -> bool:
            return any(one.attempt == 2 and "epochs take" in decision.reason for one, decision in decisions(job))

        wait_until(decided, "a decision of the second driver", 170)
    assert second.poll() is None
    assert "cannot be changed" not in job.log("cutwater_spark.driver").read_text()
    milestone = job.wait_committed()
    assert milestone.attempt == 2
    assert job.state(milestone) == counting.expected(made)
