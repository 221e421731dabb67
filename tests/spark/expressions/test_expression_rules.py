"""Expressions of a job file are checked by Spark's analyser: each mistake has its line and a remedy.

The analyser is asked in this process's session: a process for each file would take ten seconds. Its errors reach
Python in two ways, with a session and without one: what is refused is also asked as users ask, in a process.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cutwater.adapters.runtime.cache_folder import CACHE_VARIABLE
from cutwater.core.errors import UsageError
from support.events.trips import HEAD, SCHEMA, read

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("asked")]


SESSION, PROCESS = "session", "process"
MILES_ONLY = HEAD.replace("max, field: speed", "max, field: miles")


@pytest.fixture
def asked(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks the session, or a process of its own where a test's parameter says so."""
    if getattr(request, "param", SESSION) == SESSION:
        request.getfixturevalue("asked_here")
    else:
        monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


MISTAKES = """  where: minute > 0
  columns:
    speed: miles / minutes +
    slow: speed / 2
    now_: current_timestamp()
    luck: rand()
    all_: sum(miles)
    sub: miles in (select 1)
    two: explode(array(1, 2))
    strange: frobnicate(miles)
    part: place
    wrong: {sql: miles, type: number}
    minutes: "1"
    Miles: "2"
    same: "1"
    Same: "1"
    five: 5
    cast_: {sql: place, type: long}
"""


@pytest.mark.parametrize("asked", [SESSION, pytest.param(PROCESS, marks=pytest.mark.slow)], indirect=True)
def test_each_mistake_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, MISTAKES)
    told = [one.partition("job.yaml:")[2] for one in str(refused.value).splitlines()]
    wanted = [
        "13: source.where: the schema has no field 'minute'",
        "15: source.columns.speed: Syntax error",
        "16: source.columns.slow: 'speed' is a computed column",
        "17: source.columns.now_: uses current_timestamp(), which may give another value",
        "18: source.columns.luck: uses rand(), which may give another value",
        "19: source.columns.all_: aggregates events",
        "20: source.columns.sub: has a subquery",
        "21: source.columns.two: makes several rows of one event",
        "22: source.columns.strange: uses frobnicate(), a function that Spark does not have",
        "23: source.columns.part: is struct<zone:int>, which no column may be",
        "24: source.columns.wrong.type: 'number' is no type of a column",
        "25: source.columns.minutes: the schema has a field 'minutes'",
        "26: source.columns.Miles: the schema has a field 'miles'",
        "27: source.columns.same: differs from column 'Same' in case alone",
        "28: source.columns.Same: differs from column 'same' in case alone",
        "29: source.columns.five: YAML reads it as int: put the expression in quotes",
        "30: source.columns.cast_.type: ",
    ]
    assert len(told) == len(wanted), told
    for one, start in zip(told, wanted, strict=True):
        assert one.startswith(start), (one, start)
    assert "did you mean 'minutes'?" in told[0]
    assert "SQLSTATE" not in str(refused.value)


REFUSED = {
    "xxhash64(*) > 0": r"has '\*': name the fields",
    "at >= timestamp'today'": "has a time that is read from the clock",
    "at >= 'yesterday'": "has a time that is read from the clock",
    "date_format(at, 'YYYY') = '2024'": "Y",
    "car rlike '['": "Unclosed",
    "car rlike car": "with a pattern that is not constant",
    "car rlike '(a|b)*'": "in which a group is repeated",
    "length(repeat(car, minutes)) > 0": "makes much of a number",
    "base64(aes_encrypt(car, '1234567890123456')) = ''": "which may give another value",
    " + ".join(["minutes"] * 400) + " > 0": "nests more than 200 operations",
    "uuid() = ''": r"uses uuid\(\)",
    "1 = 1) or (1 = 1": "Syntax error",
}


