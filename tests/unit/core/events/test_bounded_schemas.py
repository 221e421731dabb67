"""Schemas by which a few bytes would keep a reader busy, or take its stack: refused, or made as deep as may be."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.avro.codec import DAMAGE
from cutwater.adapters.events.avro_events import AvroReader
from cutwater.core.events.avro_types import Schema
from cutwater.core.events.formats import CONFLUENT, WriterSchema, confluent_header
from cutwater.core.events.rejection import Flaw
from cutwater.core.events.schema_bounds import CALLS_MAX, TYPES_MAX, endless, unroll_recursion
from support.events import readings_of_schemas as told

NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
TREE: dict[str, Any] = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "label", "type": {"type": "enum", "name": "Label", "symbols": ["A", "B"]}},
        {"name": "kids", "type": {"type": "array", "items": "Tree"}},
        {
            "name": "way",
            "type": {"type": "record", "name": "Way", "fields": [{"name": "to", "type": ["null", "Tree"]}]},
        },
        {"name": "event", "type": ["null", "Event"]},
        # Holds what holds itself, and not the tree.
        {
            "name": "side",
            "type": {"type": "record", "name": "Side", "fields": [{"name": "node", "type": ["null", NODE]}]},
        },
    ],
}
SLOW = {"type": "record", "name": "Empty", "fields": []}


def fields(*types: Any) -> dict[str, Any]:
    made = [{"name": f"f{at}", "type": one} for at, one in enumerate(types)]
    return {"type": "record", "name": "Event", "namespace": "test", "fields": made}


def doubling(levels: int) -> list[dict[str, Any]]:
    """Types of which each holds the one before twice, and none takes a byte."""
    types = [{"type": "record", "name": "T0", "fields": [{"name": "n", "type": "null"}]}]
    for at in range(1, levels):
        inner = [{"name": one, "type": f"T{at - 1}"} for one in "ab"]
        types.append({"type": "record", "name": f"T{at}", "fields": inner})
    return types


def chain(levels: int) -> list[dict[str, Any]]:
    types: list[dict[str, Any]] = [{"type": "record", "name": "T0", "fields": [{"name": "n", "type": "int"}]}]
    for at in range(1, levels):
        types.append({"type": "record", "name": f"T{at}", "fields": [{"name": "a", "type": f"T{at - 1}"}]})
    return types


@pytest.mark.parametrize(
    ("types", "said"),
    [
        ([{"type": "array", "items": "null"}], "f0: an item takes 0 bytes"),
        ([{"type": "array", "items": {"type": "null"}}], "f0: an item takes 0 bytes"),
        ([SLOW, {"type": "array", "items": "Empty"}], "f1: an item takes 0 bytes"),
        ([{"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}], "f0: an item takes 0 bytes"),
        ([["null", {"type": "map", "values": {"type": "array", "items": SLOW}}]], "f0: an item takes 0 bytes"),
        ([{"type": "array", "items": doubling(1)[0]}], "f0: an item takes 0 bytes"),
        (doubling(12), "takes 0 bytes and more than 1,000 steps"),
        (chain(1_200), "nests more than 1,000 types"),
    ],
)
def test_what_bytes_do_not_bound_is_told(types: list[Any], said: str) -> None:
    """Lists of what takes no byte, in maps and unions too; types that double; a chain of types by name."""
    (found,) = set(endless(Schema.of(fields(*types)))[:1])
    assert said in found


@pytest.mark.parametrize("innermost", [None, {"type": "enum", "name": "T0", "symbols": ["A"]}])
def test_types_may_nest_up_to_the_bound(innermost: Any) -> None:
    """The event is one of them, and what holds nothing but plain values counts once."""
    types = chain(TYPES_MAX)
    types[0] = innermost or types[0]
    assert endless(Schema.of(fields(*types[:-1]))) == []
    assert endless(Schema.of(fields(*types))) == ["it nests more than 1,000 types"]


def test_what_bytes_bound_is_none_of_it() -> None:
    """Each item takes a byte; a map's key does; a value without bytes is there once."""
    items = ("int", "string", ["null", "int"], {"type": "array", "items": "int"}, NODE, "Node", TREE)
    fine = [{"type": "array", "items": one} for one in items]
    assert endless(Schema.of(fields(*fine, {"type": "map", "values": "null"}, "null", SLOW, *doubling(5)))) == []
    assert unroll_recursion(fields("int", SLOW)).types == ()


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def read(schema: Any, body: bytes) -> Any:
    """By the bounded schema, to the last byte."""
    found, named = unroll_recursion(schema), {}
    for one in found.types:
        fastavro.parse_schema(one, named)
    data = io.BytesIO(body)
    value = fastavro.schemaless_reader(data, fastavro.parse_schema(found.schema, named), None)
    assert not data.read(1)
    return value


