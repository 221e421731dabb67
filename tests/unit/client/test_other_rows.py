"""Rows of a generation with another job file, as a reader's own job file shows them: each format, both ways."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.sketches import HllSketches
from cutwater.client.decoding import AvroDecoder, JsonDecoder, OtherRows
from cutwater.core.errors import UsageError
from cutwater.core.job.derived_values import derived_measure
from cutwater.core.job.job import TOMBSTONE, UPDATE, WINDOW_KEY_SCHEMA, Job, Output
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import FieldType
from cutwater.publisher.encoding import encoder_for
from support.views.changelogs import HOUR_MS, make_job

PARTIALS = {
    "sales": 3,
    "pieces": Decimal(5),
    "takings": Decimal("0.50"),
    "mean_sum": Decimal("0.50"),
    "mean_count": 2,
}


@pytest.fixture
def before(tmp_path: Path) -> Job:
    return make_job(tmp_path)[0]


def changed(job: Job) -> Job:
    """Without `pieces`; `sales` has another name; two are added."""
    kept = {one.name: one for one in job.measures}
    count = replace(build("number", "count", None, None, HllSketches()), renamed_from="sales")
    most = build("most", "max", "pieces", FieldType("int"), HllSketches())
    buckets = build("sizes", "histogram", "pieces", FieldType("int"), HllSketches(), bounds=(5.0,))
    assert kept["sales"].kind == "count"
    return replace(job, measures=(most, count, buckets, kept["takings"], kept["mean"]))


def record(job: Job, partials: dict[str, Any], kind: str = UPDATE) -> bytes:
    encoder = encoder_for(job, None)
    key = Codec(WINDOW_KEY_SCHEMA).encode({"key": "a", "window_start": 0, "window_end": HOUR_MS})
    encoder.begin(7, kind)
    if kind == TOMBSTONE:
        return encoder.tombstones([key])[0]["value"]
    own = {part.column: partials[part.column] for one in job.measures for part in one.partials}
    return encoder.value(key, Codec(job.state_schema).encode(own))


@pytest.mark.parametrize("form", ["avro", "json"])
def test_a_row_of_before_is_shown_as_the_new_job_file_says_and_the_other_way_round(before: Job, form: str) -> None:
    old = replace(before, output=Output(format=form))
    new = changed(old)
    decoder = JsonDecoder if form == "json" else AvroDecoder
    forth = decoder(new, OtherRows(new, lambda: [old])).change(record(old, PARTIALS))
    assert forth.values.keys() == {"most", "number", "sizes", "takings", "mean"}
    assert (forth.values["most"], forth.values["number"], forth.values["sizes"]) == (None, 3, [0, 0])
    partials = {**PARTIALS, "most": 4, "number": 9, "sizes_0": 1, "sizes_1": 2}
    back = decoder(old, OtherRows(old, lambda: [new])).change(record(new, partials))
    assert back.values.keys() == {one.name for one in old.measures}
    assert (back.values["sales"], back.values["pieces"]) == (9, None)
    assert str(back.values["takings"]) == str(decoder(old).change(record(old, PARTIALS)).values["takings"])
    gone = decoder(new, OtherRows(new, lambda: [old])).change(record(old, {}, TOMBSTONE))
    assert set(gone.values.values()) == {None}
    assert gone.values.keys() == forth.values.keys()


def test_a_row_of_no_generation_is_refused(before: Job) -> None:
    """By its fingerprint: it may be of another job."""
    strange = record(changed(before), {**PARTIALS, "most": 4, "number": 9, "sizes_0": 1, "sizes_1": 2})
    with pytest.raises(UsageError):
        AvroDecoder(before, OtherRows(before, lambda: [before])).change(strange)


def test_the_jobs_are_asked_for_only_when_a_row_is_another_ones(before: Job) -> None:
    """That is a read of a topic."""
    asked: list[int] = []

    def known() -> list[Job]:
        asked.append(1)
        return [changed(before)]

    decoder = AvroDecoder(before, OtherRows(before, known))
    row = record(before, PARTIALS)
    assert decoder.change(row).window_end_ms == HOUR_MS
    assert asked == []
    other = record(changed(before), {**PARTIALS, "most": 4, "number": 9, "sizes_0": 1, "sizes_1": 2})
    decoder.change(other)
    decoder.change(other)
    assert asked == [1]


def test_rows_before_a_derived_value_was_added_ask_once(before: Job) -> None:
    """JSON may have other derived values without a new generation. Each such row read the candidates topic."""
    asked: list[int] = []

    def known() -> list[Job]:
        asked.append(1)
        return []

    old = replace(before, output=Output(format="json"))
    derived = derived_measure("each", "takings / sales", {one.name: one for one in old.measures})
    new = replace(old, measures=(*old.measures, derived))
    decoder = JsonDecoder(new, OtherRows(new, known))
    found = [decoder.change(record(old, PARTIALS)).values for _ in range(3)]
    assert asked == [1]
    shown = JsonDecoder(old).change(record(old, PARTIALS)).values
    assert found == [{**shown, "each": None}] * 3
    assert decoder.change(record(new, PARTIALS)).values["each"] is not None


def renamed(job: Job, name: str, before: str) -> Job:
    """Its count of `before` has another name."""
    count = replace(build(name, "count", None, None, HllSketches()), renamed_from=before)
    return replace(job, measures=tuple(count if one.name == before else one for one in job.measures))


def test_a_measure_that_was_renamed_twice_is_found_by_the_job_file_between(before: Job) -> None:
    """A reader of the newest file sees the oldest rows, and the other way round; without that file nothing."""
    between = renamed(before, "number", "sales")
    newest = renamed(between, "amount", "number")
    known = [newest, between, before]
    row, later = record(before, PARTIALS), record(newest, {**PARTIALS, "amount": 9})
    assert AvroDecoder(newest, OtherRows(newest, lambda: known)).change(row).values["amount"] == 3
    assert AvroDecoder(before, OtherRows(before, lambda: known)).change(later).values["sales"] == 9
    alone = OtherRows(newest, lambda: [before])
    assert AvroDecoder(newest, alone).change(row).values["amount"] == 0
