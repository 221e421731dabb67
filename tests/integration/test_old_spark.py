"""What an older Spark has written goes on: checkpoint, changelog and milestones of 4.1.1, from an archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.events.all_measures import agree, events, oracle
from support.old_spark import FIRST, FOLDER, OLD_MEASURES, extract, old_job

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_job_of_spark_4_1_1_goes_on(tmp_path: Path) -> None:
    """The same generation, the next epoch and milestone, and every window of both halves as DuckDB has it."""
    extract(FOLDER / "spark-4.1.1.tar.xz", tmp_path)
    made = events()
    with old_job(tmp_path) as job:
        old = job.milestones()[-1][0]
        assert old.source_cut.records == FIRST
        job.signal()
        driver = job.driver()
        job.produce(made[FIRST:])
        newest = job.wait_committed()
        assert driver.poll() is None
        assert newest.generation == old.generation
        assert (newest.attempt, newest.epoch > old.epoch) == (old.attempt + 1, True)
        served, expected = job.state(newest), oracle(made, "sliding")
        assert served.keys() == expected.keys()
        for place, row in expected.items():
            for measure in OLD_MEASURES:
                assert agree(measure, served[place][measure], row[measure]), (place, measure)
