"""What `cutwater init` makes of objects and lists in JSON: columns of what is inside, and elements as events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.job_files import expressions
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.events import json_records
from cutwater.core.events.avro_types import Schema
from cutwater.core.events.json_events import json_fields
from cutwater.core.events.schema_inference import FIELDS_MAX, LEVELS_MAX, infer
from cutwater.core.job.drafts.draft_fields import SampleRow
from cutwater.core.job.drafts.draft_file import Draft, render
from cutwater.core.job.drafts.nested_fields import element_of, nested_fields
from cutwater.core.job.drafts.nested_schema import infer_nested
from cutwater.core.job.field_paths import PathTarget, column_type, find_target, parse_path, type_of, value_at
from cutwater.core.job.job import Job
from cutwater.operations.event_draft import Choice, EventDraft, draft_event, list_rejected
from cutwater.operations.format_detection import DetectedFormat
from cutwater.operations.topic_sample import Sample

START = 1_700_000_000_000
NESTED = [
    {"shop": f"s{at % 3}", "payload": {"user": {"id": f"u{at % 5}", "Odd": at}, "at": START + at, "big": 2**70}}
    for at in range(40)
]


def order(at: int) -> dict[str, Any]:
    items = [
        {"sku": f"a{(at + one) % 4}", "price": {"cents": at, "unit": "EUR"}, "sizes": [one]} for one in range(3)
    ]
    cart = {"items": [*items, None] if at else [], "labels": ["new", f"l{at % 2}"], "grid": [[at]]}
    return {"customer": f"c{at % 5}", "placed_at": START + at, "cart": cart}


ORDERS = [order(at) for at in range(40)]


def drafted(
    events: Sequence[Mapping[str, Any]],
    key: Sequence[str] = (),
    event_time: str | None = None,
    explode: str | None = None,
) -> EventDraft:
    rows = [SampleRow(one, 0, at, START + at, None) for at, one in enumerate(events)]
    return draft_event(DetectedFormat("json", rows, 0, None), "click", Choice(key, event_time, explode))


def loaded(made: EventDraft, folder: Path) -> Job:
    """The draft as `up` would load it, with the types that Spark would tell."""
    (folder / "e.avsc").write_text(json.dumps(made.schema))
    written = yaml.safe_load(render(Draft("j", "t", "e.avsc", "json", 10, 0, 3, (), made.proposal)))
    schema, source = Schema.of(made.schema), written["source"]
    starts: list[tuple[Any, PathTarget | None]] = [(source, None)]
    if one := made.proposal.exploded:
        starts.append((source["explode"], element_of(schema, one.array, one.element)[1]))
    for part, start in starts:
        for name, path in part.get("columns", {}).items():
            steps = parse_path(path) or ()
            at = find_target(schema, steps[1:], start) if start else find_target(schema, steps)
            of = str(column_type(schema, at.node))
            part["columns"][name] = {"sql": path, "type": "timestamp" if of == "timestamp-micros" else of}
    (folder / "j.yaml").write_text(yaml.safe_dump(written))
    return load_job(folder / "j.yaml")


@pytest.fixture(autouse=True)
def types_as_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "find_spec", lambda _name: None)


def paths_inside(events: Sequence[Mapping[str, Any]]) -> set[str]:
    """Of what is inside of others."""
    schema = Schema.of(infer(events).schema("Event", (), infer_nested(events, "Event")))
    return set(nested_fields(schema, events))


def source_of(made: EventDraft) -> Any:
    """The source in the drafted file."""
    return yaml.safe_load(render(Draft("j", "t", "e.avsc", "json", 10, 0, 3, (), made.proposal)))["source"]


def test_fields_inside_of_objects_are_proposed_where_no_other_fits() -> None:
    """The key is a flat field, which costs less; time and measures are only inside. The schema has no more."""
    made = drafted(NESTED)
    found = made.proposal
    assert (found.key, found.event_time) == (("shop",), "payload_at")
    assert found.columns == {
        "payload_at": "payload.at",
        "user_Odd": "payload.user.Odd",
        "user_id": "payload.user.id",
    }
    assert set(found.measures) == {"events", "total_user_Odd", "max_user_Odd", "distinct_user_id"}
    [payload] = [one for one in made.schema["fields"] if one["name"] == "payload"]
    assert {one["name"] for one in payload["type"][1]["fields"]} == {"at", "user"}
    fields = json_fields(made.schema)
    assert json_records.read(json.dumps(NESTED[7]).encode(), fields) == {
        "shop": "s1",
        "payload": {"at": (START + 7) * 1_000, "user": {"Odd": 7, "id": "u2"}},
    }


def test_a_key_of_several_columns_some_of_them_inside_of_objects() -> None:
    """As the user says it; the number of different keys is that of the combinations."""
    made = drafted(NESTED, ("shop", "payload.user.id", "payload.user.Odd"), "payload.at")
    assert made.proposal.key == ("shop", "user_id", "user_Odd")
    assert made.proposal.columns == {
        "user_id": "payload.user.id",
        "user_Odd": "payload.user.Odd",
        "payload_at": "payload.at",
    }
    assert "40 different values in 40 samples" in made.proposal.key_why
    source = source_of(made)
    assert source["key"] == ["shop", "user_id", "user_Odd"]
    assert source["columns"] == dict(made.proposal.columns)
    with pytest.raises(UsageError, match=r"no usable 'payload\.user\.big': 'payload.user' has no field 'big'"):
        drafted(NESTED, ("payload.user.big",))


def test_flat_fields_are_measured_before_those_inside() -> None:
    """Each of those costs time for every event."""
    found = drafted([{**one, "amount": at} for at, one in enumerate(NESTED)]).proposal
    assert set(found.measures) == {"events", "total_amount", "max_amount"}


def test_a_column_s_name_is_that_of_no_other() -> None:
    """Spark does not tell names by case; a path says as much of itself as it must."""
    event = {"a_id": 1, "b": {"A": {"id": 1}}, "c": {"b": {"a": {"id": 1}}, "b_a_id": 1}, "at": START}
    found = drafted([event] * 3, ("b.A.id", "c.b.a.id"), "at").proposal
    assert found.columns == {"b_A_id": "b.A.id", "c_b_a_id": "c.b.a.id"}


def test_what_is_no_object_in_each_event_has_no_fields_inside() -> None:
    """Nor one that differs in case alone, or whose name Avro does not allow."""
    events = [
        {"a": {"x": 1}, "b": {"x": 1}, "B": {"y": 1}, "c": [{"x": 1}], "d e": {"x": 1}, "f": {"g": {"h": 1}}}
    ]
    assert paths_inside(events) == {"a.x", "c[0].x", "f.g.h"}
    assert paths_inside([*events, {"a": "text"}, {"f": {"g": 2}}, {"c": [1]}]) == set()
    assert paths_inside([*events, {"a": None}, {"f": {}}, {"c": []}, {"c": [None]}]) == {"a.x", "c[0].x", "f.g.h"}


def test_lists_are_arrays_of_what_all_elements_have_in_common() -> None:
    """An element's time has the unit that the user's word gives it, whichever element was named."""
    assert paths_inside(ORDERS[1:]) == {
        "cart.items[0].sku",
        "cart.items[0].price.cents",
        "cart.items[0].price.unit",
        "cart.items[0].sizes[0]",
        "cart.labels[0]",
        "cart.grid[0][0]",
    }
    found = drafted([{"k": "a", "seen": [{"on": START}, {"on": START}]}] * 3, ("k",), "seen[1].on")
    assert found.proposal.columns == {"seen_1_on": "seen[1].on"}
    assert Schema.of(found.schema).named["ClickEvent.seen"]["fields"][0]["type"][1]["logicalType"] == (
        "timestamp-millis"
    )
    made = drafted(ORDERS, ("cart.Items[2].SKU",), "placed_at")
    assert made.proposal.columns == {"items_2_sku": "cart.items[2].sku"}
    value = json_records.read(json.dumps(ORDERS[9]).encode(), json_fields(made.schema))
    assert isinstance(value, dict)
    assert value["cart"] == {"items": [{"sku": "a1"}, {"sku": "a2"}, {"sku": "a3"}, None]}


def test_the_elements_of_a_list_are_events() -> None:
    """Key and measures are of an element if it has such fields; the event time is the record's."""
    made = drafted(ORDERS, explode="CART.items")
    found = made.proposal
    assert (found.key, found.event_time) == (("sku",), "placed_at")
    assert "4 different values in 117 samples" in found.key_why
    assert set(found.measures) == {"events", "total_price_cents", "max_price_cents"}
    assert source_of(made)["explode"] == {
        "array": "cart.items",
        "as": "item",
        "columns": {"sku": "item.sku", "price_cents": "item.price.cents"},
    }
    value = json_records.read(json.dumps(ORDERS[9]).encode(), json_fields(made.schema))
    assert isinstance(value, dict)
    assert value["cart"]["items"][0] == {"sku": "a1", "price": {"cents": 9}}
    assert [one[0] for one in made.left_out] == []


