"""What `plan`, `doctor` and a generation's table print of measures of `kept: state`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cutwater.adapters.job_files.loader import load_job
from cutwater.cli.generations.change import change_json, print_change
from cutwater.cli.main import app
from cutwater.core.generations.job_change import compare_jobs
from cutwater.operations.generations.redefinition import Change
from support.cli.jsonshapes import parsed

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
"""
EVENT = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "airport", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "plane", "type": ["null", "string"]},
    ],
}
X_MS = 1_700_000_000_000 // 3_600_000 * 3_600_000


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    (tmp_path / "flight.avsc").write_text(json.dumps(EVENT))
    (tmp_path / "job.yaml").write_text(TEXT)
    return tmp_path / "job.yaml"


def test_plan_prints_what_each_choice_costs(job_file: Path, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["plan", str(job_file), "--data-dir", str(tmp_path), "--json"])
    assert told.exit_code == 0, told.output
    rows = {one["name"]: one for one in parsed(["plan"], told.stdout)["measures"]}
    assert {name: one["kept"] for name, one in rows.items()} == {
        "flights": "changelog",
        "per_plane": "stored",
        "planes": "state",
    }
    assert (rows["planes"]["row_bytes"], rows["per_plane"]["row_bytes"]) == (0, 9)
    assert rows["planes"]["state_bytes"] > 4_000
    text = CliRunner().invoke(app, ["plan", str(job_file), "--data-dir", str(tmp_path)]).output
    assert "bytes of each measure in one row, at most" in text
    assert "4.14 KB" in text


def test_doctor_says_what_is_in_state_alone(job_file: Path, tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["doctor", str(job_file), "--data-dir", str(tmp_path), "--json"])
    [found] = [one["found"] for one in json.loads(told.stdout)["findings"] if one["check"] == "measures"]
    assert "In Spark's state alone: planes 4,139 B" in found


def test_a_generations_table_says_which_values_may_be_missing(
    job_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the same job file, too: then nothing is beside the parent's, and a restart is no advice."""
    job = load_job(job_file)
    change = Change(compare_jobs(job, job), X_MS)
    print_change(change, another=False)
    said = capsys.readouterr().out
    assert "what the generation takes over" in said
    assert "complete from window 2023-11-14T22:00:00Z on" in " ".join(said.split())
    assert "restart" not in said
    told = change_json(change)
    assert told["complete_from"] == "2023-11-14T22:00:00Z"
    assert [(one["name"], one["fate"]) for one in told["measures"]] == [
        ("flights", "carried over"),
        ("per_plane", "carried over in part"),
        ("planes", "kept in state"),
    ]
