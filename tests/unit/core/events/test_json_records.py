"""JSON records judged without Spark: as docs/EVENTS.md says, which Spark wrote, and as a second parser reads."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.core.events.json_events import NO_OBJECT, JsonField, json_fields
from cutwater.core.events.json_records import iso_micros, read, tokens
from cutwater.core.events.rejection import Flaw
from support.events import jsonoracle, strangers, wide
from support.events.complex_types import FIRST_FLAWS, MEETING, Nested

PAGE = Path(__file__).parents[4] / "docs" / "EVENTS.md"
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 20}
TYPES: dict[str, Any] = {
    **{one: one for one in ("boolean", "int", "long", "float", "double", "string", "bytes")},
    "enum": {"type": "enum", "name": "Kind", "symbols": ["a", "b"]},
    "fixed": {"type": "fixed", "name": "Two", "size": 2},
    "decimal": DECIMAL,
    "date": {"type": "int", "logicalType": "date"},
    "timestamp_millis": wide.TYPES["seen"],
    "timestamp_micros": wide.TYPES["exact"],
    "record": {
        "type": "record",
        "name": "Point",
        "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": ["null", "string"], "default": None}],
    },
    "array": {"type": "array", "items": "Point"},
    "map": {"type": "map", "values": ["null", "int"]},
}


def fields_of(*fields: dict[str, Any]) -> tuple[JsonField, ...]:
    return json_fields({"type": "record", "name": "Event", "fields": list(fields)})


FIELDS = fields_of(
    {"name": "key", "type": "string"},
    {"name": "at", "type": wide.TYPES["seen"]},
    *({"name": name, "type": ["null", one], "default": None} for name, one in TYPES.items()),
)
STRANGE = json_fields(strangers.SCHEMA)


def page_rows() -> list[tuple[bytes, str]]:
    """The records and tokens of the page that are written out, each with what becomes of it."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if match := re.fullmatch(r"\| ([a-z-]+) \| `(.*)` \| (.*) \|", line):
            token = f'{{"key":"a","at":1700000000000,"{match[1].replace("-", "_")}":{match[2]}}}'
            found.append((token.encode(), match[3]))
        elif match := re.fullmatch(r"\| `([^…]*)` \| (.*) \|", line):
            found.append((match[1].encode(), match[2]))
    return found


def outcome(value: bytes) -> str | None:
    """As the page says it, of what is rejected."""
    found = read(value, FIELDS)
    if not isinstance(found, Flaw):
        return None
    return f"rejected: {f'`{found.field}` ' if found.field else ''}{found.rule}"


def test_what_spark_rejects_is_rejected_for_the_same_rule() -> None:
    """Spark wrote the page; all its cases that stand there as they are sent."""
    rows = page_rows()
    assert len(rows) > 110
    wrong = [(value, told) for value, told in rows if (outcome(value) or "read") != told.replace("\\|", "|")
             and (told.startswith("rejected") or outcome(value))]  # fmt: skip
    assert wrong == []


def agree(value: bytes, fields: Any) -> bool:
    mine, theirs = read(value, fields), jsonoracle.read(value, fields).event
    if isinstance(mine, Flaw) or theirs is None:
        return isinstance(mine, Flaw) and theirs is None
    return all(same(mine[name], theirs[name]) for name in theirs)


def same(mine: Any, theirs: Any) -> bool:
    return bool(type(mine) is type(theirs) and (mine == theirs or (math.isnan(mine) and math.isnan(theirs))))


def test_a_second_parser_agrees_on_strangers_records() -> None:
    """The records on which Spark and that parser agree (tests/spark/test_strangers_json.py): so all three do."""
    made = strangers.records(10_000, strangers.SEED)
    fields = tuple(one for one in STRANGE if one.name != "d")
    assert [one for one in made if not agree(one, fields)][:5] == []
    default = fields_of(strangers.FIELDS[-1])
    assert read(b"{}", default) == {"d": "none"}