def test_elements_beside_fields_of_their_record() -> None:
    """Of a name that no field of the event has; plain values are elements, too."""
    events = [{**one, "ITEM": 1, "sku": "x"} for one in ORDERS]
    made = drafted(events, ("customer", "element.sku", "element.sizes[0]"), explode="cart.items")
    assert made.proposal.key == ("customer", "element_sku", "sizes")
    assert source_of(made)["explode"]["as"] == "element"
    labels = drafted(ORDERS, ("item",), explode="cart.labels")
    assert source_of(labels)["explode"]["columns"] == {"value": "item"}
    flat = drafted(ORDERS, ("customer",), explode="cart.grid[0]")
    assert source_of(flat)["explode"]["array"] == "cart.grid[0]"


def at_start(**fields: Any) -> list[dict[str, Any]]:
    return [{"k": "a", "at": START, **fields}] * 3


@pytest.mark.parametrize(
    ("events", "explode", "key", "columns"),
    [
        (at_start(xs=["a", "b"]), "xs", ("item",), {"value": "item"}),
        (at_start(xs=[{"item": "a"}]), "xs", ("item.item",), {"item_item": "item.item"}),
        (at_start(xs=[["a"]]), "xs", ("item[0]",), {"value": "item[0]"}),
        (at_start(tags=[{"tags": "x"}]), "tags", ("item.tags",), {"item_tags": "item.tags"}),
        (at_start(order={"lines": [{"order": "x"}]}), "order.lines", (), {"item_order": "item.order"}),
        (at_start(xs=[{"events": "a"}]), "xs", ("item.events",), {"item_events": "item.events"}),
        (
            at_start(item=1, element=1, item_2=1, xs=[{"sku": "a"}]),
            "xs",
            ("item_3.sku",),
            {"sku": "item_3.sku"},
        ),
    ],
)
def test_a_draft_is_loaded_whatever_fields_are_called(
    events: list[dict[str, Any]], explode: str, key: Sequence[str], columns: Mapping[str, str], tmp_path: Path
) -> None:
    """No column has the name of a field, of the element, or of the measure that each draft has."""
    job = loaded(drafted(events, key, explode=explode), tmp_path)
    assert job.explode is not None
    assert {one.name: one.sql for one in job.explode.columns} == columns


