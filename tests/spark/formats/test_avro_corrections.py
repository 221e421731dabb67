"""Decimals beyond their type and unknown symbols, deep inside of Avro events: refused, or replaced and counted.

Random types are compared with a walk over the values themselves, which knows neither Spark nor Avro.
"""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from decimal import Context, Decimal
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pytest
from pyspark.sql import SparkSession

from cutwater.core.events.formats import WriterSchema, confluent_header
from cutwater.core.events.rejection import UNDECODABLE, Flaw
from cutwater_spark.query.formats import with_events
from support.events import readings_of_schemas as told
from support.events import wide
from support.events.spark_decoder import read

pytestmark = pytest.mark.spark
REGISTRY = "format: confluent, registry: 'http://127.0.0.1:1'"
HEAD = confluent_header(3)
SYMBOLS, MORE = ["UNKNOWN", "RED"], ["BLUE", "RED", "GREY"]
COLOUR = told.enum(*SYMBOLS, default="UNKNOWN")
DECIMALS: dict[str, Any] = {
    "money": told.decimal(9, 2),
    "stored": {**told.decimal(18, 0), "type": "fixed", "name": "Stored", "size": 12},
    "large": told.decimal(30, 4),
}
NUMBERS = (0, 7, -(10**9) + 1, 10**9, 2**64 + 5, -(2**72) - 5)


class Value(NamedTuple):
    """A value as it is written, and as it is to be read."""

    written: Any
    event: Any
    flaws: tuple[Flaw, ...] = ()
    replaced: bool = False


