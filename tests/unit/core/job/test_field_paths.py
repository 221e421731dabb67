"""Paths into events: what is one, where it leads, and its value beside a computation of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.events.avro_events import AvroReader
from cutwater.core.errors import UsageError
from cutwater.core.events.avro_types import Schema
from cutwater.core.events.formats import CONFLUENT, WriterSchema, confluent_header
from cutwater.core.events.rejection import EXPRESSION_RULE, FAILED_EXPRESSION, Flaw
from cutwater.core.job.columns import ComputedColumn
from cutwater.core.job.drafts.nested_fields import nested_fields
from cutwater.core.job.field_paths import (
    NoElementError,
    column_paths,
    column_type,
    find_target,
    parse_path,
    value_at,
)
from cutwater.core.job.measures import FieldType
from cutwater.core.job.usable_events import with_columns
from support.events import wide

ITEM = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]}
USER = {
    "type": "record",
    "name": "User",
    "fields": [{"name": "id", "type": "long"}, {"name": "größe", "type": ["null", "int"], "default": None}],
}
FIELDS = [
    {"name": "page", "type": "string"},
    {"name": "user", "type": ["null", USER], "default": None},
    {"name": "tags", "type": {"type": "map", "values": "string"}},
    {"name": "items", "type": {"type": "array", "items": ITEM}},
    {"name": "odd", "type": ["null", "string", "long"], "default": None},
    {"name": "seen", "type": {"type": "array", "items": {"type": "long", "logicalType": "timestamp-millis"}}},
    {"name": "time", "type": {"type": "map", "values": {"type": "long", "logicalType": "time-micros"}}},
]
SCHEMA = {"type": "record", "name": "Click", "fields": FIELDS}


@pytest.mark.parametrize(
    ("sql", "steps"),
    [
        ("page", ("page",)),
        ("payload.user.id", ("payload", "user", "id")),
        (" tags['region'] ", ("tags", "region")),
        ('tags["region"].x', ("tags", "region", "x")),
        (r"tags['it\'s \\']", ("tags", "it's \\")),
        ("items[0].sku", ("items", 0, "sku")),
        ("`a``b`.`größe`", ("a`b", "größe")),
        ("a['b']", ("a", "b")),
        *((one, None) for one in ("", "a.", "a b", "a + 1", "f(a)", "a[-1]", "a[1 + 1]", "a[b]", "null.a", "True",
          "a[1000000000]", r"a['\n']", "a['b''c']", "tags['${x}']", "1a", "a.b --c", "größe", "a" + ".b" * 50)),
    ],
)  # fmt: skip
def test_a_path_is_names_and_constant_indexes(sql: str, steps: tuple[str | int, ...] | None) -> None:
    """All else is an expression, which Spark alone evaluates; so is what Spark's parser reads in another way."""
    assert parse_path(sql) == steps


def test_a_path_is_found_without_regard_to_case_and_written_with_the_schema_s_names() -> None:
    """As Spark finds fields; names of a map have their case."""
    schema = Schema.of(SCHEMA)
    for sql, path in {
        "USER.Id": "user.id",
        "user['id']": "user.id",
        "tags.Region": "tags['Region']",
        "user.`GRÖSSE`": None,
        "user.`größe`": "user.`größe`",
        "Items[2].sku": "items[2].sku",
    }.items():
        steps = parse_path(sql)
        assert steps
        if path is None:
            with pytest.raises(UsageError):
                find_target(schema, steps)
        else:
            found = find_target(schema, steps)
            assert found.path == path
            assert parse_path(path) == found.steps


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("uesr.id", "the schema has no field 'uesr'; it has: page, user, .*; did you mean 'user'?"),
        ("user.ids", "'user' has no field 'ids'; it has: id, größe; did you mean 'user.id'?"),
        ("user[0]", "'user' has no field 0; it has: id"),
        ("page.id", "'page' is string, and no record, map or array: it has nothing inside"),
        ("page[0]", "'page' is string, and no record"),
        ("tags[0]", r"'tags' is a map, whose values have names: write tags\['NAME'\]"),
        ("items.sku", r"'items' is an array: name one of its elements, as in items\[0\]\.sku"),
        ("items[0].sku.x", r"'items\[0\]\.sku' is string"),
        ("odd.x", "'odd' is a union of several types"),
    ],
)
def test_a_path_to_nothing_says_what_was_probably_meant(sql: str, told: str) -> None:
    steps = parse_path(sql)
    assert steps
    with pytest.raises(UsageError, match=told):
        find_target(Schema.of(SCHEMA), steps)


