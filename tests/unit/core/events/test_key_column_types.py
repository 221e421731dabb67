"""Key columns of every type: one text per value, the same from each form of the value, and read back as it."""

from __future__ import annotations

import json
import uuid
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.events.key_columns import (
    DAYS,
    KeyColumn,
    column_text,
    date_text,
    key_text,
    key_values,
    text_of,
    values_plain,
)

EPOCH = date(1970, 1, 1)
FLAG, DAY, ID, NUMBER, NAME = (KeyColumn(kind, kind) for kind in ("boolean", "date", "uuid", "long", "string"))
PRICE, HUGE, TINY = (KeyColumn("price", f"decimal({digits})") for digits in ("9,2", "38,0", "38,38"))


def unscaled(precision: int) -> st.SearchStrategy[int]:
    return st.integers(-(10**precision) + 1, 10**precision - 1)


def decimal_of(number: int, scale: int) -> Decimal:
    return Decimal((int(number < 0), Decimal(abs(number)).as_tuple().digits, -scale))


VALUES: dict[KeyColumn, st.SearchStrategy[Any]] = {
    FLAG: st.booleans(),
    DAY: st.dates(),
    ID: st.uuids().map(str),
    NUMBER: st.integers(-(2**63), 2**63 - 1),
    NAME: st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
    PRICE: unscaled(9).map(lambda one: decimal_of(one, 2)),
    HUGE: unscaled(38).map(Decimal),
    TINY: unscaled(38).map(lambda one: decimal_of(one, 38)),
}
COLUMNS = tuple(one._replace(nullable=True) for one in VALUES)
rows = st.tuples(*(st.none() | one for one in VALUES.values()))


@given(rows, rows)
def test_a_key_is_read_back_and_belongs_to_one_row(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    """Values of each type and nulls: back from the text, and two rows have one text only if they are equal."""
    keys = [
        key_text(None if value is None else text_of(of, value) for of, value in zip(COLUMNS, row, strict=True))
        for row in (one, other)
    ]
    for key, row in zip(keys, (one, other), strict=True):
        assert list(
            key_values(key, [of._replace(name=str(at)) for at, of in enumerate(COLUMNS)]).values()
        ) == list(row)
    assert (keys[0] == keys[1]) == (one == other)


@given(st.data())
def test_a_text_names_itself(data: st.DataObject) -> None:
    """What is shown is asked for: the text of a value is that of the value."""
    of = data.draw(st.sampled_from(list(VALUES)))
    text = text_of(of, data.draw(VALUES[of]))
    assert column_text(of, text) == text


@given(st.dates())
@example(date(1, 1, 1))
@example(date(1582, 10, 10))
@example(date(9999, 12, 31))
def test_a_date_has_four_digits_of_the_year(day: date) -> None:
    """From a date, a moment of it, its text, and its number."""
    text = f"{day.year:04}-{day.month:02}-{day.day:02}"
    forms = (day, datetime(day.year, day.month, day.day, 23), text, (day - EPOCH).days)
    assert {text_of(DAY, one) for one in forms} == {text}


def test_days_of_other_years_have_no_text() -> None:
    """The bounds themselves have one."""
    assert [date_text(one) for one in DAYS] == ["0001-01-01", "9999-12-31"]
    assert [EPOCH + timedelta(one) for one in DAYS] == [date.min, date.max]
    for beyond in (DAYS[0] - 1, DAYS[1] + 1, 2**31 - 1, -(2**31)):
        with pytest.raises(UsageError, match="outside the years 1 to 9999"):
            date_text(beyond)


@given(
    st.integers(1, 38).flatmap(lambda digits: st.tuples(st.just(digits), st.integers(0, digits), unscaled(digits)))
)
@example((38, 38, 10**38 - 1))
@example((38, 0, -(10**38) + 1))
@example((2, 2, -5))
@example((9, 2, 0))
def test_a_decimal_has_all_digits_of_its_scale(given: tuple[int, int, int]) -> None:
    """No exponent and no negative zero; the same from Avro's bytes, and from forms with fewer or more zeros."""
    precision, scale, number = given
    of = KeyColumn("price", f"decimal({precision},{scale})")
    text = text_of(of, decimal_of(number, scale))
    assert f"{decimal_of(number, scale):f}" == text
    assert text_of(of, number.to_bytes(17, "big", signed=True)) == text
    assert column_text(of, f"{'-' if number < 0 else ''}00{text.lstrip('-')}{'' if scale else '.'}000") == text


def test_zero_has_no_sign() -> None:
    for zero in (Decimal("-0"), Decimal("0E-20"), Decimal("-0.0"), Decimal("0E+3")):
        assert text_of(PRICE, zero) == "0.00"
    assert column_text(PRICE, "-0") == column_text(PRICE, "-0.000") == "0.00"


def test_a_uuid_is_in_lower_case_with_hyphens() -> None:
    """From bytes, the object, and any form of its text in an event; asked for in either case."""
    one = uuid.UUID("01234567-89AB-CDEF-0123-456789ABCDEF")
    for form in (one, one.bytes, str(one).upper(), one.hex):
        assert text_of(ID, form) == "01234567-89ab-cdef-0123-456789abcdef"
    assert column_text(ID, str(one).upper()) == str(one)


@pytest.mark.parametrize(
    ("of", "texts", "told"),
    [
        (FLAG, ["True", "1", "", "null"], "is neither true nor false"),
        (DAY, ["2013-1-1", "20130101", "2013-02-30", "0000-01-01", "10000-01-01", "+2013-01-01", "2013-W01-1", ""],
         "is no date of the years 1 to 9999, such as 2013-01-31"),
        (ID, ["0123456789abcdef0123456789abcdef", "", "01234567-89ab-cdef-0123-456789abcdeg"], "is no UUID"),
        (PRICE, ["1e2", "0.001", "10000000", "", ".5", "5.", "+1", "NaN", "\u0661", "1" * 2_000, "0" * 2_000],
         r"is no decimal\(9,2\), which has no exponent and is not rounded"),
        (NUMBER, ["1.0", "", "1" * 20], "is no whole number"),
    ],
)  # fmt: skip
def test_what_is_no_value_is_refused(of: KeyColumn, texts: list[str], told: str) -> None:
    """With the column and what it must be."""
    for text in texts:
        with pytest.raises(UsageError, match=f"{of.name}=.*{told}"):
            column_text(of, text)


def test_a_null_is_a_value_where_it_may_be_one() -> None:
    """And no text, which a key has in quotes."""
    may, must = NAME._replace(nullable=True), NAME
    assert key_values("[null]", [may]) == {"string": None}
    assert key_values('["null"]', [may]) == {"string": "null"}
    for key, of in (("[null]", must), ("[5]", may), ("[true]", FLAG)):
        with pytest.raises(UsageError, match="is no key of this job"):
            key_values(key, [of])


def test_json_shows_dates_and_decimals_as_their_texts() -> None:
    """Booleans, whole numbers and nulls are JSON's own."""
    columns = (FLAG, DAY, NUMBER, PRICE, TINY._replace(name="tiny"), NAME._replace(nullable=True))
    key = key_text(["true", "0007-01-02", "-7", "5.00", f"0.{'0' * 38}", None])
    shown = ["true", '"0007-01-02"', "-7", '"5.00"', f'"0.{"0" * 38}"', "null"]
    assert json.dumps(list(values_plain(key_values(key, columns)).values())) == f"[{', '.join(shown)}]"
