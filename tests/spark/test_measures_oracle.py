"""Every measure, in every kind of window, against DuckDB over the same events."""

from __future__ import annotations

from typing import Any

import pytest

from cutwater.core.checks.state_comparison import CHANGELOG, STATE, Verdict
from cutwater.verify.run import Request, verify
from support.events.all_measures import MEASURES, SCHEMA, agree, events, job_text, oracle
from support.harness import GENERATION, flow


@pytest.fixture(scope="module", params=["sliding", pytest.param("tumbling", marks=pytest.mark.slow)])
def both(request: pytest.FixtureRequest, broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(served state, oracle's state, the running job and its milestone) of one kind of window."""
    kind, made = request.param, events()
    with flow(broker.cluster, job_text(f"measures-{kind}", kind), tmp_path_factory.mktemp(kind), SCHEMA) as job:
        job.produce(made)
        job.signal()
        job.driver()
        milestone = job.wait_committed()
        yield job.state(milestone), oracle(made, kind), (job, milestone)


@pytest.mark.spark
@pytest.mark.parametrize("measure", MEASURES)
def test_measure_equals_oracle(both: Any, measure: str) -> None:
    """The state's measure equals DuckDB's for every key and window; sketches within their stated error."""
    served, expected, _ = both
    assert served.keys() == expected.keys()
    for place, row in expected.items():
        assert agree(measure, served[place][measure], row[measure]), (place, served[place], row)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("both", ["sliding"], indirect=True)
def test_verify_reads_every_measure_from_sparks_own_state(both: Any) -> None:
    """While the query runs: each row of its RocksDB state is, byte for byte, what the changelog holds."""
    served, _, (job, milestone) = both
    request = Request(
        job.job,
        job.job_file,
        job.cluster,
        GENERATION,
        (CHANGELOG, STATE),
        at=milestone.token,
        spark_env=job.spark_env,
    )
    result = verify(request)
    assert [(one.place, one.verdict, one.reason) for one in result.answers] == [
        (CHANGELOG, Verdict.EQUAL, ""),
        (STATE, Verdict.EQUAL, ""),
    ], result.differences[:2]
    [_, state] = result.answers
    assert state.found == state.expected
    assert state.found.rows == len(served)
