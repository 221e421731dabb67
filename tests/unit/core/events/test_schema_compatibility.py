"""The rules of schema evolution, against fastavro's own resolution and rule by rule."""

from __future__ import annotations

import copy
import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.events.schema_compatibility import OTHERWISE, Reading, incompatibilities, obstacles, reading

_NUMBERS = ["int", "long", "float", "double"]
_PLAIN = ["boolean", "string", "bytes", *_NUMBERS]


@st.composite
def types(draw: st.DrawFn, name: str, depth: int = 2) -> Any:
    """A type whose named parts begin with `name`: primitive, union, enum, fixed, array, map, record."""
    kinds = ["plain", "plain", "union", "enum", "fixed"] + (["array", "map", "record"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "union":
        branches = ["null", draw(st.sampled_from(["int", "long"])), *draw(st.sampled_from([[], ["string"]]))]
        return draw(st.permutations(branches))
    symbols = draw(st.sampled_from([["A"], ["A", "B"], ["A", "B", "C"]]))
    default = draw(st.sampled_from([{}, {"default": "A"}]))
    made: dict[str, Any] = {
        "plain": lambda: draw(st.sampled_from(_PLAIN)),
        "enum": lambda: {"type": "enum", "name": name, "symbols": symbols, **default},
        "fixed": lambda: {"type": "fixed", "name": name, "size": draw(st.integers(1, 2))},
        "array": lambda: {"type": "array", "items": draw(types(f"{name}i", depth - 1))},
        "map": lambda: {"type": "map", "values": draw(types(f"{name}v", depth - 1))},
        "record": lambda: draw(records(name, depth - 1)),
    }
    return made[kind]()


@st.composite
def records(draw: st.DrawFn, name: str = "Event", depth: int = 2) -> dict[str, Any]:
    fields = [
        {"name": f"f{number}", "type": draw(types(f"{name}_{number}", depth))}
        for number in range(draw(st.integers(1, 4)))
    ]
    return {"type": "record", "name": name, "fields": fields}


@st.composite
def changes(draw: st.DrawFn, old: dict[str, Any]) -> dict[str, Any]:
    """The schema after up to three edits, allowed or not."""
    new = copy.deepcopy(old)
    for number in range(draw(st.integers(0, 3))):
        edit = draw(st.sampled_from(["add", "add-default", "drop", "rename", "alias", "retype", "null", "enum"]))
        one = draw(st.sampled_from(new["fields"])) if new["fields"] else None
        if edit == "add":
            new["fields"].append({"name": f"new{number}", "type": "int"})
        elif edit == "add-default":
            new["fields"].insert(0, {"name": f"new{number}", "type": ["null", "int"], "default": None})
        elif one is None:
            continue
        elif edit == "drop":
            new["fields"].remove(one)
        elif edit in ("rename", "alias"):
            aliases = [one["name"]] if edit == "alias" else []
            one |= {"name": f"{one['name']}x", "aliases": [*aliases, *one.get("aliases", [])]}
        elif edit == "retype":
            one["type"] = draw(st.sampled_from(_PLAIN))
            one.pop("default", None)  # a default that does not fit its type is not looked for
        elif edit == "null" and not isinstance(one["type"], list):
            one["type"] = ["null", one["type"]]
        elif edit == "enum" and isinstance(one["type"], dict) and one["type"]["type"] == "enum":
            one["type"]["symbols"] = draw(st.sampled_from([["A"], ["A", "Z"], ["A", "B", "C"]]))
    return new


def witnesses(schema: Any) -> list[Any]:
    """Values that together show every branch and every symbol of a schema."""
    if isinstance(schema, list):
        return [value for branch in schema for value in witnesses(branch)]
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "record":
        columns = {one["name"]: witnesses(one["type"]) for one in schema["fields"]}
        count = max(map(len, columns.values()), default=1)
        return [{name: one[row % len(one)] for name, one in columns.items()} for row in range(count)]
    if kind in ("enum", "fixed"):
        return list(schema["symbols"]) if kind == "enum" else [b"x" * schema["size"]]
    if kind == "array":
        return [witnesses(schema["items"])]
    if kind == "map":
        return [{f"k{number}": value for number, value in enumerate(witnesses(schema["values"]))}]
    return {"null": [None], "boolean": [True], "string": ["s"], "bytes": [b"b"]}.get(kind, [7])


def read_by_fastavro(writer: dict[str, Any], reader: dict[str, Any], record: Any) -> Any:
    """The record written with one schema and read with the other; raises what fastavro raises."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(copy.deepcopy(writer)), record)
    body.seek(0)
    return fastavro.schemaless_reader(
        body, fastavro.parse_schema(copy.deepcopy(writer)), fastavro.parse_schema(copy.deepcopy(reader))
    )


def readable_by_fastavro(writer: dict[str, Any], reader: dict[str, Any]) -> bool:
    try:
        for record in witnesses(writer):
            read_by_fastavro(writer, reader, record)
    except Exception:  # whatever it raises: it did not read it
        return False
    return True


@settings(max_examples=400)
@given(st.data())
def test_what_we_allow_is_what_fastavro_can_read(data: st.DataObject) -> None:
    """Obstacles are found exactly where fastavro cannot read some record of the old schema with the new one."""
    old = data.draw(records())
    new = data.draw(changes(old))
    assert (obstacles(old, new) == []) == readable_by_fastavro(old, new)
    assert (obstacles(new, old) == []) == readable_by_fastavro(new, old)


def event(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Event", "namespace": "test", "fields": list(fields), **more}


def one(type_: Any, **more: Any) -> dict[str, Any]:
    return event({"name": "a", "type": type_, **more})


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
LEG = {"type": "record", "name": "Leg", "fields": [{"name": "airport", "type": "string"}]}
LEG_INT = {"type": "record", "name": "Leg", "fields": [{"name": "airport", "type": "int"}]}
TREE = event({"name": "next", "type": ["null", "Event"], "default": None}, {"name": "n", "type": "int"})
TREE_LONG = event({"name": "next", "type": ["null", "Event"], "default": None}, {"name": "n", "type": "long"})


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "Kind", "symbols": list(symbols), **more}


ALLOWED = {
    "a new field with a default": (event(), one("int", default=3)),
    "a field left out": (one("int"), event()),
    "a renamed field with an alias": (one("int"), event({"name": "b", "type": "int", "aliases": ["a"]})),
    "int to double": (one("int"), one("double")),
    "string to bytes": (one("string"), one("bytes")),
    "a union that gains a branch": (one(["null", "int"]), one(["null", "string", "long"])),
    "one type to a union": (one("int"), one(["null", "int"])),
    "a symbol more": (one(enum("A")), one(enum("A", "B"))),
    "a symbol less, with a default": (one(enum("A", "B")), one(enum("A", default="A"))),
    "another namespace": (one("int"), event({"name": "a", "type": "int"}, namespace="other")),
    "a record under its alias": (
        one(LEG),
        one({**LEG, "name": "Part", "aliases": ["Leg"]}),
    ),
    "a record that holds itself": (TREE, TREE_LONG),
    "another doc": (one("int", doc="x"), one("int", doc="y")),
}
REFUSED = {
    "a new field without default": (event(), one("int"), "a: is not in every record"),
    "a renamed field": (one("int"), event({"name": "b", "type": "int"}), "b: is not in every record"),
    "long to int": (one("long"), one("int"), "a: was long and is int: long cannot be read as int"),
    "a union that loses a branch": (one(["null", "int"]), one("int"), "a: was null and is int"),
    "no branch that fits": (one("boolean"), one(["null", "int"]), "a: was boolean, which none of [null, int] can"),
    "a symbol less": (one(enum("A", "B")), one(enum("A")), "a: the symbols B are not known"),
    "a default that is no symbol": (one(enum("A", "B")), one(enum("A", default="Q")), "a: the symbols B"),
    "a decimal's scale": (one(decimal(9, 2)), one(decimal(9, 3)), "was decimal(9, 2) and is decimal(9, 3)"),
    "a decimal's precision": (one(decimal(9, 2)), one(decimal(12, 2)), "old bytes would be read as other"),
    "millis to micros": (
        one(MILLIS),
        one(MICROS),
        "was long (timestamp-millis) and is long (timestamp-micros)",
    ),
    "a logical type gained": (one("long"), one(MILLIS), "a: was long and is long (timestamp-millis)"),
    "in a union": (one(["null", MILLIS]), one(["null", MICROS]), "a: was long (timestamp-millis)"),
    "deep inside": (
        one({"type": "array", "items": {"type": "map", "values": LEG}}),
        one({"type": "array", "items": {"type": "map", "values": LEG_INT}}),
        "a[]{}.airport: was string and is int",
    ),
    "a renamed record": (one(LEG), one({**LEG, "name": "Part"}), "a: record test.Leg is now test.Part"),
    "a fixed of another size": (
        one({"type": "fixed", "name": "F", "size": 4}),
        one({"type": "fixed", "name": "F", "size": 8}),
        "a: was 4 bytes and is 8",
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_an_allowed_change_is_allowed(name: str) -> None:
    """What Avro can resolve, and what changes no bytes."""
    old, new = ALLOWED[name]
    assert obstacles(old, new) == []


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_change_is_named_with_its_path(name: str) -> None:
    """One line, which begins with the path of the field."""
    old, new, said = REFUSED[name]
    (found,) = obstacles(old, new)
    assert said in found


def test_a_changed_logical_type_is_what_no_fingerprint_tells() -> None:
    """The case that only this check finds: the same CRC-64-AVRO, other numbers."""
    from cutwater.adapters.avro.codec import crc64

    old, new = one(decimal(9, 2)), one(decimal(9, 3))
    assert crc64(old) == crc64(new)
    assert len(obstacles(old, new)) == 1


def test_events_with_other_digits_of_a_decimal_are_read_one_by_one() -> None:
    """A number is the same with more digits before it; with another scale the same bytes are another number."""
    assert reading(one(decimal(9, 2)), one(decimal(12, 2))) == Reading()
    assert reading(one(decimal(9, 2)), one(decimal(9, 3))) == Reading(
        refused=(f"a: was decimal(9, 2) and is decimal(9, 3): {OTHERWISE}",)
    )


def test_the_three_rules_look_in_their_directions() -> None:
    """backward: the new reads the old; forward: the old reads the new; full: both, and it says which failed."""
    old, new = event(), one("int")
    assert incompatibilities(old, new, "forward") == []
    assert [line.endswith("(new reader, old record)") for line in incompatibilities(old, new)] == [True]
    assert incompatibilities(new, old) == []
    assert len(incompatibilities(one("int"), one("string"), "full")) == 2
    with pytest.raises(UsageError, match="'sideways' is not a compatibility rule; allowed: backward, forw"):
        incompatibilities(old, new, "sideways")


@pytest.mark.parametrize("wrong", [{}, 7, "Unknown", {"type": "record", "name": "A"}, {"type": "array"}, None])
def test_what_is_no_schema_is_refused(wrong: Any) -> None:
    """Whatever stands there: one error of ours."""
    with pytest.raises(UsageError, match="not an Avro schema"):
        obstacles(wrong, wrong)


def test_a_schema_without_end_is_refused() -> None:
    """Types within types have a bound."""
    deep: Any = "int"
    for _ in range(500):
        deep = {"type": "array", "items": deep}
    with pytest.raises(UsageError, match="more than 100 types"):
        obstacles(one(json.loads(json.dumps(deep))), event())
