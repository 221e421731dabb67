"""`source.transform` in a job file: what it makes, and a line for each mistake. No module is imported."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from cutwater.adapters.job_files import transform_function
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.job.columns import TransformColumn
from cutwater.core.job.job import Job, differences
from cutwater.core.job.measures import FieldType

SCHEMA = {
    "type": "record",
    "name": "Flight",
    "fields": [
        {"name": "airport", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
CODE = "raise RuntimeError('imported')\n\ndef enrich(events, airports=None):\n    return events\n"
TRANSFORM = {
    "function": "mine:enrich",
    "columns": {"region": "string", "tier": "int", "moment": "timestamp"},
    "tables": {"airports": "airports.csv"},
}


def read(folder: Path, transform: Any, key: str = "region", event_time: str = "moment", **source: Any) -> Job:
    (folder / "flight.avsc").write_text(json.dumps(SCHEMA))
    (folder / "airports.csv").write_text("airport,region\nJFK,east\n")
    (folder / "mine.py").write_text(CODE)
    named = {"topic": "flights", "schema": "flight.avsc", "key": key, "event_time": event_time}
    written = {
        "job": "flights",
        "source": {**named, **({"transform": transform} if transform else {}), **source},
        "window": {"kind": "tumbling", "size": "1h"},
        "lateness": "1h",
        "retention": "1d",
        "measures": {"flights": {"measure": "count"}, "tiers": {"measure": "sum", "field": "tier"}},
    }
    if not transform or "tier" not in str(transform):
        del written["measures"]["tiers"]  # type: ignore[attr-defined]
    (folder / "job.yaml").write_text(yaml.safe_dump(written, sort_keys=False))
    return load_job(folder / "job.yaml")


def test_a_functions_columns_are_keys_times_and_fields(tmp_path: Path) -> None:
    """The function and its columns are part of a row's meaning; its source and tables of the definition alone, so
    that processes which have no module agree about the meaning."""
    job = read(tmp_path, TRANSFORM)
    assert job.transform is not None
    assert job.added_columns == (
        TransformColumn("region", FieldType("string")),
        TransformColumn("tier", FieldType("int")),
        TransformColumn("moment", FieldType("timestamp-micros")),
    )
    assert job.has_expressions
    assert job.time_micros
    contents = {name: sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("airports.csv", "mine.py")}
    kept = json.loads(job.definition)["transform_contents"]
    assert kept == {"airports": contents["airports.csv"], "mine:enrich": contents["mine.py"]}
    assert "transform_contents" not in job.meaning
    plain = read(tmp_path, None, "airport", "at")
    assert "transform" not in plain.definition
    assert "transform was None and is ['mine:enrich', " in differences(plain.definition, job.definition)


def test_a_changed_function_or_table_is_another_definition(tmp_path: Path) -> None:
    before = read(tmp_path, TRANSFORM)
    for name in ("mine.py", "airports.csv"):
        path = tmp_path / name
        path.write_text(path.read_text() + "\n")
        after = load_job(tmp_path / "job.yaml")
        assert after.fingerprint == before.fingerprint
        assert "transform_contents was" in differences(before.definition, after.definition)
        before = after


def test_a_function_alone_is_a_text(tmp_path: Path) -> None:
    job = read(tmp_path, "mine:enrich", "airport", "at")
    assert (job.transform.function, job.added_columns) == ("mine:enrich", ())  # type: ignore[union-attr]


def test_modules_of_packages_are_found_and_none_is_imported(tmp_path: Path) -> None:
    package = tmp_path / "shapes"
    package.mkdir()
    for name in ("__init__", "flights"):
        (package / f"{name}.py").write_text(CODE)
    assert read(tmp_path, "shapes.flights:enrich", "airport", "at").transform
    found = transform_function.find_module("yaml.nodes", tmp_path)
    assert found is not None
    assert transform_function.find_module("yaml.nowhere", tmp_path) is None


def test_where_spark_is_not_installed_the_module_may_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the services' containers, for a function of an installed package."""
    here = read(tmp_path, {**TRANSFORM, "tables": {}})
    monkeypatch.setattr(transform_function, "find_spec", lambda _name: None)
    (tmp_path / "mine.py").unlink()
    there = load_job(tmp_path / "job.yaml")
    assert there.fingerprint == here.fingerprint


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("mine", "String should match pattern"),
        ("mine:enrich()", "String should match pattern"),
        (
            "elsewhere:enrich",
            "there is no module 'elsewhere': put elsewhere.py beside the job file, or install it",
        ),
        ("mine:enrch", "mine.py has no function 'enrch'; it has: enrich.* did you mean 'enrich'"),
        ({"function": "mine:enrich", "column": {}}, "is not a field of a job file.* did you mean 'columns'"),
        ({"columns": {}}, "function"),
        ({**TRANSFORM, "columns": {"tier": "integer"}}, "'?integer'? is no type of a column; allowed: boolean"),
        ({**TRANSFORM, "columns": {"tier": ""}}, "has no type: write one"),
        ({**TRANSFORM, "columns": {"Airport": "string"}}, "there is a field or column 'airport'"),
        ({**TRANSFORM, "columns": {"x": "string", "X": "string"}}, "there is a field or column 'x'"),
        ({**TRANSFORM, "tables": {"airports": "nowhere.csv"}}, "nowhere.csv: No such file"),
        ({**TRANSFORM, "tables": {"airports": "flight.avsc"}}, "flight.avsc is no .csv"),
    ],
)
def test_mistakes_have_a_line(tmp_path: Path, given: Any, said: str) -> None:
    with pytest.raises(UsageError, match=rf"(?s)job.yaml:[0-9]+.*({said})"):
        read(tmp_path, given, "airport", "at")


def test_a_module_with_a_mistake_is_no_module(tmp_path: Path) -> None:
    read(tmp_path, "mine:enrich", "airport", "at")
    (tmp_path / "mine.py").write_text("def enrich(:\n")
    with pytest.raises(UsageError, match=r"mine.py is no Python"):
        load_job(tmp_path / "job.yaml")


def test_an_unknown_key_names_the_columns_of_the_function_too(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no field 'regin'; .*region"):
        read(tmp_path, TRANSFORM, "regin")


def test_a_large_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transform_function, "TABLE_BYTES_MAX", 10)
    with pytest.raises(UsageError, match=r"airports.csv has 24 bytes; a table may have 10"):
        read(tmp_path, TRANSFORM)