DIGITS = st.text("0123456789", min_size=1, max_size=45)
NUMBERS = st.one_of(
    st.integers(-(2**64), 2**64).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.builds("{}{}.{}".format, st.sampled_from(["", "-"]), DIGITS, DIGITS),
    st.builds("{}e{}".format, DIGITS, st.integers(-400, 400)),
)
TIMES = st.builds(
    "{}{}{}{}".format,
    st.one_of(st.dates().map(str), st.sampled_from(["2013-02-29", "0199-12-31", "0000-01-01", "2013-1-1"])),
    st.sampled_from(["T", " ", "t", ""]),
    st.sampled_from(["00:00:00", "23:59:59", "24:00:00", "12:00:60", "12:00", "06:30:00.1", "06:30:00.123456789"]),
    st.sampled_from(["", "Z", "+02:00", "-18:00", "+18:01", "+0200", "+02", "+01:99", "z", "-00:30"]),
)
WORDS = st.sampled_from(["a", "NaN", "Infinity"])
DATES = st.one_of(st.dates().map(str), st.sampled_from(["2013-02-29", "0000-01-01", "2013-1-1", "10000-01-01"]))
TEXTS = st.one_of(TIMES, DATES, NUMBERS, st.text(max_size=8), st.text("AP8=+/", max_size=8), WORDS)
TOKENS = st.one_of(
    NUMBERS, TEXTS.map(json.dumps), TEXTS.map(lambda one: json.dumps(one, ensure_ascii=False)),
    st.sampled_from(["null", "true", "false", "NaN", "[]", "{}", '"\\ud800"', '"\\ud83d\\ude00"', "-", "1."]),
)  # fmt: skip


@settings(max_examples=2_000)
@given(st.sampled_from(sorted(TYPES)), TOKENS)
def test_a_second_parser_agrees_on_every_type_and_token(name: str, token: str) -> None:
    """The same tokens for each type, values to the last digit."""
    value = f'{{"key":"a","at":1,"{name}":{token}}}'.encode("utf-8", "surrogatepass")
    assert agree(value, FIELDS)


def test_depth_and_length_have_bounds() -> None:
    """A number of more than 1,000 digits, objects 1,010 deep: no JSON, as for Spark's parser."""
    assert tokens(b'{"n":' + b"1" * 1_000 + b"}") == {"n": "1" * 1_000}
    for most in ("-" + "1" * 1_000, "0." + "1" * 1_000, "1." + "1" * 999, "1e-" + "1" * 999):
        assert isinstance(tokens(f'{{"n":{most}}}'.encode()), dict), "as Spark's parser counts"
        assert tokens(f'{{"n":{most}1}}'.encode()) == Flaw("undecodable", NO_OBJECT)
    assert tokens(b'{"n":' + b"1" * 1_001 + b"}") == Flaw("undecodable", NO_OBJECT)
    assert isinstance(tokens(b'{"x":' * 500 + b'"{[[\\"[["' + b"}" * 500), dict)
    assert tokens(b'{"x":' * 1_010 + b"1" + b"}" * 1_010) == Flaw("undecodable", NO_OBJECT)


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01 00:00:00.0000019", 1),
        ("1970-01-01T02:00:00.5+02:00", 500_000),
        ("1969-12-31T23:30:00-00:30", 0),
        ("1970-01-01T00:00:00+18:00", -64_800_000_000),
        ("1970-01-01T00:00:00+0000", None),
        ("1970-01-01T00:00:00+00", None),
        ("1970-01-01T00:00Z", None),
        ("1970-02-30T00:00:00Z", None),
        ("1970-01-01T24:00:00Z", None),
        ("1970-01-01T00:00:00+01:60", None),
        ("1970-01-01T00:00:00+18:01", None),
    ],
)
def test_a_time_is_read_to_the_microsecond(text: str, micros: int | None) -> None:
    """Finer parts are cut off; offsets have a colon, and at most eighteen hours."""
    assert iso_micros(text) == micros


@pytest.mark.parametrize(
    ("type_", "default", "value"),
    [
        ("bytes", "\x00\xff", b"\x00\xff"),
        (TYPES["fixed"], "\x01\xff", b"\x01\xff"),
        ({**DECIMAL, "precision": 9, "scale": 2}, "\x01\x00", Decimal("2.56")),
        (TYPES["timestamp_millis"], 5, 5_000),
        (TYPES["timestamp_micros"], 5, 5),
        (TYPES["date"], 5, 5),
        ("long", 5, 5),
        ("double", 5, 5.0),
        ("double", "-Infinity", float("-inf")),
        ("float", "Infinity", float("inf")),
        (TYPES["enum"], "b", "b"),
        (["null", "long"], None, None),
    ],
)
def test_a_default_is_what_its_schema_means_by_it(type_: Any, default: Any, value: Any) -> None:
    """Bytes are a text of code points, a decimal such bytes, and times are in their unit."""
    fields = fields_of({"name": "a", "type": type_, "default": default})
    found = read(b"{}", fields)
    assert found == {"a": value}
    assert type(found["a"]) is type(value)
    assert read(b'{"a":null}', fields) == found


