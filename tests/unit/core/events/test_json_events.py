"""Events in JSON as plain values: which schemas can have them, and how we write them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from cutwater.core.errors import UsageError
from cutwater.core.events.json_events import JsonField, encode, json_fields

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
DATE = {"type": "int", "logicalType": "date"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}


def schema(**types: Any) -> dict[str, Any]:
    return {"type": "record", "name": "A", "fields": [{"name": name, "type": one} for name, one in types.items()]}


def written(type_: Any, value: Any) -> str:
    return encode({"a": value}, json_fields(schema(a=type_))).decode()


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        ("int", -5, "-5"),
        ("double", 0.1, "0.1"),
        ("double", float("nan"), '"NaN"'),
        ("double", float("-inf"), '"-Infinity"'),
        ("string", 'größe "x"\n', '"größe \\"x\\"\\n"'),
        ("boolean", True, "true"),
        ("bytes", b"\x00\xff", '"AP8="'),
        (DECIMAL, Decimal("1E+3"), '"1000"'),
        (DECIMAL, Decimal("-0.50"), '"-0.50"'),
        (MILLIS, 1_357_041_600_123, "1357041600123"),
        (MILLIS, datetime(2013, 1, 1, 12, tzinfo=UTC), '"2013-01-01T12:00:00.000000Z"'),
        (MILLIS, datetime(2013, 1, 1, 12), '"2013-01-01T12:00:00.000000Z"'),
        (MILLIS, datetime(2013, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))), '"2013-01-01T10:00:00.000000Z"'),
        (DATE, date(2013, 1, 31), '"2013-01-31"'),
        (DATE, "2013-01-31", '"2013-01-31"'),
        (DATE, -719_162, '"0001-01-01"'),
        (["null", "int"], None, "null"),
        (["null", MILLIS], 5, "5"),
    ],
)
def test_a_value_is_written_as_the_page_of_the_formats_says(type_: Any, value: Any, text: str) -> None:
    """One text per type, in UTF-8."""
    assert written(type_, value) == f'{{"a":{text}}}'


def test_what_a_record_leaves_out_is_left_out() -> None:
    """A default is the reader's to fill in; what the schema does not name is not written."""
    fields = json_fields(schema(a="int", b="int"))
    assert json.loads(encode({"b": 1, "c": 2}, fields)) == {"b": 1}


@pytest.mark.parametrize(
    "type_",
    [
        {"type": "record", "name": "B", "fields": []},
        ["null", "int", "string"],
        ["null"],
        {"type": "int", "logicalType": "time-millis"},
        {"type": "long", "logicalType": "local-timestamp-millis"},
    ],
)
def test_a_type_that_json_events_cannot_have_is_named(type_: Any) -> None:
    """The field, and what to do about it."""
    with pytest.raises(UsageError, match=r"source\.schema: field 'a' is "):
        json_fields(schema(a=type_))


NESTED = {
    "type": "record",
    "name": "B",
    "fields": [
        {"name": "at", "type": MILLIS},
        {"name": "l", "type": {"type": "array", "items": ["null", DECIMAL]}},
    ],
}


def test_values_inside_of_a_value_are_written_by_their_types() -> None:
    """Records, arrays and maps, and null in them; what a record leaves out is left out."""
    value = {"k": {"at": datetime(2013, 1, 1, tzinfo=UTC), "l": [Decimal("1.5"), None]}, "m": {"at": 5}}
    told = '{"k":{"at":"2013-01-01T00:00:00.000000Z","l":["1.5",null]},"m":{"at":5}}'
    assert written({"type": "map", "values": NESTED}, value) == f'{{"a":{told}}}'


def array(levels: int) -> Any:
    return {"type": "array", "items": array(levels - 1)} if levels else "int"


def record(fields: list[str]) -> Any:
    return {"type": "record", "name": "B", "fields": [{"name": one, "type": "int"} for one in fields]}


def test_a_nested_schema_has_bounds() -> None:
    """Levels and fields are part of the query's plan, and names are part of its paths."""
    json_fields(schema(a=array(8), b=record([f"f{one}" for one in range(392)])))
    wide_record = record([f"f{one}" for one in range(101)])
    for type_, told in (
        (array(9), "more than 8 levels deep"),
        (record([f"f{one}" for one in range(401)]), "more than 400 fields are inside"),
        (record(["it's"]), "the name of field 'a.it's' is none that Avro allows"),
        (
            {"type": "map", "values": {**NESTED, "name": "C", "fields": [{"name": "b", "type": wide_record}]}},
            r"a record in 'a\[''\]' has more than 100 fields",
        ),
        ({"type": "array", "items": ["int", "string"]}, r"field 'a\[\]' is a union"),
        ({"type": "array", "items": {"type": "int", "logicalType": "time-millis"}}, r"'a\[\]' is time-millis"),
    ):
        with pytest.raises(UsageError, match=told):
            json_fields(schema(a=type_))


def test_a_named_type_may_be_used_again() -> None:
    """An enum that an earlier field defines, by its short or its full name."""
    kind = {"type": "enum", "name": "Kind", "symbols": ["x", "y"]}
    made = {**schema(a=kind, b=["null", "Kind"], c="ns.Kind"), "namespace": "ns"}
    assert [(one.kind, one.symbols) for one in json_fields(made)] == [("enum", ("x", "y"))] * 3


def test_a_decimal_without_precision_is_bytes() -> None:
    """As Avro says: a logical type that is not valid is ignored; and a precision alone makes no decimal."""
    for told in ({"logicalType": "decimal"}, {"logicalType": "decimal", "precision": 0}, {"precision": 9}):
        (field,) = json_fields(schema(a={"type": "bytes", **told}))
        assert field.kind == "bytes", told
    (field,) = json_fields(schema(a=DECIMAL))
    assert (field.kind, field.precision, field.scale) == ("decimal", 9, 2)


def test_a_plain_type_has_neither_size_nor_digits() -> None:
    assert json_fields(schema(a="string")) == (JsonField("a", "string", False),)


def test_a_day_of_other_years_is_not_written() -> None:
    """No text of it could be read back."""
    with pytest.raises(UsageError, match="outside the years 1 to 9999"):
        written(DATE, 2_932_897)


def test_no_word_is_written_that_json_does_not_have() -> None:
    """A number that the type of the field cannot hold is an error, and no record that nobody can read."""
    with pytest.raises(ValueError, match="JSON"):
        written("long", float("nan"))