def test_no_column_has_the_name_of_an_object(tmp_path: Path) -> None:
    events = at_start(a={"b": "x"}, a_b={"c": "y"})
    job = loaded(drafted(events, ("a.b", "a_b.c")), tmp_path)
    assert {one.name: one.sql for one in job.columns} == {"a_b_2": "a.b", "a_b_c": "a_b.c"}


@pytest.mark.parametrize(
    ("key", "columns", "counted"),
    [
        (["events", "Events_2"], ["events", "Events_2"], "events_3"),
        (["limit", "id"], ["limit_3", "id"], "events"),
        (["from", "window", "id"], ["from_2", "window_2", "id"], "events"),
        (["limit"], ["limit"], "events"),
        (["events"], ["events"], "events"),
        (["total_n", "id"], ["total_n", "id"], "events"),
    ],
)
def test_a_chosen_key_may_have_any_name(key: list[str], columns: list[str], counted: str, tmp_path: Path) -> None:
    """A key of several columns shows them in each row, beside what rows have and what the API's routes take."""
    other = {
        "events": "e",
        "Events_2": "f",
        "limit": "l",
        "limit_2": "m",
        "from": "a",
        "window": 1,
        "total_n": "t",
    }
    made = drafted(at_start(id="a", n=1, **other), key)
    job = loaded(made, tmp_path)
    assert list(job.key_fields) == columns
    assert [one.name for one in job.measures if one.kind == "count"] == [counted]
    event = {**other, "id": "a"}
    paths = [parse_path(made.proposal.columns.get(one, one)) or () for one in columns]
    assert [value_at(event, one) for one in paths] == [event[one] for one in key]


def test_a_key_of_too_many_columns_is_refused_before_a_file_is_written() -> None:
    names = [f"k{at}" for at in range(9)]
    with pytest.raises(UsageError, match="9 columns; allowed are 8"):
        drafted(at_start(**dict.fromkeys(names, "a")), names)


def test_the_least_long_is_a_long() -> None:
    schema = drafted(at_start(id="a", n=-(2**63))).schema
    assert {"name": "n", "type": ["null", "long"], "default": None} in schema["fields"]
    left_out = drafted(at_start(id="a", n=-(2**63) - 1)).left_out
    assert left_out == (("n", "it exceeds 64 bits"),)