@pytest.mark.parametrize(
    ("name", "fits"),
    [("k" * 50_000, True), ("k" * 50_001, False), ("\\u0041" * 50_000, True), ("😀" * 25_001, False)],
)
def test_a_name_has_a_bound(name: str, fits: bool) -> None:
    """That of Spark's parser (tests/spark/expressions/test_json_complex_types.py); a text may be longer."""
    fields = fields_of({"name": "m", "type": {"type": "map", "values": "string"}})
    for value in (f'{{"m":{{"{name}" :"x"}}}}', f'{{"m":{{}},"other":[{{"{name}":1}}]}}'):
        assert isinstance(read(value.encode(), fields), dict) == fits
    assert isinstance(read(f'{{"m":{{"k":"{name}"}}}}'.encode(), fields), dict)


def test_defaults_of_nested_types_are_those_of_the_schema() -> None:
    """A record's default may leave out what has one itself; times are in microseconds, decimals as bytes."""
    point = {"type": "record", "name": "P", "fields": [
        {"name": "t", "type": wide.TYPES["seen"]}, {"name": "x", "type": wide.TYPES["price"], "default": "\x01"},
    ]}  # fmt: skip
    given_ = {"list": [{"t": 2}], "map": {"k": {"t": 3, "x": "\x02"}}, "one": {"t": 1}, "none": None}
    types = {"one": point, "list": {"type": "array", "items": "P"}, "map": {"type": "map", "values": "P"},
             "none": ["null", "P"]}  # fmt: skip
    fields = fields_of(*({"name": one, "type": type_, "default": given_[one]} for one, type_ in types.items()))
    assert read(b"{}", fields) == {
        "one": {"t": 1_000, "x": Decimal("0.01")},
        "list": [{"t": 2_000, "x": Decimal("0.01")}],
        "map": {"k": {"t": 3_000, "x": Decimal("0.02")}},
        "none": None,
    }


def test_of_several_flaws_the_first_in_the_order_of_the_schema_is_told() -> None:
    """Spark tells the same (tests/spark/expressions/test_json_complex_types.py)."""
    fields = json_fields(MEETING)
    for told, path in FIRST_FLAWS.items():
        found = read(f'{{"key":"a","at":1,{told}}}'.encode(), fields)
        assert isinstance(found, Flaw), told
        assert found.field == path


def test_arrays_and_maps_have_a_bound() -> None:
    fields = json_fields(MEETING)
    for count, flaw in ((10_000, None), (10_001, "at most 10,000")):
        points = ",".join(['{"x":1,"y":2}'] * count)
        names = ",".join(f'"{one}":null' for one in range(count))
        for told in (f'"l":[{points}]', f'"m":{{{names}}}'):
            found = read(f'{{"key":"a","at":1,{told}}}'.encode(), fields)
            assert flaw in found.rule if isinstance(found, Flaw) and flaw else not flaw


def in_order(value: Any) -> str:
    """Plain values as a text, which is the same for the same values, NaN too. A map has no order."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{one!r}: {in_order(value[one])}' for one in sorted(value))}}}"
    return f"[{', '.join(map(in_order, value))}]" if isinstance(value, list) else repr(value)


@settings(max_examples=40)
@given(st.integers(0, 10_000))
def test_a_nested_record_is_read_as_a_second_parser_reads_it(seed: int) -> None:
    """Random schemas, each with events that are spoilt in some way or in none."""
    nested = Nested(seed)
    fields = json_fields(nested.schema)
    for value in nested.records(20):
        mine, theirs = read(value, fields), jsonoracle.read(value, fields).event
        assert isinstance(mine, Flaw) == (theirs is None), value
        assert isinstance(mine, Flaw) or in_order(mine) == in_order(theirs), value
