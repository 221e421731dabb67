"""Spark's types of an event without Spark are those of its own converter."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cutwater.adapters.job_files.spark_types import event_type, field_type, sql_type
from cutwater.core.job.measures import FieldType

pytestmark = pytest.mark.spark
LONG_TIMES = ("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros")
POINT = {"type": "record", "name": "Point", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}
TYPES: dict[str, Any] = {
    **{one: one for one in ("boolean", "int", "long", "float", "double", "bytes", "string")},
    "fixed_": {"type": "fixed", "name": "F", "size": 3},
    "enum_": {"type": "enum", "name": "E", "symbols": ["A"]},
    "date_": {"type": "int", "logicalType": "date"},
    **{one.replace("-", "_"): {"type": "long", "logicalType": one} for one in LONG_TIMES},
    "millis": {"type": "int", "logicalType": "time-millis"},
    "micros": {"type": "long", "logicalType": "time-micros"},
    "uuid_": {"type": "string", "logicalType": "uuid"},
    "uuid_of_bytes": {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
    "money": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
    "point": POINT,
    "again": "n.Point",
    "maybe": ["null", "n.Point"],
    "number": ["int", "null", "long"],
    "real": ["float", "double"],
    "either": ["null", "string", "int"],
    "list_": {"type": "array", "items": ["null", "n.Point"]},
    "map_": {"type": "map", "values": {"type": "array", "items": "long"}},
}


def test_every_type_is_read_as_spark_reads_it(spark: SparkSession) -> None:
    fields = [{"name": name, "type": type_} for name, type_ in TYPES.items()]
    schema = {"type": "record", "name": "Event", "namespace": "test", "fields": fields}
    java: Any = spark._jvm
    parsed = java.org.apache.avro.Schema.Parser().parse(json.dumps(schema))
    theirs = json.loads(java.org.apache.spark.sql.avro.SchemaConverters.toSqlType(parsed).dataType().json())
    assert _types(event_type(schema)) == _types(theirs)


def _types(node: Any) -> Any:
    """Without whether a value may be null, which no check asks for."""
    if isinstance(node, dict):
        without = ("nullable", "containsNull", "valueContainsNull", "metadata")
        return {name: _types(one) for name, one in node.items() if name not in without}
    return [_types(one) for one in node] if isinstance(node, list) else node


@pytest.mark.parametrize("name", ["boolean", "int", "long", "float", "double", "string", "bytes", "date"])
def test_a_column_has_its_type_back(spark: SparkSession, name: str) -> None:
    of = FieldType(name)
    [field] = spark.sql(f"select cast(null as {sql_type(of)}) as c").schema.fields
    assert field_type(str(field.dataType.jsonValue())) == of


def test_decimals_and_times_have_theirs_back(spark: SparkSession) -> None:
    for of in (FieldType("decimal", 12, 2), FieldType("timestamp-micros")):
        [field] = spark.sql(f"select cast(null as {sql_type(of)}) as c").schema.fields
        assert field_type(str(field.dataType.jsonValue())) == of
