"""docs/EVENTS.md: what becomes of an event in JSON, case by case, as Spark itself says it.

`RECORD=1 .venv/bin/pytest tests/spark/test_event_table.py` writes the page.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cutwater.core.events.json_events import RULES
from cutwater.core.job.job import Job
from cutwater_spark.query.formats import with_events
from support.events import wide

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("as_in_a_driver")]
PAGE = Path(__file__).parents[2] / "docs" / "EVENTS.md"
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 20}
TYPES: dict[str, Any] = {
    "boolean": "boolean", "int": "int", "long": "long", "float": "float", "double": "double", "string": "string",
    "enum": {"type": "enum", "name": "Kind", "symbols": ["a", "b"]}, "bytes": "bytes",
    "fixed": {"type": "fixed", "name": "Two", "size": 2}, "decimal": DECIMAL,
    "date": {"type": "int", "logicalType": "date"}, "timestamp-millis": wide.TYPES["seen"],
    "timestamp-micros": wide.TYPES["exact"],
    "record": {"type": "record", "name": "Point", "fields": [
        {"name": "x", "type": "int"}, {"name": "y", "type": ["null", "string"], "default": None},
    ]},
    "array": {"type": "array", "items": "Point"}, "map": {"type": "map", "values": ["null", "int"]},
}  # fmt: skip
NESTED = ("record", "array", "map")
PLACE = [{"name": "key", "type": "string"}, {"name": "at", "type": wide.TYPES["seen"]}]
SCHEMA = {
    "type": "record", "name": "Event", "namespace": "test",
    "fields": [*PLACE, *({"name": one, "type": ["null", type_], "default": None} for one, type_ in (
        (kind.replace("-", "_"), type_) for kind, type_ in TYPES.items()
    ))],
}  # fmt: skip
GOOD = '{"key":"a","at":1700000000000,"int":1}'
RECORDS: list[tuple[str, bytes]] = [
    (GOOD, GOOD.encode()),
    ("the same with blanks and line ends around it", f" \r\n{GOOD}\t\n".encode()),
    ("a field that the schema does not name, whatever it holds", GOOD[:-1].encode() + b',"more":{"int":[7]}}'),
    ("no bytes at all", b""),
    ("{}", b"{}"),
    (f"{GOOD}}}", f"{GOOD}}}".encode()),
    (f"{GOOD}}} and some garbage {{", f"{GOOD}}} and some garbage {{".encode()),
    (f'{GOOD},"x":1', f'{GOOD},"x":1'.encode()),
    (f'{GOOD},"e":{{"key":"b"}}', f'{GOOD},"e":{{"key":"b"}}'.encode()),
    ("two objects", GOOD.encode() * 2),
    (f"[{GOOD}]", f"[{GOOD}]".encode()),
    ("null", b"null"),
    ("the object cut short", GOOD[:-1].encode()),
    ("single quotes", GOOD.replace('"', "'").encode()),
    ("a byte order mark", b"\xef\xbb\xbf" + GOOD.encode()),
    ("a byte that is not UTF-8", GOOD.encode().replace(b'"a"', b'"\xff"')),
    ("UTF-16", GOOD.encode("utf-16")),
    ('{"key":"u\\ud83d",…}: half of a surrogate pair', GOOD.encode().replace(b'"a"', b'"u\\ud83d"')),
    ('{"key":"u\\ud83d\\ude00",…}: both', GOOD.encode().replace(b'"a"', b'"u\\ud83d\\ude00"')),
    ('{"key":"u\\\\ud83d",…}: an escaped backslash', GOOD.encode().replace(b'"a"', b'"u\\\\ud83d"')),
    ("a line end in a text, not escaped", GOOD.encode().replace(b'"a"', b'"a\n"')),
    ("a bare NaN in a field that nobody named", GOOD[:-1].encode() + b',"more":NaN}'),
    ('{"key":"a",…,"int":1,"int":2}', GOOD[:-1].encode() + b',"int":2}'),
    ('{"key":"a",…,"int":1,"int":"x"}', GOOD[:-1].encode() + b',"int":"x"}'),
    ('{"key":"a",…,"int":1,"int":null}', GOOD[:-1].encode() + b',"int":null}'),
    ("objects in objects, 990 deep, in a field that nobody named", b'{"x":' * 990 + b"1" + b"}" * 989
     + b"," + GOOD[1:].encode()),
    ("the same, 1,010 deep", b'{"x":' * 1_010 + b"1" + b"}" * 1_009 + b"," + GOOD[1:].encode()),
]  # fmt: skip
_NUMBERS = ["5", "-0", "1.0", "1e2", "01", '"5"', "NaN", "true"]
TOKENS: dict[str, list[str]] = {
    "boolean": ["true", "false", '"true"', "1", "null"],
    "int": [*_NUMBERS, "2147483647", "2147483648", "null"],
    "long": [*_NUMBERS, "9223372036854775807", "9223372036854775808"],
    "float": [*_NUMBERS, "0.1", '"NaN"', '"Infinity"', "1e39", "1e400"],
    "double": [*_NUMBERS, "0.1", '"NaN"', '"-Infinity"', '"INF"', "Infinity", "1e308", "1e400"],
    "string": ['"x"', '""', '"NaN"', "NaN", "5", "true", '{"a":1}', '{"a":1,"a":2}', '["x"]', "null"],
    "enum": ['"a"', '"A"', '"c"', "1", "null"],
    "bytes": ['"AP8="', '""', '"AP8"', '"A P8="', '"!!"', "1234"],
    "fixed": ['"AP8="', '"AP//"', '""'],
    "decimal": ["0.12345678901234567890", '"0.12345678901234567890"', "1234567890.12345678901234567890", "0.5000",
                '"0.5000"', "0.123456789012345678901", '"0.123456789012345678901"', "12345678901", "1e2", '"1e2"',
                "0.1" + "0" * 38, '"0.1' + "0" * 38 + '"', '"x"', "true", "null"],
    "date": ['"2013-01-31"', '"0001-01-01"', '"1582-10-10"', '"9999-12-31"', '"0000-01-01"',
             '"10000-01-01"', '"2013-02-30"', '"2013-1-31"', '"20130131"', '"2013-01-31T00:00:00Z"',
             "15736", "null"],
    "timestamp-millis": ["1700000000000", '"1700000000000"', "1700000000", '"2024-03-10T06:30:00Z"',
                         '"2024-03-10 06:30:00.1239+02:00"', '"2024-03-10T06:30:00"', '"2024-03-10T06:30:00+0200"',
                         '"2024-03-10"', '"2013-02-30T00:00:00Z"', "1.7e12", "1700000000000.0", '"soon"',
                         "1700000000000000", '"1700000000000000000"', '"' + "9" * 40 + '"'],
    "timestamp-micros": ["1700000000000001", '"2024-03-10T06:30:00.123456789Z"', "1e15", "1700000000000000000"],
    "record": ['{"x":1}', '{"x":1,"y":"a","z":[]}', '{"x":1,"x":2}', "{}", '{"x":"1"}', '{"x":1,"y":2}', "[1]",
               '"{}"', "null"],
    "array": ['[{"x":1},{"x":2}]', "[]", '[{"x":1},{"y":"a"}]', "[null]", '{"x":1}', "5", "null"],
    "map": ['{"a":1,"b":null}', "{}", '{"a":1,"b":"2"}', '{"a":1,"a":2}', "[]", "null"],
}  # fmt: skip
HEAD = """# Events in JSON, case by case

