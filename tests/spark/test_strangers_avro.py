"""Avro of strangers: seventy thousand records in one batch, judged a second time by another parser."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from test_measure_ranges import AT, job_of, raw

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.core.events.rejection import TOO_FAR_AHEAD, TOO_FAR_BEHIND, UNDECODABLE, UNKNOWN_SCHEMA
from cutwater.core.generations.source_topics import only
from cutwater_spark.query.decoding import decode
from support.events import avrooracle
from support.events.strangers_avro import KINDS, SCHEMA, SEED, records

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("as_in_a_driver")]
CASES = 70_000


@pytest.mark.slow
def test_a_second_parser_agrees_on_every_record(spark: SparkSession, tmp_path: Path) -> None:
    """Accepted or rejected, and the value of every field."""
    kinds = {name: type_ for name, type_ in KINDS.items() if name not in ("key", "at")}
    job = job_of(tmp_path, kinds, "c: {measure: count}")
    assert job.event_schema["fields"] == SCHEMA["fields"]
    header = Codec(job.event_schema).header
    made = records(CASES, header, SEED)
    wanted = [avrooracle.read(one, header, job.event_schema) for one in made]
    names = [f"unix_micros(event.{one}) as {one}" if one in ("at", "u") else f"event.{one}" for one in KINDS]
    told = decode(raw(spark, made), job, known_schemas(job, None), only("t", "local"))
    rows = told.selectExpr("offset", "__reason", *names).toArrow().sort_by("offset").to_pylist()
    wrong = [
        (value, mine, theirs)
        for value, mine, theirs in zip(made, rows, wanted, strict=True)
        if not _agree(mine, theirs)
    ]
    assert wrong[:5] == [], f"{len(wrong)} of {len(made)}"
    accepted = sum(one is not None for one in wanted)
    assert CASES // 3 < accepted < CASES * 4 // 5, f"{accepted} accepted: the cases must be of both kinds"


def _agree(mine: dict[str, Any], theirs: dict[str, Any] | None) -> bool:
    if theirs is None:
        return mine["__reason"] in (UNDECODABLE, UNKNOWN_SCHEMA)
    if mine["__reason"] in (TOO_FAR_AHEAD, TOO_FAR_BEHIND):
        return abs(theirs["at"] // 1_000 - AT) > 86_400_000
    return mine["__reason"] is None and all(_same(mine[name], value) for name, value in theirs.items())


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, float) and math.isnan(mine):
        return bool(math.isnan(theirs))
    if isinstance(mine, Decimal):
        return int(mine.scaleb(-int(mine.as_tuple().exponent), Context(prec=50))) == theirs
    return bool(mine == theirs)
