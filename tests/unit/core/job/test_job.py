"""A job's definition: what must not change within a generation, and how a change is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.job.columns import ComputedColumn
from cutwater.core.job.job import differences
from cutwater.core.job.measures import FieldType

FLIGHTS = load_job(Path(__file__).parents[4] / "deploy" / "jobs" / "flights.yaml")
SPEED = ComputedColumn("speed", "distance / air_time", FieldType("double"))


def test_condition_and_columns_belong_to_the_meaning_of_a_row() -> None:
    shaped = replace(FLIGHTS, where="not cancelled", columns=(SPEED,))
    for job in (shaped, replace(shaped, where="cancelled"), replace(shaped, columns=())):
        assert job.fingerprint != FLIGHTS.fingerprint
    assert len({one.fingerprint for one in (shaped, replace(shaped, where="1 = 1"))}) == 2
    retyped = replace(shaped, columns=(replace(SPEED, type=FieldType("float")),))
    assert retyped.fingerprint != shaped.fingerprint


def test_a_job_without_expressions_means_what_it_meant() -> None:
    """Checkpoints and milestones of earlier versions have no such parts."""
    assert {"where", "columns"} & json.loads(FLIGHTS.definition).keys() == set()


def test_a_change_is_told_also_of_what_is_gone() -> None:
    shaped = replace(FLIGHTS, where="not cancelled")
    assert differences(FLIGHTS.definition, shaped.definition) == "where was None and is 'not cancelled'"
    assert differences(shaped.definition, FLIGHTS.meaning) == "where was 'not cancelled' and is None"