def test_only_paths_of_the_column_s_own_type_are_evaluated_without_spark(tmp_path: Path) -> None:
    """A condition, a cast and an unknown name are Spark's business."""
    job = replace(wide.job(tmp_path, wide.SCHEMA), event_schema=SCHEMA)
    own = ComputedColumn("buyer", "USER.id", FieldType("long"))
    assert column_paths(job) == {}
    assert column_paths(replace(job, columns=(own,))) == {"buyer": ("user", "id")}
    seen = ComputedColumn("at", "seen[1]", FieldType("timestamp-micros"))
    assert column_paths(replace(job, columns=(own, seen))) == {"buyer": ("user", "id"), "at": ("seen", 1)}
    for other in (
        ComputedColumn("buyer", "user.id", FieldType("string")),
        ComputedColumn("buyer", "user.id + 1", FieldType("long")),
        ComputedColumn("buyer", "user.idd", FieldType("long")),
        ComputedColumn("buyer", "items.sku", FieldType("string")),
        ComputedColumn("buyer", "time['x']", FieldType("long")),
    ):
        assert column_paths(replace(job, columns=(own, other))) is None, other
    assert column_paths(replace(job, where="true", columns=(own,))) is None


def test_an_element_that_is_not_there_is_an_error_and_no_null() -> None:
    """As in Spark's ANSI mode; the dead letter names the column."""
    event = {"items": [], "none": None, "holes": [None]}
    with pytest.raises(NoElementError):
        value_at(event, ("items", 0, "sku"))
    assert value_at(event, ("none", 3, "sku")) is None
    assert value_at(event, ("holes", 0, "sku")) is None
    flaw = Flaw(FAILED_EXPRESSION, EXPRESSION_RULE, "source.columns.b")
    assert with_columns(event, {"a": ("none", 3), "b": ("items", 0)}) == flaw
    assert with_columns(event, {"a": ("none", 3)}) == {**event, "a": None}


def test_times_in_arrays_are_read_and_every_name_of_a_map_is_offered() -> None:
    """Times in microseconds at each place; names as the events have them, in their order."""
    codec, header = Codec(without_logical(SCHEMA)), confluent_header(1)
    tags = {"b": "x", "a": "y"}
    raw = {"page": "p", "user": None, "tags": tags, "items": [], "odd": None, "seen": [7], "time": {}}
    event = AvroReader(CONFLUENT, SCHEMA, [WriterSchema(header, SCHEMA, "1")]).read(header + codec.body(raw))
    assert isinstance(event, dict)
    assert event["seen"] == [7_000]
    offered = nested_fields(Schema.of(SCHEMA), [event])
    assert [*offered] == ["user.id", "user.`größe`", "tags['b']", "tags['a']", "seen[0]"]


# Random events: how a value is written as Avro without logical types, and what a path gives.
PLAIN: dict[str, tuple[Any, Any, Any]] = {
    "string": ("string", st.text(max_size=3), lambda raw: raw),
    "long": ("long", st.integers(-(2**63), 2**63 - 1), lambda raw: raw),
    "boolean": ("boolean", st.booleans(), lambda raw: raw),
    "double": ("double", st.floats(allow_nan=False), lambda raw: raw),
    "millis": (
        {"type": "long", "logicalType": "timestamp-millis"},
        st.integers(-(10**12), 10**13),
        lambda raw: raw * 1_000,
    ),
    "micros": ({"type": "long", "logicalType": "timestamp-micros"}, st.integers(0, 10**16), lambda raw: raw),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        st.integers(-(10**9) + 1, 10**9 - 1).map(lambda one: one.to_bytes(5, "big", signed=True)),
        lambda raw: Decimal(int.from_bytes(raw, "big", signed=True)) / 100,
    ),
}
NAMES = ("a", "b", "userId", "_c", "größe")
MAP_NAMES = st.text(alphabet="ab'\\ .]\"ä\n", max_size=4)


