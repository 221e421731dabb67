"""What `plan` and `doctor` say of where a measure is kept: bytes of a row, and what a generation takes over."""

from __future__ import annotations

from dataclasses import replace

from cutwater.adapters.sketches import HllSketches
from cutwater.core.checks.capacity import Load, estimate, row_bytes_of, sizes_of
from cutwater.core.checks.event_sample import RowSizes
from cutwater.core.checks.measure_costs import check_measures, costs_of
from cutwater.core.job.derived_values import derived_measure
from cutwater.core.job.job import Output
from cutwater.core.job.kinds.stored_values import stored_measure
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import FieldType, value
from support.cli.verb_records import JOB as FLIGHTS

_SKETCHES = HllSketches()
N = build("n", "count", None, None, _SKETCHES)
PLANES = build("planes", "distinct", "f", FieldType("string"), _SKETCHES)
KNOWN = {"n": N, "planes": PLANES}
STORED, DERIVED = (make("each", "n / planes", KNOWN) for make in (stored_measure, derived_measure))
IN_ROWS = replace(FLIGHTS, measures=(N, PLANES, DERIVED))
IN_STATE = replace(FLIGHTS, measures=(N, STORED), state_measures=(PLANES,))
SAMPLED = RowSizes(key=3, texts={}, sketches={"planes": 500})


def test_each_choice_has_its_bytes() -> None:
    """A sketch in state is in no row; what is stored of it is a double."""
    rows = {one.name: (one.kept, *one.bytes) for one in costs_of(IN_ROWS, SAMPLED)}
    state = {one.name: (one.kept, *one.bytes) for one in costs_of(IN_STATE, SAMPLED)}
    assert rows == {
        "n": ("changelog", 6, 6, 6),
        "planes": ("changelog", 503, 6, 503),
        "each": ("derived", 0, 9, 0),
    }
    assert state == {"n": ("changelog", 6, 6, 6), "each": ("stored", 9, 9, 0), "planes": ("state", 0, 0, 503)}


def test_the_bytes_of_all_measures_are_what_a_row_has_beside_its_key() -> None:
    """The figures of the table and those of the plan below it are the same ones."""
    for job in (IN_ROWS, IN_STATE):
        empty = replace(job, measures=(), state_measures=())
        in_rows = sum(one.row_bytes for one in costs_of(job, SAMPLED))
        assert row_bytes_of(job, SAMPLED) - row_bytes_of(empty, SAMPLED) == in_rows
    assert sizes_of(IN_STATE, SAMPLED).state_only == 503


def test_the_state_holds_what_rows_do_not_have() -> None:
    """So its disk is as large as with the measure in the changelog, and a view is smaller."""
    rows, state = estimate(IN_ROWS, Load()), estimate(IN_STATE, Load())
    assert state.view_bytes < rows.view_bytes / 10
    assert state.changelog_write_bytes_per_s < rows.changelog_write_bytes_per_s / 10
    assert 1 <= state.state_disk_bytes / rows.state_disk_bytes < 1.01


def test_without_an_output_nothing_is_written_there() -> None:
    assert {one.output_bytes for one in costs_of(replace(IN_STATE, output=Output(mode="none")))} == {0}


def test_what_a_generation_takes_over() -> None:
    told = {one.name: one.restore for one in costs_of(IN_STATE)}
    assert told["n"] == "takes over every value"
    assert told["each"].startswith("takes over the values of rows that take no more events")
    assert told["planes"].startswith("takes over nothing")
    own = replace(FLIGHTS, measures=(value("c", FieldType("long")),))
    assert costs_of(own)[0].restore.startswith("cannot start")


def test_doctor_names_what_is_large_and_what_is_in_state() -> None:
    assert "of which planes 4,139 B" in check_measures(IN_ROWS).found
    found = check_measures(IN_STATE).found
    assert "In Spark's state alone: planes 4,139 B" in found
    assert found.endswith("where it cannot, each has no value")
    assert "of which" not in found
