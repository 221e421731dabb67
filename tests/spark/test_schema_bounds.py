"""Events and schemas made to end a query: in Spark they are dead letters, and what is right is read."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, assume, given, settings
from pyspark.sql import SparkSession
from test_formats import decoded

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.events.event_encoder import known_schemas, unreadable
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import WriterSchema, confluent_header
from cutwater.core.events.rejection import UNDECODABLE
from cutwater.core.events.schema_bounds import unroll_recursion
from support.events import odd_schemas, wide
from support.events import readings_of_schemas as told

pytestmark = pytest.mark.spark
REGISTRY = "format: confluent, registry: 'http://127.0.0.1:1'"
NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"], "default": None}]}
JOB = {**told.record("int"), "fields": told.record("int")["fields"][:2]}
EVENT = {"key": "k", "at": told.AT_MS}


def body(schema: Any, event: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), event)
    return out.getvalue()


@pytest.mark.slow
def test_an_event_of_few_bytes_does_not_end_the_query(spark: SparkSession, tmp_path: Path) -> None:
    """As deep as a stack, as long as a list of nothing; behind them an ordinary event of each schema but one."""
    deep, long = told.record(["null", NODE]), told.record({"type": "array", "items": "null"})
    within = told.record(["null", "Event"])
    job = wide.job(tmp_path / "job", JOB, REGISTRY)
    writers = [deep, long, within]
    known = [WriterSchema(confluent_header(at), one, f"number {at}") for at, one in enumerate(writers)]
    start = [confluent_header(at) + body(JOB, EVENT) for at in range(3)]
    levels = unroll_recursion(deep).levels or 0
    assert levels >= 1_000
    values = [
        *(start[0] + b"\x02" * depth + b"\x00" for depth in (0, 1, levels)),
        start[2] + (b"\x02" + body(JOB, EVENT)) * 40 + b"\x00",
        *(start[0] + b"\x02" * depth + b"\x00" for depth in (levels + 1, 4_000, 500_000)),
        *(start[1] + count + b"\x00" for count in (b"\x02", b"\xfe\xff\xff\xff\x0f", b"\x80" * 8 + b"\x80\x01")),
        start[0] + b"\x00",
    ]
    found = decoded(spark, job, values, known)
    assert [one if isinstance(one, str) else one["key"] for one in found] == [*"kkkk", *[UNDECODABLE] * 6, "k"]
    (line,) = unreadable(job, tuple(known))
    assert line.startswith("schema number 1: x: an item takes 0 bytes")
    assert line.endswith("all of its events are rejected")


def test_a_version_that_cannot_be_read_is_in_no_one_s_way(spark: SparkSession, tmp_path: Path) -> None:
    """Its events are dead letters; a writer's defaults, order, names of types are no matter."""
    odd = told.record("int", default=2**40, order="upwards", doc=7)
    job = wide.job(tmp_path / "job", JOB, REGISTRY)
    known = [
        WriterSchema(confluent_header(0), {}, "number 0", "it is PROTOBUF"),
        WriterSchema(confluent_header(1), odd, "number 1"),
    ]
    values = [confluent_header(at) + body(told.record("int"), {**EVENT, "x": 1}) for at in (0, 1)]
    assert [isinstance(one, str) for one in decoded(spark, job, values, known)] == [True, False]
    assert decoded(spark, job, values[:1], known[:1]) == [UNDECODABLE]


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(odd_schemas.schemas)
def test_what_is_loaded_is_planned(spark: SparkSession, tmp_path: Path, schema: Any) -> None:
    """Schemas at random: the job file is refused, or Spark reads what is written by the schema."""
    path = odd_schemas.job_file(tmp_path, schema)
    assume(_loads(path))
    job = load_job(path)
    values = [_written(schema) for _ in range(20)]
    found = decoded(spark, job, values, known_schemas(job, None))
    rejected = [(value, reason) for value, reason in zip(values, found, strict=True) if isinstance(reason, str)]
    assert rejected == []


def _loads(path: Path) -> bool:
    try:
        return load_job(path) is not None
    except UsageError:
        return False


def _written(schema: Any) -> bytes:
    from fastavro.utils import generate_one

    return Codec(schema).encode({**generate_one(schema), **EVENT})
