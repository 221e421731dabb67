"""Which measures of a canary are compared, and what is a difference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cutwater.adapters.sketches import HllSketches
from cutwater.core.canary.row_comparison import CanaryRows, described
from cutwater.core.checks.state_comparison import RowName
from cutwater.core.errors import UsageError
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import FieldType
from cutwater.core.job.windows import WindowSpec
from cutwater.core.past.state_difference import ShownRow
from support.cli.verb_records import JOB as FLIGHTS

NAME = RowName("JFK", 0, 60_000)
_SKETCHES = HllSketches()
LONG = FieldType("long")
COUNT = build("n", "count", None, None, _SKETCHES)
MEAN = build("mean", "avg", "f", LONG, _SKETCHES)
MOST = build("most", "max", "f", LONG, _SKETCHES)
TOTAL = build("total", "sum", "f", FieldType("double"), _SKETCHES)
UNIQUE = build("unique", "distinct", "f", LONG, _SKETCHES)
LIVE = replace(FLIGHTS, measures=(COUNT, MEAN))


def row(**values: Any) -> ShownRow:
    return ShownRow(values, values)


def test_added_removed_and_replaced_measures_are_not_compared() -> None:
    """A measure with an old one's name that is computed otherwise is another one."""
    replaced = replace(build("n", "max", "f", LONG, _SKETCHES))
    rows = CanaryRows(LIVE, replace(FLIGHTS, measures=(replaced, MEAN, MOST)), 0.0)
    assert rows.measures.shared == ("mean",)
    assert rows.measures.only_before == ("n",)
    assert rows.measures.only_after == ("n", "most")
    means = {"mean": 2.0, "mean_sum": 4, "mean_count": 2}
    assert rows.change(NAME, row(n=2, **means), row(n=9, most=9, **means)) is None
    other = rows.change(NAME, row(n=2, **means), row(n=2, **{**means, "mean": 3.0}))
    assert other is not None
    assert described(other).text == "mean 2.0 → 3.0"


def test_a_renamed_measure_is_compared_under_its_old_name() -> None:
    renamed = replace(build("count", "count", None, None, _SKETCHES), renamed_from="n")
    rows = CanaryRows(LIVE, replace(FLIGHTS, measures=(renamed,)), 0.0)
    assert rows.measures.shared == ("n",)
    assert rows.change(NAME, row(n=2), row(count=2)) is None
    change = rows.change(NAME, row(n=2), row(count=3))
    assert change is not None
    assert described(change).text == "n 2 → 3"


def test_a_row_that_one_has_not_differs() -> None:
    rows = CanaryRows(LIVE, LIVE, 0.0)
    change = rows.change(NAME, None, row(n=1, mean=None))
    assert change is not None
    assert described(change)[:3] == ("JFK", 0, 60_000)
    assert described(change).text == "only the candidate has it: n 1, mean none"
    change = rows.change(NAME, row(n=1, mean=None), None)
    assert change is not None
    assert described(change).text == "the candidate has not: n 1, mean none"


def test_sums_of_floating_point_numbers_have_a_tolerance() -> None:
    job = replace(FLIGHTS, measures=(TOTAL,))
    one, two = row(total=0.1 + 0.2), row(total=0.3)
    assert CanaryRows(job, job, 1e-9).change(NAME, one, two) is None
    assert CanaryRows(job, job, 0.0).change(NAME, one, two) is not None


def test_jobs_without_a_common_row_are_refused() -> None:
    wider = replace(LIVE, window=WindowSpec(LIVE.window.size_ms * 2, LIVE.window.size_ms * 2))
    with pytest.raises(UsageError, match="no window is in both"):
        CanaryRows(LIVE, wider, 0.0)
    with pytest.raises(UsageError, match="share no measure"):
        CanaryRows(LIVE, replace(FLIGHTS, measures=(MOST,)), 0.0)
