"""A driver that is held up between its question who is at work and its fencing asks again, behind the fencing."""

from __future__ import annotations

import sys

import pytest
from test_driver import run_once

from cutwater.adapters.runtime.clock import now_ms
from cutwater.core.errors import FencedError
from cutwater.core.protocol.records import Barrier
from cutwater.operations.regions.failover import release
from support.events import counting
from support.harness import Flow, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("shared_spark")]
HELD = """
import sys, time
from pathlib import Path
from cutwater_spark import attempt, driver

class Held(attempt.TakeOver):
    def run(self, now_ms):
        Path({held!r}).touch()
        until = time.monotonic() + 120
        while not Path({on!r}).exists() and time.monotonic() < until:
            time.sleep(0.05)
        return super().run(now_ms)

attempt.TakeOver = Held
sys.exit(driver.main())
"""
"""The driver, which stands still in front of its fencing until somebody lets it go on."""


def test_a_release_between_the_question_and_the_fencing_is_heeded(job: Flow) -> None:
    """Whoever released the job fenced the drivers of then: this one takes the id later, and works for nobody."""
    run_once(job)
    held, on = job.folder / "held", job.folder / "on"
    told = [one for one in job.barriers() if isinstance(one, Barrier)]
    code = HELD.format(held=str(held), on=str(on))
    driver = job.start_command("held", [sys.executable, "-c", code, str(job.job_file)])
    wait_until(held.exists, "the driver to have asked who is at work")
    made = release(job.cluster, job.job, "local", "eu", now_ms).made
    job.produce(counting.events(200))
    on.touch()

    def left() -> bool:
        wrote = [one for one in job.barriers() if isinstance(one, Barrier)]
        assert wrote == told, "it works for a job that was released"
        return driver.poll() is not None

    wait_until(left, "the driver to leave", 90)
    assert driver.returncode == FencedError.exit_code
    said = job.log("held").read_text()
    assert f"the job was released to region eu after milestone {made.token}; this driver stops" in said
