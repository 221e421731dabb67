"""Conditions over a row: SQL's comparisons and its null, and nothing that could be run."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.past.row_condition import row_condition
from unit.core.job.test_derived_values import MEASURES

JOB: Any = SimpleNamespace(measures=tuple(MEASURES.values()))
ROW = {
    **{"n": 3, "miles": Decimal(30), "hours": Decimal("1.50"), "label": "JFK", "buckets": [1, 2]},
    "seen": datetime(2026, 1, 31, 8, tzinfo=UTC),
}


def holds(text: str, **values: Any) -> bool:
    return row_condition(text, JOB)({**ROW, **values})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n = 3", True),
        ("n == 3 and miles <> 30", False),
        ("2 < n <= 3", True),
        ("miles / hours >= 20", True),
        ("NOT (n > 3) OR label = 'x'", True),
        ("label = 'JFK' and label != \"EWR\"", True),
        ("label is null", False),
        ("label IS NOT NULL", True),
        ("miles / 0 is null", True),
        ("seen < '2026-01-31T09:00:00Z'", True),
        ("seen = '2026-01-31T08:00:00Z'", True),
        ("coalesce(miles, 0) = 30", True),
        ("label = 'a = b and c'", False),
    ],
)
def test_conditions_are_as_in_sql(text: str, expected: bool) -> None:
    assert holds(text) is expected


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("label = 'O''Hare'", "O'Hare"),
        ("label = ''''", "'"),
        ("label = ''", ""),
        ('label = "a""b"', 'a"b'),
        ("label = \"O''Hare\"", "O''Hare"),
        (r"label = 'it\'s'", "it's"),
        (r"label = 'a\\'", "a\\"),
    ],
)
def test_a_quote_in_a_text_is_written_twice(text: str, label: str) -> None:
    """Python joins two texts that follow each other: O''Hare was compared as OHare."""
    assert holds(text, label=label) is True
    assert holds(text, label=f"{label}x") is False


@pytest.mark.parametrize(
    "text", ["n > 1", "n <= 1", "not n > 1", "n = n", "n != n", "label = 'JFK'", "not label = 'x'"]
)
def test_null_is_neither_true_nor_false(text: str) -> None:
    """Of a row that is not there no measure has a value."""
    assert row_condition(text, JOB)({}) is False
    assert row_condition(f"{text} or n is null", JOB)({}) is True
    assert row_condition(f"({text}) and n is null", JOB)({}) is False


@given(st.integers(-5, 5), st.integers(-5, 5), st.sampled_from(["<", "<=", ">", ">=", "=", "!=", "<>"]))
def test_numbers_compare_as_python_does(one: int, other: int, sign: str) -> None:
    python = {"=": "==", "<>": "!="}.get(sign, sign)
    assert holds(f"n {sign} {other}", n=one) is eval(f"{one} {python} {other}")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("n", "not allowed in a condition"),
        ("n +", "no condition"),
        ("flihgts > 3", "no measure of the job"),
        ("mlies > 3", "did you mean 'miles'"),
        ("n > 'three'", "not of one type"),
        ("label > 3", "not of one type"),
        ("buckets > 3", "not of one type"),
        ("__import__('os').system('x') > 1", "not allowed"),
        ("n.real > 1", "not allowed"),
        ("n in (1, 2)", "not allowed"),
        ("n is 3", "not allowed"),
        ("n > 1 if n else n", "not allowed"),
        ("(lambda: 1)() > 1", "not allowed"),
        ("x" * 600, "600 characters"),
        ("(" * 60 + "n > 1" + ")" * 60 + " and " + "not " * 60 + "n > 1", "levels"),
    ],
)
def test_whatever_else_is_refused_in_words(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        row_condition(text, JOB)


@given(st.text(max_size=40))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    """Nothing of it is run, and nothing else is raised."""
    try:
        condition = row_condition(text, JOB)
    except UsageError:
        return
    assert condition(ROW) in (True, False)