What becomes of an event, by the rules of [FORMATS.md](FORMATS.md#json). A test lets Spark read each case and
compares; it wrote this page. A rejected event is a dead letter, `undecodable`; field and rule are as
`cutwater dead-letters list` shows them ([LISTS.md](LISTS.md)).

## The record

The schema has the fields `key` (string), `at` (timestamp-millis), and one of each type that may be null.

"""
MIDDLE = """
With `source.repeated_names: reject`:

"""
FIELDS = """
Names are looked for among all that the object has, so that an object with a name twice is rejected by that setting
whichever name it is. The same holds for records and maps inside of it. Inside of objects in fields that nobody
named nothing is looked at.

## The field

`{"key":"a","at":1700000000000,"<field>":<token>}`, where the field may be null. A token is judged as it was sent:
no number passes through a double on its way to a decimal, and nothing is made into a text. A number has at most
1,000 digits; one for a decimal has at most 38 digits, zeros included, and its text as many as it likes. The
sign of a zero is not kept.

Inside of records, arrays and maps the same rules hold, level by level; a dead letter names the path of the first
value that does not fit. Of a map's key it shows the first 60 characters.

"""


@pytest.mark.slow
def test_the_page_says_what_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    """Each case of docs/EVENTS.md, asked again."""
    job = wide.job(tmp_path / "last", SCHEMA, "format: json")
    strict = wide.job(tmp_path / "reject", SCHEMA, "format: json, repeated_names: reject")
    twice = [one for one in RECORDS if '"int":1,"int"' in one[0]]
    kinds = [(kind, token) for kind, tokens in TOKENS.items() for token in tokens]
    values = [
        f'{{"key":"a","at":1700000000000,"{kind.replace("-", "_")}":{token}}}'.encode() for kind, token in kinds
    ]
    outcomes = _outcomes(spark, job, values, [kind.replace("-", "_") for kind, _ in kinds])
    rows = [(kind, _code(token), told) for (kind, token), told in zip(kinds, outcomes, strict=True)]
    text = (
        HEAD + _table(("the record", "becomes"), _records(spark, job, RECORDS))
        + MIDDLE + _table(("the record", "becomes"), _records(spark, strict, twice))
        + FIELDS + _table(("type", "must be"), [(kind, rule) for kind, rule in RULES.items()])
        + "\n" + _table(("type", "token", "becomes"), rows)
    )  # fmt: skip
    if os.environ.get("RECORD"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, "RECORD=1 writes the page again"


def _records(spark: SparkSession, job: Job, cases: Sequence[tuple[str, bytes]]) -> list[tuple[str, str]]:
    told = _outcomes(spark, job, [value for _, value in cases], None)
    return [(_code(name) if "{" in name or name == "null" else name, one)
            for (name, _), one in zip(cases, told, strict=True)]  # fmt: skip


def _outcomes(spark: SparkSession, job: Job, values: Sequence[bytes], fields: Sequence[str] | None) -> list[str]:
    """Per record the value of one field, or of key and int; else why there is none."""
    rows = [(number, bytearray(one)) for number, one in enumerate(values)]
    frame = with_events(
        spark.createDataFrame(rows, "number int, value binary").coalesce(1), job, (), explained=True
    )
    names = [one.replace("-", "_") for one in TYPES]
    shown = ", ".join(f"'{one}', {_shown(one)}" for one in names)
    found = frame.selectExpr("number", "__flaw", "event.key", f"map({shown}) as shown").orderBy("number").collect()
    return [_outcome(row, None if fields is None else fields[at]) for at, row in enumerate(found)]


def _shown(field: str) -> str:
    if field in NESTED:
        return f"to_json(event.{field}, map('ignoreNullFields', 'false'))"
    return f"hex(event.{field})" if field in ("bytes", "fixed") else f"cast(event.{field} as string)"


def _outcome(row: Any, field: str | None) -> str:
    if row["__flaw"] is not None:
        about, rule = row["__flaw"]
        return f"rejected: {f'`{about}` ' if about else ''}{rule}"
    if field is None:
        return f"key {_code(row['key'])}, int {_code(row['shown']['int'] or 'null')}"
    value = row["shown"][field]
    return "null" if value is None else _code(("0x" if field in ("bytes", "fixed") else "") + value)


def _code(text: str) -> str:
    return f"`{text}`" if text else "the empty text"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(one)} |\n" for one in lines)
