"""Types and expressions of events in Spark's words, without Spark: an Avro schema as JSON, a column as SQL."""

from __future__ import annotations

from typing import Any

from cutwater.core.events.avro_types import Schema
from cutwater.core.job.measures import FieldType

_PLAIN = {
    "null": "void",
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "fixed": "binary",
    "string": "string",
    "enum": "string",
}
_LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
    ("long", "time-micros"): "time(6)",
}
_WIDER = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
"""Unions of two numbers, which Spark reads as the wider one."""
_FIELD_TYPES = {
    "boolean": FieldType("boolean"),
    "byte": FieldType("int"),
    "short": FieldType("int"),
    "integer": FieldType("int"),
    "long": FieldType("long"),
    "float": FieldType("float"),
    "double": FieldType("double"),
    "string": FieldType("string"),
    "binary": FieldType("bytes"),
    "date": FieldType("date"),
    "timestamp": FieldType("timestamp-micros"),
}
"""Types of computed columns, by Spark's names."""
SQL_TYPES = {"int": "int", "long": "bigint", "bytes": "binary", "timestamp-micros": "timestamp"}
"""Spark's names in SQL, where they are not those of Avro."""


def event_type(schema: dict[str, Any]) -> Any:
    """Return Spark's type of the events of a schema. Raises UsageError if it is no Avro schema."""
    found = Schema.of(schema)
    return _type(found, found.root)


def field_type(spark: str) -> FieldType | None:
    """Return the type that measures see; None for one that no computed column may have."""
    if spark.startswith("decimal("):
        precision, _, scale = spark.removeprefix("decimal(").removesuffix(")").partition(",")
        return FieldType("decimal", int(precision), int(scale))
    return _FIELD_TYPES.get(spark)


def sql_type(of: FieldType) -> str:
    """Return Spark's name of a computed column's type in SQL."""
    return SQL_TYPES.get(of.name, str(of))


def each_of(array: str, item: str, sql: str) -> str:
    """Return `sql` for each element of an array, as SQL. `array`, `sql`: a user's. `item`: an element's name."""
    return f"transform({in_brackets(array)}, `{item}` -> {in_brackets(sql)})"


def in_brackets(expression: str) -> str:
    """Return a user's expression as a part of another. It may end with a comment, and that with a backslash."""
    return f"({expression}\n\n)"


def cast_to(expression: str, of: FieldType) -> str:
    """Return a user's expression as a value of a computed column's type."""
    if of.name == "uuid":  # Spark has no such type; the driver rejects texts that are none
        return f"lower(cast({in_brackets(expression)} as string))"
    return f"cast({in_brackets(expression)} as {sql_type(of)})"


def _type(schema: Schema, node: Any) -> Any:
    if isinstance(node, list):
        return _union(schema, node)
    type_ = schema.type_of(node)
    kind = type_["type"]
    if kind == "record":
        return {"type": "struct", "fields": [_field(one["name"], schema, one["type"]) for one in type_["fields"]]}
    if kind == "array":
        inner = {"elementType": _type(schema, type_["items"]), "containsNull": True}
        return {"type": "array", **inner}
    if kind == "map":
        inner = {"keyType": "string", "valueType": _type(schema, type_["values"]), "valueContainsNull": True}
        return {"type": "map", **inner}
    logical = type_.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed") and "precision" in type_:
        return f"decimal({type_['precision']},{type_.get('scale', 0)})"
    return _LOGICAL.get((kind, str(logical)), _PLAIN[kind])


def _field(name: str, schema: Schema, node: Any) -> dict[str, Any]:
    return {"name": name, "type": _type(schema, node), "nullable": True, "metadata": {}}


def _union(schema: Schema, branches: list[Any]) -> Any:
    others = [one for one in branches if one != "null"]
    if len(others) == 1:
        return _type(schema, others[0])
    wider = _WIDER.get(frozenset(one for one in others if isinstance(one, str)))
    if wider and len(others) == 2:
        return wider
    return {"type": "struct", "fields": [_field(f"member{at}", schema, one) for at, one in enumerate(others)]}
