"""`kept: state` in a job file: what rows have of it, and each combination that is refused, with its line."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.job.measures import FieldType
from cutwater.core.job.usable_events import find_flaw

EVENT = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "airport", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "plane", "type": ["null", "string"]},
        {"name": "miles", "type": ["null", "long"]},
    ],
}
TEXT = """job: flights
source: {topic: flights.events, schema: flight.avsc, key: airport, event_time: at}
window: {kind: tumbling, size: 1h}
lateness: 1h
retention: 2d
measures:
  flights: {measure: count}
  planes: {measure: distinct, field: plane, kept: state}
derived:
  per_plane: flights / planes
  twice: 2 * per_plane
"""


def load(folder: Path, *edits: tuple[str, str]) -> Job:
    text = TEXT
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    (folder / "flight.avsc").write_text(json.dumps(EVENT))
    (folder / "job.yaml").write_text(text)
    return load_job(folder / "job.yaml")


def test_rows_have_the_stored_value_and_not_the_measure(tmp_path: Path) -> None:
    """So views, API, output and snapshots, which have the row, do not have the measure."""
    job = load(tmp_path)
    assert [one.name for one in job.measures] == ["flights", "per_plane", "twice"]
    assert [one["name"] for one in job.state_schema["fields"]] == ["flights", "per_plane"]
    assert [one["name"] for one in job.output_schema["fields"]][-3:] == ["flights", "per_plane", "twice"]
    assert [one.name for one in job.state_measures] == ["planes"]
    assert [one.name for one in job.stored_values] == ["per_plane"]
    assert [one.name for one in job.counted_measures] == ["flights", "per_plane", "twice", "planes"]


def test_the_changelog_is_the_default(tmp_path: Path) -> None:
    """Word for word as without the field: no running job's rows mean something else."""
    plain = load(tmp_path, (", kept: state", ""))
    named = load(tmp_path, ("kept: state", "kept: changelog"))
    assert named.meaning == plain.meaning
    assert not plain.state_measures
    assert not plain.stored_values


def test_a_stored_value_is_part_of_a_rows_meaning(tmp_path: Path) -> None:
    """Unlike a derived one, whose expression may change within a generation."""
    before = load(tmp_path)
    assert load(tmp_path, ("flights / planes", "planes / flights")).meaning != before.meaning
    assert load(tmp_path, ("2 * per_plane", "3 * per_plane")).meaning == before.meaning
    renamed = load(tmp_path, ("  planes:", "  seen:"), ("flights / planes", "flights / seen"))
    assert renamed.meaning == before.meaning, "the name of what is in no row is no part of it"


def test_the_bound_of_a_value_holds_for_measures_in_state(tmp_path: Path) -> None:
    """An event whose value would overflow a sum in Spark's state is a dead letter, as ever."""
    wide = json.loads(json.dumps(EVENT))
    wide["fields"][3]["type"] = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
    text = TEXT.replace("distinct, field: plane", "sum, field: miles")
    (tmp_path / "flight.avsc").write_text(json.dumps(wide))
    (tmp_path / "job.yaml").write_text(text)
    job = load_job(tmp_path / "job.yaml")
    event = {"airport": "JFK", "at": 1_700_000_000_000_000, "plane": None, "miles": Decimal(10) ** 30}
    flaw = find_flaw(job, {"airport": FieldType("string")}, event, None)
    assert flaw is not None
    assert "may add to measure 'planes'" in flaw.rule


REFUSED = {
    "nobody would see it": (
        [("flights / planes", "flights")],
        r"job.yaml:8: measures.planes.kept: no derived value reads 'planes', so nobody would see it",
    ),
    "readers would merge it": (
        [("kind: tumbling, size: 1h", "kind: sliding, size: 1h, slide: 20m")],
        r"job.yaml:8: measures.planes.kept: readers merge a sliding window of panes",
    ),
    "nothing is left for a generation": (
        [("{measure: count}", "{measure: count, kept: state}")],
        r"measures: every one is kept in state, so a generation would take over nothing",
    ),
    "renamed": (
        [("kept: state", "kept: state, renamed_from: aircraft")],
        r"measures.planes.kept: a generation takes over nothing of a measure in state alone",
    ),
    "another place": ([("kept: state", "kept: disk")], r"measures.planes.kept: .*'changelog' or 'state'"),
    "of a list": (
        [("distinct, field: plane", "quantile, field: miles, ranks: [0.5]")],
        r"derived.per_plane: measure 'planes' is no number but a list",
    ),
    "of a variance": (
        [("distinct, field: plane", "variance, field: miles")],
        r"derived.per_plane: measure 'planes' is a variance, of which Spark does not compute what users see",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_could_not_be_exact_is_refused(tmp_path: Path, why: str) -> None:
    edits, message = REFUSED[why]
    with pytest.raises(UsageError, match=message):
        load(tmp_path, *edits)


def test_sliding_windows_without_overlap_are_tumbling(tmp_path: Path) -> None:
    assert load(tmp_path, ("kind: tumbling, size: 1h", "kind: sliding, size: 1h, slide: 1h")).state_measures
