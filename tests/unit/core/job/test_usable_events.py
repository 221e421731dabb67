"""What is told of rejected samples: how often, which, and with what the first begins. The rules: tests/spark."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.events.rejection import (
    KEY_TOO_LARGE,
    MAX_KEY_BYTES,
    NO_KEY,
    NO_ROOM,
    TOO_LARGE,
    UNDECODABLE,
    Flaw,
)
from cutwater.core.job.job import Job
from cutwater.core.job.measures import FieldType, Limit
from cutwater.core.job.usable_events import EXAMPLE_BYTES, Rejected, find_flaw, tally, too_large
from support.events import wide


def test_flaws_are_counted_with_the_first_example_the_most_frequent_first() -> None:
    """By reason, field and rule; 200 bytes of an example, none of a record without value."""
    key, text = Flaw(NO_KEY, "is null", "k"), Flaw(UNDECODABLE, "is not a text", "k")
    found = tally([(key, None), (text, b"x" * 300), (text, b"y"), (text, b"z")])
    assert found == [Rejected(text, 3, b"x" * EXAMPLE_BYTES), Rejected(key, 1, None)]
    assert tally([]) == []


def job(folder: Path) -> Job:
    wide.job(folder, wide.SCHEMA)
    (folder / "job.yaml").write_text(wide.job_text("wide", measures="n: {measure: count}"), encoding="utf-8")
    return load_job(folder / "job.yaml")


def reason(flaw: Flaw | None) -> str | None:
    return flaw.reason if flaw else None


def test_a_record_is_too_large_from_the_first_byte_beyond_the_bound(tmp_path: Path) -> None:
    one = replace(job(tmp_path), max_event_bytes=3)
    assert too_large(one, None) is None
    assert too_large(one, b"abc") is None
    assert reason(too_large(one, b"abcd")) == TOO_LARGE


def test_a_key_is_too_large_from_the_first_byte_beyond_the_bound(tmp_path: Path) -> None:
    one = job(tmp_path)
    event = {one.key_field: "k" * MAX_KEY_BYTES, one.time_field: 0}
    assert find_flaw(one, {}, event, None) is None
    assert reason(find_flaw(one, {}, event | {one.key_field: "k" * MAX_KEY_BYTES + "k"}, None)) == KEY_TOO_LARGE


def test_a_decimal_fits_up_to_its_last_whole_digit(tmp_path: Path) -> None:
    """decimal(4,2) holds 99.99 and no 100, of either sign."""
    one = job(tmp_path)
    limited = replace(one.measures[0], limit=Limit("amount", FieldType("decimal", 4, 2)))
    one = replace(one, measures=(limited,))
    event = {one.key_field: "k", one.time_field: 0}
    for fits in (None, Decimal("99.99"), Decimal("-99.99")):
        assert find_flaw(one, {}, {**event, "amount": fits}, None) is None
    for beyond in (Decimal(100), Decimal(-100)):
        assert reason(find_flaw(one, {}, {**event, "amount": beyond}, None)) == NO_ROOM


def test_a_long_fits_a_measure_as_a_decimal_does(tmp_path: Path) -> None:
    """One event may add 14 digits to a variance, of whichever type they are."""
    limit = Limit("big", FieldType("decimal", 14, 0))
    job = wide.job(tmp_path, wide.SCHEMA, "format: json")
    job = replace(job, measures=(replace(job.measures[0], limit=limit),))
    event = {"key": "a", "at": 0}
    types = {"big": FieldType("long")}
    found = [find_flaw(job, types, {**event, "big": one}, None) for one in (None, 10**14 - 1, 1 - 10**14, 10**14)]
    assert found[:3] == [None] * 3
    assert found[3] is not None
    assert found[3].rule.startswith("is beyond decimal(14,0)")
    last = find_flaw(job, types, {**event, "big": -(2**63)}, None)
    assert last is not None
    assert last.field == "big"