TREES = st.recursive(
    st.just(None),
    lambda inner: (
        st.none()
        | st.fixed_dictionaries(
            {
                "label": st.sampled_from("AB"),
                "kids": st.lists(inner.filter(bool), max_size=3),
                "way": st.fixed_dictionaries({"to": inner}),
                "side": st.sampled_from([{"node": None}, {"node": {"next": {"next": None}}}]),
                "event": st.none() | st.fixed_dictionaries({"f0": inner, "f1": st.just("A")}),
            }
        )
    ),
    max_leaves=15,
)


@pytest.mark.slow
@given(TREES)
def test_what_holds_itself_is_read_as_before(tree: Any) -> None:
    """Lists, records in between, the event itself within, an enum of all levels: not a byte is read otherwise."""
    schema, event = fields(["null", TREE], "Label"), {"f0": tree, "f1": "B"}
    assert read(schema, written(schema, event)) == event


def test_too_deep_is_damaged_and_no_deeper_call() -> None:
    """At the last level it is read, and behind it not, whatever stands there; one more byte is one more level."""
    schema = fields(["null", NODE], "int")
    levels = unroll_recursion(schema).levels
    assert levels == CALLS_MAX // 2
    assert read(schema, b"\x02" * levels + b"\x00\x02") is not None
    for depth in (levels + 1, 2 * levels, 100_000):
        with pytest.raises(DAMAGE):
            read(schema, b"\x02" * depth + b"\x00\x02")


def test_an_event_that_holds_itself_keeps_its_name() -> None:
    """The levels behind it have other names."""
    found = unroll_recursion({**NODE, "namespace": "test"})
    assert (found.schema["name"], found.schema["namespace"]) == ("Node", "test")
    assert [one["name"] for one in found.types[-2:]] == ["Node_at_level_3", "Node_at_level_2"]


def test_a_type_that_holds_itself_without_a_byte_is_damaged() -> None:
    """There is no such event, and a reader would look for its end for ever."""
    endless_ = {"type": "record", "name": "Endless", "fields": [{"name": one, "type": "Endless"} for one in "ab"]}
    with pytest.raises(DAMAGE):
        read(fields(endless_), b"\x02" * 100)


def test_the_reader_of_samples_says_the_same() -> None:
    """As the driver: read to some depth; refused for good where bytes bound nothing."""
    reader = told.record("int")
    writers = [told.record(["null", NODE]), told.record({"type": "array", "items": "null"})]
    for one in writers:
        one["fields"].append({"name": "more", "type": "int"})
    job = {**reader, "fields": reader["fields"][:2]}
    known = [WriterSchema(confluent_header(at), one, f"number {at}") for at, one in enumerate(writers)]
    taking = AvroReader(CONFLUENT, job, known)
    head = [confluent_header(at) + written(job, {"key": "k", "at": told.AT_MS}) for at in (0, 1)]
    assert taking.read(head[0] + b"\x02" * 50 + b"\x00\x02") == {"key": "k", "at": told.AT_MS * 1_000}
    assert isinstance(taking.read(head[0] + b"\x02" * 50_000 + b"\x00\x02"), Flaw)
    flaw = taking.read(head[1] + b"\xfe\xff\xff\xff\x0f\x00\x02")
    assert isinstance(flaw, Flaw)
    assert flaw.rule.startswith("is of schema number 1: x: an item takes 0 bytes")