class Typed:
    """A random type: its Avro schema, random raw values, and the paths below it with their values."""

    def __init__(self, draw: st.DrawFn, level: int, names: Iterator[int]) -> None:
        inner = ("record", "map", "array") if level < 3 else ()
        self.kind = draw(st.sampled_from((*inner, *PLAIN)))
        self.nullable = draw(st.booleans())
        self.parts: dict[str, Typed] = {}
        if self.kind == "record":
            chosen = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
            self.parts = {one: Typed(draw, level + 1, names) for one in chosen}
            fields = [{"name": name, "type": one.avro} for name, one in self.parts.items()]
            self.bare: Any = {"type": "record", "name": f"R{next(names)}", "fields": fields}
        elif self.kind in ("map", "array"):
            self.parts = {"": Typed(draw, level + 1, names)}
            of = "values" if self.kind == "map" else "items"
            self.bare = {"type": self.kind, of: self.parts[""].avro}
        else:
            self.bare = PLAIN[self.kind][0]

    @property
    def avro(self) -> Any:
        return ["null", self.bare] if self.nullable else self.bare

    def raw(self, draw: st.DrawFn) -> Any:
        if self.nullable and draw(st.booleans()):
            return None
        if self.kind == "record":
            return {name: one.raw(draw) for name, one in self.parts.items()}
        if self.kind == "map":
            return {name: self.parts[""].raw(draw) for name in draw(st.lists(MAP_NAMES, max_size=3, unique=True))}
        if self.kind == "array":
            return [self.parts[""].raw(draw) for _ in range(draw(st.integers(0, 2)))]
        return draw(PLAIN[self.kind][1])

    def paths(self, raw: Any, path: str) -> Iterator[tuple[str, Any]]:
        """Yield each path to a plain value, written as a person would, with the value."""
        if raw is None or self.kind in PLAIN:
            yield path, None if raw is None else PLAIN[self.kind][2](raw)
        elif self.kind == "record":
            for name, one in self.parts.items():
                yield from one.paths(raw[name], path + (f".{name}" if name.isascii() else f".`{name}`"))
        else:
            for at, one in raw.items() if self.kind == "map" else enumerate(raw):
                quoted = "'{}'".format(at.replace("\\", "\\\\").replace("'", "\\'")) if isinstance(at, str) else at
                yield from self.parts[""].paths(one, f"{path}[{quoted}]")


@st.composite
def nested_events(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """A schema, some events of it, and the values of each by path."""
    names = iter(range(1_000))
    fields = {name: Typed(draw, 0, names) for name in ("p", "q")}
    schema = {
        "type": "record",
        "name": "E",
        "fields": [{"name": n, "type": one.avro} for n, one in fields.items()],
    }
    raw = [{name: one.raw(draw) for name, one in fields.items()} for _ in range(draw(st.integers(1, 3)))]
    values = [dict(pair for n, one in fields.items() for pair in one.paths(event[n], n)) for event in raw]
    return schema, raw, values


def without_logical(node: Any) -> Any:
    return json.loads(
        json.dumps(node), object_hook=lambda one: {k: v for k, v in one.items() if k != "logicalType"}
    )


@given(nested_events())
def test_a_drafted_path_has_the_value_that_is_there(
    made: tuple[dict[str, Any], list[Mapping[str, Any]], list[dict[str, Any]]],
) -> None:
    """Written as Avro, read back, and evaluated: as a walk over the written values has it. Each value is offered,
    of an array the first; what is missing on the way is null."""
    schema, raw, expected = made
    header, codec = confluent_header(1), Codec(without_logical(schema))
    read = AvroReader(CONFLUENT, schema, [WriterSchema(header, schema, "1")]).read
    events = [read(header + codec.body(dict(one))) for one in raw]
    found = Schema.of(schema)
    offered = nested_fields(found, events)  # type: ignore[arg-type]
    for event, values in zip(events, expected, strict=True):
        assert isinstance(event, dict), event
        for path, value in values.items():
            steps = parse_path(path)
            assert steps, path
            assert value_at(event, find_target(found, steps).steps) == value, path
            if value is None or len(steps) == 1 or "\n" in path or any(isinstance(n, int) and n for n in steps):
                continue
            assert path in offered
    for path, field in offered.items():
        assert field.values == [one.get(path) for one in expected], path
        node = find_target(found, parse_path(path) or ()).node
        assert column_type(found, node) == FieldType(field.kind) or field.kind == "decimal"