@pytest.mark.parametrize("asked", [SESSION, pytest.param(PROCESS, marks=pytest.mark.slow)], indirect=True)
def test_what_would_end_a_query_or_change_from_run_to_run_is_refused(tmp_path: Path) -> None:
    columns = "".join(f"    c{at}: {json.dumps(sql)}\n" for at, sql in enumerate(REFUSED))
    with pytest.raises(UsageError) as refused:
        read(tmp_path, f"  columns:\n{columns}", MILES_ONLY)
    told = {one.partition("source.columns.")[2].partition(": ")[0]: one for one in str(refused.value).splitlines()}
    for at, (sql, why) in enumerate(REFUSED.items()):
        assert re.search(why, told.get(f"c{at}", "")), (sql, why, told.get(f"c{at}"))


ALLOWED = (
    "car rlike '^(a|b)*+$'",
    "split(car, ',')[0] = 'a' -- a comment\\",
    "regexp_replace(car, '[0-9]+', '${x}') = ''",
    "repeat(car, 3) = ''",
    "date_format(at, 'yyyy-MM-dd') >= '2024'",
    "nvl(minutes, 0) between 1 and 2 and car in ('today', 'b')",
    "exists(array(minutes), x -> x > 1) and `place`.zone = 1",
    "map('a', miles)['a'] > 1 and cast(car as int) > 1",
)


def test_what_is_allowed_is_a_condition(tmp_path: Path) -> None:
    columns = "".join(f"    c{at}: {json.dumps(sql)}\n" for at, sql in enumerate(ALLOWED))
    job = read(tmp_path, f"  columns:\n{columns}", MILES_ONLY)
    assert {one.type.name for one in job.columns} == {"boolean"}


@pytest.mark.parametrize(
    ("where", "wrong"),
    [("miles", "is double, and a condition is boolean"), ("car as c", "gives its value a name with 'as'")],
)
def test_a_condition_is_boolean_and_has_no_name(tmp_path: Path, where: str, wrong: str) -> None:
    with pytest.raises(UsageError, match=wrong):
        read(tmp_path, f"  where: {where}\n", MILES_ONLY)


EXPLODED = """  explode:
    array: {array}
    as: one
    where: {where}
    columns:
      speed: {speed}
      zone: {{sql: "one.x", type: string}}
"""


@pytest.mark.parametrize(
    ("array", "where", "speed", "said"),
    [
        ("spots", "one.x > minutes", "miles / one.x", ""),
        (
            "spot",
            "one.x > 0",
            "one.x",
            "14: source.explode.array: the schema has no field 'spot'.* did you mean 'spots'",
        ),
        ("place", "1 = 1", "miles", "14: source.explode.array: is .*struct.*, and only an array has elements"),
        ("spots", "one.x", "one.x", "16: source.explode.where: is integer, and a condition is boolean"),
        ("spots", "one.x > 0", "onex", "18: source.explode.columns.speed: the schema has no field 'onex'"),
        ("spots", "one.x > 0", "speed + 1", "18: .*'speed' is a computed column, and expressions see the event's"),
        (
            "spots",
            "rand() > one.x",
            "one.x",
            "16: source.explode.where: uses rand\\(\\), which may give another value",
        ),
        ("spots", "one.x > 0", "sum(one.x)", "18: source.explode.columns.speed: "),
        (
            "spots",
            "one.x > 0",
            "one",
            "18: source.explode.columns.speed: is struct<x:int>, which no column may be",
        ),
        ("spots", "one.x > 0", "one.y", "18: source.explode.columns.speed: .*y"),
    ],
)
def test_expressions_over_elements_are_checked_like_others(
    tmp_path: Path, array: str, where: str, speed: str, said: str
) -> None:
    """One line for each mistake, and none for what follows from it."""
    spot = {"type": "record", "name": "Spot", "fields": [{"name": "x", "type": "int"}]}
    spots = {"name": "spots", "type": {"type": "array", "items": spot}}
    schema = {**SCHEMA, "fields": [*SCHEMA["fields"], spots]}
    source = EXPLODED.format(array=array, where=where, speed=speed)
    if not said:
        job = read(tmp_path, source, schema=schema)
        assert [(one.name, one.type.name) for one in job.element_columns] == [
            ("speed", "double"),
            ("zone", "string"),
        ]
        return
    with pytest.raises(UsageError) as error:
        read(tmp_path, source, schema=schema)
    [line] = str(error.value).splitlines()
    assert re.search(said, line), line
