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

from cutwater.core.events.json_events import NO_OBJECT, json_fields
from cutwater.core.events.json_records import iso_micros, read, tokens
from cutwater.core.events.rejection import Flaw
from support.events import jsonoracle, strangers, wide

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
}
FIELDS = json_fields(
    {
        "fields": [
            {"name": "key", "type": "string"},
            {"name": "at", "type": wide.TYPES["seen"]},
            *({"name": name, "type": ["null", one], "default": None} for name, one in TYPES.items()),
        ]
    }
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
    default = json_fields({"fields": [strangers.FIELDS[-1]]})
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
        (TYPES["enum"], "b", "b"),
        (["null", "long"], None, None),
    ],
)
def test_a_default_is_what_its_schema_means_by_it(type_: Any, default: Any, value: Any) -> None:
    """Bytes are a text of code points, a decimal such bytes, and times are in their unit."""
    fields = json_fields({"fields": [{"name": "a", "type": type_, "default": default}]})
    found = read(b"{}", fields)
    assert found == {"a": value}
    assert read(b'{"a":null}', fields) == found