@pytest.mark.parametrize("never", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
def test_a_time_that_stands_for_none_rejects_no_event(never: str, tmp_path: Path) -> None:
    """As the end of what is still valid. The driver rejects an event with any time of such a year."""
    events = [
        {"id": f"u{at % 3}", "at": "2024-03-10T06:30:00Z", "until": never if at % 2 else "2024-04-01T00:00:00Z"}
        for at in range(20)
    ]
    made = drafted(events)
    samples = [Sample(0, at, START, None, json.dumps(one).encode(), 0) for at, one in enumerate(events)]
    assert made.proposal.event_time == "at"
    assert list_rejected(loaded(made, tmp_path), samples) == []


def test_an_event_time_that_is_missing_in_some_events_stays_one() -> None:
    """Those events are rejected, as `init` says."""
    events = [{"id": "u", "at": "2024-03-10T06:30:00Z" if at else "0001-01-01T00:00:00Z"} for at in range(20)]
    made = drafted(events)
    assert made.proposal.event_time == "at"
    assert made.schema["fields"][1]["type"] == {"type": "long", "logicalType": "timestamp-millis"}


@pytest.mark.parametrize("explode", [None, "cart.items", "cart.labels"])
def test_the_draft_of_orders_is_loaded(explode: str | None, tmp_path: Path) -> None:
    job = loaded(drafted(ORDERS, explode=explode), tmp_path)
    assert (job.explode is None) == (explode is None)


@pytest.mark.parametrize(
    ("explode", "key", "event_time", "told"),
    [
        ("cart", (), None, "'cart' is record, and no array"),
        ("cart.itmes", (), None, "the samples have no usable 'cart.itmes': .* mean 'cart.items'"),
        ("2 * 3", (), None, r"'2 \* 3' is no path to an array"),
        ("cart.items", ("sku",), None, "usable field 'sku'; .*did you mean 'item.sku'"),
        ("cart.items", ("item.skus",), None, "'item' has no field 'skus'.* mean 'item.sku'"),
        (
            "cart.items",
            (),
            "item.sku",
            "'item.sku' is inside of an element, and all elements of a record have one",
        ),
        ("none", (), None, "the schema inferred from them has no field 'none'"),
    ],
)
def test_what_cannot_be_exploded_is_refused(
    explode: str, key: Sequence[str], event_time: str | None, told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        drafted(ORDERS, key, event_time, explode)


def test_an_array_without_an_element_says_so() -> None:
    """Empty in all samples, it has no element's type; of nulls alone neither."""
    with pytest.raises(
        UsageError,
        match=r"no usable 'cart\.items': the schema inferred .* has no field 'cart'; it has: customer, placed_at",
    ):
        drafted([{**one, "cart": {"items": [None]}} for one in ORDERS], explode="cart.items")


def test_bounds_of_what_is_looked_at() -> None:
    """An object whose names are values has no end of them."""
    deep: Any = 1
    for _ in range(LEVELS_MAX + 1):
        deep = {"a": deep}
    assert paths_inside([deep]) == {".".join("a" * (LEVELS_MAX + 1))}
    assert paths_inside([{"a": deep}]) == set()
    assert len(paths_inside([{"a": {f"n{one}": 1 for one in range(FIELDS_MAX + 9)}}])) == FIELDS_MAX - 1
    assert paths_inside([{"a": {f"n{one}": None for one in range(FIELDS_MAX)} | {"last": 1}}]) == set()


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text("ab", max_size=2), st.floats(0, 1)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("xyzX"), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(st.sampled_from("abcA"), VALUES, max_size=4), min_size=1, max_size=4))
def test_whatever_is_sampled_has_the_inferred_schema(events: list[dict[str, Any]]) -> None:
    """Each event is read with it, and each path has in it the values that the event has."""
    schema = infer(events).schema("Event", (), infer_nested(events, "Event"))
    inside = nested_fields(Schema.of(schema), events)
    fields = json_fields(schema)
    for at, event in enumerate(events):
        read = json_records.read(json.dumps(event).encode(), fields)
        assert isinstance(read, dict), read
        for path, one in inside.items():
            steps = parse_path(path) or ()
            node = find_target(Schema.of(schema), steps).node
            if type_of(Schema.of(schema), node).name not in ("timestamp-millis", "timestamp-micros"):
                try:
                    value = value_at(read, steps)
                except LookupError:
                    value = None
                assert value == one.values[at]
