"""An epoch that was begun is finished with the decoding that it was begun with, whatever the job file says now."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.topics.rejected_events import dead_letters
from cutwater.core.events import rejection
from support import crashing_driver
from support.events import readings
from support.harness import Flow, flow, kill_session

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("shared_spark")]
HOUR_MS = 3_600_000


@pytest.fixture
def job(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Flow]:
    text = readings.job_text(unique("decoding"), sliding=False) + readings.BEFORE_1970
    with flow(broker.cluster, text, tmp_path, json.dumps(readings.SCHEMA)) as made:
        yield made


def crashing(job: Flow) -> subprocess.Popen[bytes]:
    tests = str(Path(crashing_driver.__file__).parents[1])
    return job.start(
        "support.crashing_driver", PYTHONPATH=os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
    )


def test_max_ahead_is_lowered_between_a_crash_and_the_restart(job: Flow) -> None:
    """Rows that a killed attempt wrote stay true: the epoch's repeat accepts what it accepted.

    The epochs after it follow the new job file. Without the old setting the repeat would lack a row that is on the
    changelog, and the proof of rows would end the generation.
    """
    ahead_ms = time.time_ns() // 1_000_000 + 2 * HOUR_MS
    job.produce([{"key": "ahead", "at": ahead_ms, "value": 1}])
    # Rejected and late: the driver dies once rows and lists of epoch 0 are written, before its barrier.
    readings.produce_raw(job, [b"bad", readings.encode("k1", -1)])
    job.signal()
    first = crashing(job)
    assert first.wait(150) == -9
    kill_session(first.pid)
    assert (job.folder / "crashed").read_text() == "1 0", "the crash came in the first epoch"
    job.job_file.write_text(job.job_file.read_text() + "max_ahead: 1h\n")

    job.driver()
    milestone = job.wait_committed()
    assert (milestone.epoch, milestone.attempt) == (0, 2)
    assert {key for key, _ in job.state(milestone)} == {"ahead"}
    log = job.log("cutwater_spark.driver").read_text()
    assert "epoch 0 is finished first, with the decoding that it was started with" in log
    assert "max_ahead was 86400000 ms and is 3600000 ms" in log

    job.produce([{"key": "ahead again", "at": ahead_ms, "value": 1}])
    assert {key for key, _ in job.state(job.wait_committed())} == {"ahead"}
    told = {(one.by.epoch > 0, one.reason) for one in dead_letters(job.cluster, job.job.name).entries}
    assert told == {(False, rejection.UNDECODABLE), (True, rejection.TOO_FAR_AHEAD)}
