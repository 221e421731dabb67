"""Records as arrays: what it reads is what `Codec` reads record by record, and what is wrong it leaves to that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.avro.codec import HEADER_BYTES, Codec
from cutwater.adapters.columnar import record_arrays
from cutwater.adapters.columnar.arrow import schema_of
from cutwater.adapters.columnar.record_arrays import RecordReader, Texts
from cutwater.core.errors import UsageError
from cutwater.core.job.measures import ORDER_FIELDS
from cutwater.views.query.arrow_batches import batches
from cutwater.views.query.presenter import Presenter
from cutwater.views.query.row_blocks import columns_of, joined
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION
from support.views.measured_job import measured_job, measured_rows

_TIME = {"type": "long", "logicalType": "timestamp-micros"}
_MS = {"type": "long", "logicalType": "timestamp-millis"}
_PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3}
_AT = {
    "type": "record",
    "name": "At",
    "fields": [
        {"name": "event_time", "type": _TIME},
        {"name": "origin", "type": "string"},
        {"name": "partition", "type": "int"},
        {"name": "offset", "type": "long"},
        {"name": "value", "type": _PRICE},
    ],
}
_moments = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
_longs = st.integers(-(1 << 63), (1 << 63) - 1)
_ints = st.integers(-(1 << 31), (1 << 31) - 1)
_WIDE = Context(prec=60)
"""Else a value could be rounded to more digits than its type has."""
_prices = st.integers(-(10**38) + 1, 10**38 - 1).map(lambda one: Decimal(one).scaleb(-3, _WIDE))
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
_whole_ms = _moments.map(lambda one: one.replace(microsecond=one.microsecond // 1000 * 1000))
_TYPES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "flag": ("boolean", st.booleans()),
    "small": ("int", _ints),
    "big": ("long", _longs),
    "half": ("float", st.floats(width=32, allow_nan=False)),
    "ratio": ("double", st.floats(allow_nan=False)),
    "label": ("string", _texts),
    "sketch": ("bytes", st.binary(max_size=200)),
    "price": (_PRICE, _prices),
    "seen": (_MS, _whole_ms),
    "exact": (_TIME, _moments),
    "first": (
        _AT,
        st.fixed_dictionaries(
            {"event_time": _moments, "origin": _texts, "partition": _ints, "offset": _longs, "value": _prices}
        ),
    ),
}
SCHEMA = {
    "type": "record",
    "name": "State",
    "fields": [
        *({"name": name, "type": ["null", type_], "default": None} for name, (type_, _) in _TYPES.items()),
        {"name": "last", "type": "long"},
    ],
}
CODEC = Codec(SCHEMA)
_records = st.fixed_dictionaries({**{name: st.none() | one for name, (_, one) in _TYPES.items()}, "last": _longs})


def texts(values: Sequence[bytes]) -> Texts:
    return Texts(b"".join(values), np.array([len(one) for one in values], np.int64))


def columns(schema: Any, without: Collection[str], bodies: Sequence[bytes]) -> dict[str, list[Any]] | None:
    """The values of each field, as Python has them; None if they are left to `Codec`."""
    header = Codec(schema).header
    found = RecordReader(schema, header, without).read(texts([header + one for one in bodies]))
    return None if found is None else {name: one.to_pylist() for name, one in found.items()}


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same kind; Arrow has a time zone of its own for UTC."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, datetime) and isinstance(other, datetime):
        return one == other
    return repr(one) == repr(other)


@given(st.lists(_records, max_size=8))
def test_it_reads_what_codec_reads(records: list[dict[str, Any]]) -> None:
    """Every type that a state may hold, null or not; values are equal, and of the same kind."""
    bodies = [CODEC.body(one) for one in records]
    wanted = [CODEC.decode_body(one, 0) for one in bodies]
    found = columns(SCHEMA, (), bodies)
    assert found is not None
    assert same({name: [one[name] for one in wanted] for name in found}, found)


@given(st.lists(_records, min_size=1, max_size=8))
def test_fields_of_records_are_left_out(records: list[dict[str, Any]]) -> None:
    found = columns(SCHEMA, ORDER_FIELDS, [CODEC.body(one) for one in records])
    assert found is not None
    assert found["first"] == [one["first"] and {"value": one["first"]["value"]} for one in records]
    assert found["last"] == [one["last"] for one in records]


@given(st.lists(_records, min_size=1, max_size=3), st.data())
def test_damage_is_never_read_otherwise(records: list[dict[str, Any]], data: st.DataObject) -> None:
    """A byte changed, bytes cut off or moved to a neighbour: it is left to `Codec`, or both read the same."""
    bodies = [CODEC.body(one) for one in records]
    number = data.draw(st.integers(0, len(bodies) - 1))
    one = bodies[number]
    at = data.draw(st.integers(0, len(one) - 1))
    how: list[Callable[[], None]] = [
        lambda: bodies.__setitem__(
            number, one[:at] + bytes([one[at] ^ data.draw(st.integers(1, 255))]) + one[at + 1 :]
        ),
        lambda: bodies.__setitem__(number, one[:at]),
        lambda: bodies.__setitem__(number, one + b"\0"),
        lambda: bodies.__setitem__(slice(number, number + 1), [one[:at], one[at:]]),  # type: ignore[call-overload]
    ]
    data.draw(st.sampled_from(how))()
    found = columns(SCHEMA, (), bodies)
    if found is not None:
        wanted = [CODEC.decode_body(body, 0) for body in bodies]
        assert same({name: [each[name] for each in wanted] for name in found}, found)


@pytest.mark.parametrize(
    "type_", [{"type": "array", "items": "long"}, ["long", "null"], {"type": "map", "values": "int"}]
)
def test_what_is_no_part_of_a_state_is_left_to_codec(type_: Any) -> None:
    schema = {"type": "record", "name": "Other", "fields": [{"name": "one", "type": type_}]}
    assert columns(schema, (), [b"\0"]) is None


@pytest.mark.parametrize("tops", [False, True])
def test_presented_by_columns_as_row_by_row(tmp_path: Path, tops: bool) -> None:
    """Every measure of every type; values framed in two ways; and a damaged one is told by the same error.

    With lists among the partials `Codec` decodes all rows.
    """
    job, _ = measured_job(tmp_path, tops)
    store = Store(tmp_path / "v", job, GENERATION)
    stored = measured_rows(job, store, 300)[0]
    store.close()
    places, values, codec = list(stored), list(stored.values()), Codec(job.state_schema)
    values[5] = codec.encode(codec.decode(values[5]) | {"events": None})  # a count of nothing is shown as 0
    values[7] = b"\0\0\0\0\x05" + values[7][HEADER_BYTES:]
    presenter, schema = Presenter(job), schema_of(job, {})

    def presented(of: Sequence[bytes]) -> dict[str, list[Any]]:
        rows = list(zip(places, of, strict=True))
        pieces = (columns_of(rows[at : at + 64]) for at in range(0, 300, 64))
        (made,) = batches(job, schema, joined(pieces, 300, 1 << 20))
        return {one.name: made.column(one.name).to_pylist() for one in job.measures}

    by_row = list(map(presenter.values, values))
    reader = RecordReader(job.state_schema, codec.header, ORDER_FIELDS)
    assert (reader.read(texts(values)) is None) == tops
    assert same(presented(values), {one.name: [row[one.name] for row in by_row] for one in job.measures})
    assert list(batches(job, schema, [])) == []
    for wrong in (values[3][:-1], values[3] + b"\0", b"\xc3\x01" + bytes(20)):
        with pytest.raises(UsageError) as one:
            presenter.values(wrong)
        with pytest.raises(UsageError) as several:
            presented([*values[:3], wrong, *values[4:]])
        assert str(several.value) == str(one.value)


def test_a_length_below_0_is_damage() -> None:
    """It would lead back, and from there to the record's end."""
    fields = [{"name": name, "type": type_} for name, type_ in zip("abcd", ["bytes"] * 3 + ["long"], strict=True)]
    assert columns({"type": "record", "name": "Back", "fields": fields}, (), [b"\x02x\x05"]) is None


def test_a_length_beyond_the_end_reads_nothing() -> None:
    """Long texts are cut, not gathered byte by byte: a slice would be short in silence, and an array of such
    lengths would reach into other memory."""
    for size in (b"\xa0\x01", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"):
        of = record_arrays._Records(texts([size + b"x" * 79]))
        with pytest.raises(ValueError, match="a length that is not there"):
            of.binary(of.all)
    schema = {"type": "record", "name": "Long", "fields": [{"name": "a", "type": "bytes"}]}
    assert columns(schema, (), [b"\xa0\x01" + b"x" * 80]) == {"a": [b"x" * 80]}
    assert columns(schema, (), [b"\xa0\x01" + b"x" * 79]) is None
    assert columns(schema, (), [b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"x" * 80]) is None