class Types:
    """A random type, in the words of its writer and of its reader, with random values."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._records = 0
        self._defined: set[str] = set()

    def type_(self, depth: int) -> Any:
        kinds = ["money", "stored", "large", "colour", "int"]
        kinds += ["record", "array", "map", "nullable", "union"] * 2 if depth else []
        kind = self._rng.choice(kinds)
        if kind == "record":
            self._records += 1
            made = f"R{self._records}"
            fields = [{"name": f"f{at}", "type": self.type_(depth - 1)} for at in range(self._rng.randint(1, 3))]
            return {"type": "record", "name": made, "fields": fields}
        if kind in ("array", "map"):
            return {"type": kind, {"array": "items", "map": "values"}[kind]: self.type_(depth - 1)}
        if kind == "nullable":
            inner = self.type_(depth - 1)
            return inner if isinstance(inner, list) else ["null", inner]
        if kind == "union":
            return ["null", "int", self._once("stored", DECIMALS["stored"]), self._once("colour", COLOUR)]
        return self._once(kind, DECIMALS.get(kind, COLOUR if kind == "colour" else kind))

    def _once(self, kind: str, type_: Any) -> Any:
        if kind in ("stored", "colour") and kind in self._defined:
            return type_["name"]
        self._defined.add(kind)
        return type_

    def each(self) -> list[Any]:
        """A decimal that may be beyond its type, and an enum."""
        return [DECIMALS["money"], self._once("colour", COLOUR)]

    def value(self, type_: Any, path: str) -> Value:
        if isinstance(type_, list):
            return self._of_union(type_, path)
        kind = type_ if isinstance(type_, str) else type_["type"]
        if kind in ("Stored", "fixed", "bytes"):
            return self._decimal(DECIMALS["stored"] if kind == "Stored" else type_, path)
        if kind in ("record", "map", "array"):
            return self._parts(type_, path)
        if kind == "int":
            return Value(n := self._rng.randrange(9), n)
        symbol = self._rng.choice(MORE) if self._rng.random() < 0.1 else "RED"
        return Value(symbol, symbol if symbol in SYMBOLS else "UNKNOWN", replaced=symbol not in SYMBOLS)

    def _parts(self, type_: dict[str, Any], path: str) -> Value:
        if type_["type"] == "record":
            fields = type_["fields"]
            return _joined({one["name"]: self.value(one["type"], f"{path}.{one['name']}") for one in fields})
        if type_["type"] == "map":
            keys = self._rng.sample("abc", self._rng.randrange(4))
            return _joined({key: self.value(type_["values"], f"{path}['{key}']") for key in keys})
        found = [self.value(type_["items"], f"{path}[{at}]") for at in range(self._rng.randrange(4))]
        one = _joined({str(at): one for at, one in enumerate(found)})
        return one._replace(written=list(one.written.values()), event=list(one.event.values()))

    def _of_union(self, branches: list[Any], path: str) -> Value:
        at = self._rng.randrange(len(branches))
        if branches[at] == "null":
            return Value(None, None)
        if len(branches) == 2:
            return self.value(branches[at], path)
        found = self.value(branches[at], f"{path}.member{at - 1}")
        members = {f"member{one}": None for one in range(len(branches) - 1)}
        return found._replace(event={**members, f"member{at - 1}": found.event})

    def _decimal(self, type_: dict[str, Any], path: str) -> Value:
        number = self._rng.choice(NUMBERS) if self._rng.random() < 0.1 else self._rng.randrange(1000)
        written = number.to_bytes(type_.get("size", 12), "big", signed=True)
        shown = f"decimal({type_['precision']},{type_['scale']})"
        if abs(number) < 10 ** type_["precision"]:
            return Value(written, Decimal(number).scaleb(-type_["scale"], Context(prec=50)))
        return Value(written, None, (Flaw(UNDECODABLE, f"is beyond {shown}", path),))


def _joined(parts: dict[str, Value]) -> Value:
    flaws = tuple(flaw for one in parts.values() for flaw in one.flaws)
    written = {name: one.written for name, one in parts.items()}
    event = {name: one.event for name, one in parts.items()}
    return Value(written, event, flaws, any(one.replaced for one in parts.values()))


def _of_writer(node: Any) -> Any:
    """The same type with other symbols."""
    if isinstance(node, list):
        return [_of_writer(one) for one in node]
    if not isinstance(node, dict):
        return node
    if node["type"] == "enum":
        return told.enum(*MORE)
    made = {one: _of_writer(node[one]) for one in ("items", "values") if one in node}
    if "fields" in node:
        made["fields"] = [{**one, "type": _of_writer(one["type"])} for one in node["fields"]]
    return {**node, **made}


def _bodies(type_: Any, values: list[Value]) -> Iterator[bytes]:
    parsed = fastavro.parse_schema(told.plain(told.record(_of_writer(type_))))
    for number, one in enumerate(values):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, {"key": str(number), "at": told.AT_MS, "x": one.written})
        yield HEAD + out.getvalue()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))])
def test_each_value_of_a_random_type_is_refused_or_replaced(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """The finding: a decimal inside of a record was read as another number, an unknown symbol was not counted."""
    rng = random.Random(seed)
    types = Types(rng)
    fields = [{"name": f"t{at}", "type": types.type_(3)} for at in range(5)]
    fields += [{"name": f"a{at}", "type": {"type": "array", "items": one}} for at, one in enumerate(types.each())]
    type_ = {"type": "record", "name": "Top", "fields": fields}
    values = [types.value(type_, "x") for _ in range(60)]
    job = wide.job(tmp_path, told.record(type_), REGISTRY)
    known = [WriterSchema(HEAD, told.record(_of_writer(type_)), "number 3")]
    bodies = list(_bodies(type_, values))
    found = read(spark, job, bodies, known)
    for one, mine in zip(values, found, strict=True):
        if one.flaws:
            assert mine in one.flaws  # a map has no order
        else:
            assert mine["x"] == one.event
    raw = spark.createDataFrame([(number, one) for number, one in enumerate(bodies)], "number int, value binary")
    counted = with_events(raw, job, known).sort("number").collect()
    assert [row["__remark"] for row in counted] == [one.replaced and not one.flaws for one in values]
    refused = sum(bool(one.flaws) for one in values)
    assert 0 < refused < len(values)
    assert any(row["__remark"] for row in counted)
