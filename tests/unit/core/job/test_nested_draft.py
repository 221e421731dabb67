"""What `cutwater init` makes of fields inside of objects, from plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import yaml

from cutwater.core.errors import UsageError
from cutwater.core.events import json_records
from cutwater.core.events.json_events import json_fields
from cutwater.core.events.schema_inference import infer
from cutwater.core.job.drafts.draft_fields import SampleRow
from cutwater.core.job.drafts.draft_file import Draft, render
from cutwater.core.job.drafts.draft_proposal import propose

START = 1_700_000_000_000
NESTED = [
    {"shop": f"s{at % 3}", "payload": {"user": {"id": f"u{at % 5}", "Odd": at}, "at": START + at, "big": 2**70}}
    for at in range(40)
]


def nested_rows(events: Sequence[Mapping[str, Any]] = NESTED) -> list[SampleRow]:
    both = zip(events, infer(events).values, strict=True)
    return [SampleRow({**one, **inner}, 0, at, START + at, None) for at, (one, inner) in enumerate(both)]


def test_fields_inside_of_objects_are_proposed_where_no_other_fits() -> None:
    """The key is a flat field, which costs less; time and measures are only inside. The schema has no more."""
    inferred = infer(NESTED)
    found = propose(nested_rows(), inferred.kinds, (), None, inferred.inner)
    assert (found.key, found.event_time) == (("shop",), "payload_at")
    assert found.columns == {
        "payload_at": "payload.at",
        "user_Odd": "payload.user.Odd",
        "user_id": "payload.user.id",
    }
    assert set(found.measures) == {"events", "total_user_Odd", "max_user_Odd", "distinct_user_id"}
    schema = inferred.schema("Click", (*found.key, found.event_time), found.columns.values())
    [payload] = [one for one in schema["fields"] if one["name"] == "payload"]
    assert [one["name"] for one in payload["type"][1]["fields"]] == ["at", "user"]
    fields = json_fields(schema)
    assert json_records.read(json.dumps(NESTED[7]).encode(), fields) == {
        "shop": "s1",
        "payload": {"at": (START + 7) * 1_000, "user": {"Odd": 7, "id": "u2"}},
    }


def test_a_key_of_several_columns_some_of_them_inside_of_objects() -> None:
    """As the user says it; the number of different keys is that of the combinations."""
    inferred = infer(NESTED)
    chosen = ("shop", "payload.user.id", "payload.user.Odd")
    found = propose(nested_rows(), inferred.kinds, chosen, "payload.at", inferred.inner)
    assert found.key == ("shop", "user_id", "user_Odd")
    assert found.columns == {
        "user_id": "payload.user.id",
        "user_Odd": "payload.user.Odd",
        "payload_at": "payload.at",
    }
    assert "40 different values in 40 samples" in found.key_why
    draft = Draft("j", "t", "e.avsc", "json", 10, 0, 3, (), found)
    source = yaml.safe_load(render(draft))["source"]
    assert source["key"] == ["shop", "user_id", "user_Odd"]
    assert source["columns"] == dict(found.columns)
    with pytest.raises(UsageError, match=r"a usable field 'payload\.user\.big'; .*user\.id"):
        propose(nested_rows(), inferred.kinds, ("payload.user.big",), None, inferred.inner)


def test_flat_fields_are_measured_before_those_inside() -> None:
    """Each of those costs time for every event."""
    events = [{**one, "amount": at} for at, one in enumerate(NESTED)]
    inferred = infer(events)
    found = propose(nested_rows(events), inferred.kinds, (), None, inferred.inner)
    assert set(found.measures) == {"events", "total_amount", "max_amount"}


def test_a_column_s_name_is_that_of_no_other() -> None:
    """Spark does not tell names by case; a path says as much of itself as it must."""
    event = {"a_id": 1, "b": {"A": {"id": 1}}, "c": {"b": {"a": {"id": 1}}, "b_a_id": 1}, "at": START}
    inferred = infer([event])
    paths = ("b.A.id", "c.b.a.id")
    found = propose(nested_rows([event] * 3), inferred.kinds, paths, "at", inferred.inner)
    assert found.columns == {"b_A_id": "b.A.id", "c_b_a_id": "c.b.a.id"}


def test_what_is_no_object_in_each_event_has_no_fields_inside() -> None:
    """Nor has a list; a name that differs in case alone, or that Avro does not allow, hides what is inside."""
    events = [
        {"a": {"x": 1}, "b": {"x": 1}, "B": {"y": 1}, "c": [{"x": 1}], "d e": {"x": 1}, "f": {"g": {"h": 1}}}
    ]
    assert set(infer(events).inner) == {"a.x", "f.g.h"}
    assert set(infer([*events, {"a": "text"}, {"f": {"g": 2}}]).inner) == set()
    assert set(infer([*events, {"a": None}, {"f": {}}]).inner) == {"a.x", "f.g.h"}
