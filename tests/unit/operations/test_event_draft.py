"""What `init` drafts over fields inside of others, in each format, and which of the records it would reject."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.job_files import expressions
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.checks.capacity import list_uncertainties
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import confluent_header
from cutwater.core.events.protobuf.message_index import message_index
from cutwater.core.events.rejection import (
    FAILED_EXPRESSION,
    NO_EVENT_TIME,
    NO_KEY,
    TOO_FAR_AHEAD,
    UNDECODABLE,
    Flaw,
)
from cutwater.core.job.drafts.draft_file import NOT_JUDGED, Draft, render
from cutwater.core.job.job import Job
from cutwater.operations.event_draft import Choice, EventDraft, draft_event, list_rejected
from cutwater.operations.event_sample import judge_records
from cutwater.operations.format_detection import DetectedFormat, detect_format, written_with
from cutwater.operations.topic_sample import Sample
from support.events import messages

START = 1_700_000_000_000
DAY = 86_400_000
TIME = {"type": "long", "logicalType": "timestamp-millis"}
USER = [
    {"name": "id", "type": "string"},
    {"name": "score", "type": ["null", "int"], "default": None},
    {"name": "admin", "type": "boolean", "default": False},
    {"name": "weight", "type": "double"},
]
ITEM = [{"name": "sku", "type": "string"}, {"name": "cents", "type": "long"}]
PAYLOAD = [
    {"name": "user", "type": ["null", {"type": "record", "name": "User", "fields": USER}], "default": None},
    {"name": "at", "type": ["null", TIME], "default": None},
]
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Click",
    "namespace": "test",
    "fields": [
        {"name": "page", "type": "string"},
        {"name": "payload", "type": ["null", {"type": "record", "name": "Payload", "fields": PAYLOAD}]},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "items", "type": {"type": "array", "items": {"type": "record", "name": "Item", "fields": ITEM}}},
    ],
}
TYPES = {
    "item.cents": "long",
    "payload.at": "timestamp",
    "payload.user.score": "int",
    "payload.user.weight": "double",
    "items[0].cents": "long",
}
"""What Spark would tell of these paths; others are texts."""


def click(at: int, **given: Any) -> dict[str, Any]:
    user = {"id": f"u{at % 5}", "score": at, "admin": at % 2 == 0, "weight": 0.5}
    event = {"page": f"p{at % 3}", "payload": {"user": user, "at": START + at}, "tags": {"region": "eu"}}
    return {**event, "items": [{"sku": f"s{at % 4}", "cents": at}], **given}


CLICKS = [click(at) for at in range(40)]
ODD = [
    click(40, payload=None),
    click(41, payload={"user": None, "at": START}),
    click(42, payload={"user": click(0)["payload"]["user"], "at": START + 9 * DAY}),
    click(43, items=[]),
    click(44, tags={}),
]


def as_json(event: Mapping[str, Any]) -> bytes:
    return json.dumps(event).encode()


def as_avro(event: Mapping[str, Any]) -> bytes:
    """Without logical types, so that times are numbers."""
    plain = json.loads(json.dumps(SCHEMA), object_hook=lambda one: "long" if one == TIME else one)
    return Codec(plain).body(dict(event))


FORMS = {
    "avro": lambda event: Codec(SCHEMA).header + as_avro(event),
    "confluent": lambda event: confluent_header(7) + as_avro(event),
    "json": as_json,
    "confluent-json": lambda event: confluent_header(7) + as_json(event),
}


def sampled(form: str, events: Sequence[Mapping[str, Any]]) -> list[Sample]:
    return [Sample(0, at, START, None, FORMS[form](one), 0) for at, one in enumerate(events)]


def found_in(folder: Path, form: str, samples: Sequence[Sample]) -> DetectedFormat:
    (folder / "click.avsc").write_text(json.dumps(SCHEMA))
    given = folder / "click.avsc" if form == "confluent" else None
    return detect_format(samples, "clicks", given, (folder,))


def job_of(folder: Path, found: DetectedFormat, made: EventDraft, message: str = "") -> Job:
    """The job as `up` would load the draft, with the types that Spark would tell."""
    if not message:
        (folder / "event.avsc").write_text(json.dumps(made.schema))
    name = "event.desc" if message else "event.avsc"
    draft = Draft("clicks", "clicks", name, found.format, 1, 0, 1, made.left_out, made.proposal, (), message)
    written = yaml.safe_load(render(draft))
    # For JSON a whole number is a long, whatever the producer's type.
    types = TYPES if found.schema else {**TYPES, "payload.user.score": "long"}
    source = written["source"]
    for part in (source, source.get("explode")):
        if part and "columns" in part:
            part["columns"] = {
                one: {"sql": path, "type": types.get(path, "string")} for one, path in part["columns"].items()
            }
    (folder / "job.yaml").write_text(yaml.safe_dump(written))
    return load_job(folder / "job.yaml")


@pytest.fixture(autouse=True)
def types_as_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "find_spec", lambda _name: None)


@pytest.mark.parametrize("form", FORMS)
def test_keys_and_times_inside_of_records_are_drafted_and_judged_alike(form: str, tmp_path: Path) -> None:
    """In each format the same columns, of the same values, and the same records rejected for the same reasons."""
    samples = sampled(form, [*CLICKS, *ODD])
    found = found_in(tmp_path, form, samples)
    made = draft_event(found, "clicks", Choice(["page", "payload.user.id"]))
    assert found.format == form
    assert (made.proposal.key, made.proposal.event_time) == (("page", "user_id"), "payload_at")
    assert dict(made.proposal.columns) == {
        "user_id": "payload.user.id",
        "payload_at": "payload.at",
        "user_score": "payload.user.score",
        "user_weight": "payload.user.weight",
    }
    assert "15 different values in 45 samples" in made.proposal.key_why
    assert made.proposal.measures["total_user_score"] == ("sum", "user_score")
    job = job_of(tmp_path, found, made)
    assert [one.name for one in job.key_parts] == ["page", "user_id"]
    rejected = list_rejected(job, samples)
    assert rejected is not None
    assert {(one.flaw.reason, one.flaw.field): one.records for one in rejected} == {
        (NO_KEY, "user_id"): 2,
        (TOO_FAR_AHEAD, "payload_at"): 1,
    }
    [(_, one)] = judge_records(job, samples[7:8], written_with(job, samples))
    assert isinstance(one, dict)
    assert (one["user_id"], one["payload_at"], one["user_score"]) == ("u2", (START + 7) * 1_000, 7)


@pytest.mark.parametrize("form", ["avro", "confluent"])
def test_values_of_maps_and_elements_of_arrays_are_paths_too(form: str, tmp_path: Path) -> None:
    """Offered by what the events have, accepted with any name and index; without the element an event fails."""
    samples = sampled(form, [*CLICKS, *ODD])
    found = found_in(tmp_path, form, samples)
    made = draft_event(found, "clicks", Choice(["tags.region", "Items[0].sku"], "payload.at"))
    assert made.proposal.key == ("tags_region", "items_sku")
    assert made.proposal.columns["items_sku"] == "items[0].sku"
    assert made.proposal.columns["tags_region"] == "tags['region']"
    rejected = list_rejected(job_of(tmp_path, found, made), samples)
    assert rejected is not None
    assert {(one.flaw.reason, one.flaw.field): one.records for one in rejected} == {
        (FAILED_EXPRESSION, "source.columns.items_sku"): 1,
        (NO_KEY, "tags_region"): 1,
        (NO_EVENT_TIME, "payload_at"): 1,
        (TOO_FAR_AHEAD, "payload_at"): 1,
    }
    other = draft_event(found, "clicks", Choice(["tags['it\\'s']", "items[3].sku"], "payload.at")).proposal
    assert other.columns["tags_it_s"] == "tags['it\\'s']"
    assert other.columns["items_3_sku"] == "items[3].sku"
    assert "; also possible: " not in other.key_why
    alone = draft_event(found, "clicks", Choice()).proposal
    assert alone.key == ("page",)
    assert not any("[0]" in path for path in alone.columns.values()), "an array may be empty"


@pytest.mark.parametrize("form", FORMS)
def test_elements_of_an_array_are_events_in_each_format(form: str, tmp_path: Path) -> None:
    """With columns of their record beside them. Which of them would be rejected, only Spark can tell."""
    samples = sampled(form, [*CLICKS, *ODD])
    found = found_in(tmp_path, form, samples)
    made = draft_event(found, "clicks", Choice(["page", "item.sku"], "payload.at", "items"))
    assert made.proposal.key == ("page", "sku")
    assert dict(made.proposal.columns) == {"payload_at": "payload.at"}
    assert "12 different values in 44 samples" in made.proposal.key_why
    assert set(made.proposal.measures) == {"events", "total_cents", "max_cents"}
    job = job_of(tmp_path, found, made)
    assert job.explode is not None
    assert (job.explode.array, {one.name for one in job.explode.columns}) == ("items", {"sku", "cents"})
    assert list_rejected(job, samples) is None


@pytest.mark.parametrize(
    ("form", "key", "event_time", "told"),
    [
        (
            "avro",
            "payload.user.ids",
            None,
            "'payload.user' has no field 'ids'; .*; did you mean 'payload.user.id'?",
        ),
        ("avro", "page.id", None, "'page' is string, and no record"),
        (
            "avro",
            "payload",
            None,
            "'payload' is record and cannot be the key: .*Inside of it are: payload.user.id",
        ),
        ("avro", "payload.user", None, "'payload.user' is record and cannot be the key"),
        (
            "avro",
            "payload.user.weight",
            None,
            "'payload.user.weight' is double and cannot be the key: that is text, a whole number, a dec",
        ),
        ("avro", "items.sku", None, r"'items' is an array: .* items\[0\]\.sku"),
        ("avro", "tags[0]", None, r"'tags' is a map"),
        ("avro", "pgae", None, r"no sampled event has a usable field 'pgae'; there are: page, .*tags\['region'\]"),
        ("avro", "page", "payload.user.id", "'payload.user.id' is string and cannot be the event time"),
        (
            "json",
            "payload.user.ids",
            None,
            "the samples have no usable 'payload.user.ids': .* mean 'payload.user.id'?",
        ),
        ("json", "page.id", None, "'page' is string, and no record, map or array: it has"),
        ("json", "items.sku", None, r"'items' is an array: .* items\[0\]\.sku"),
        ("json", "payload.user.weight", None, "'payload.user.weight' is double and cannot be the key"),
    ],
)
def test_a_wrong_path_says_what_is_wrong(
    form: str, key: str, event_time: str | None, told: str, tmp_path: Path
) -> None:
    found = found_in(tmp_path, form, sampled(form, CLICKS))
    with pytest.raises(UsageError, match=told):
        draft_event(found, "clicks", Choice([key], event_time))


def test_json_takes_the_path_of_a_map_for_an_object_s(tmp_path: Path) -> None:
    """One does not know which of them the producer meant."""
    found = found_in(tmp_path, "json", sampled("json", CLICKS))
    made = draft_event(found, "clicks", Choice(["tags['region']"]))
    assert made.proposal.columns["tags_region"] == "tags.region"


def test_protobuf_is_drafted_with_a_descriptor_and_the_message(tmp_path: Path) -> None:
    """Of any number and index of the sample. Without them, or with a schema of Avro, init says what is needed."""
    (tmp_path / "event.desc").write_bytes(messages.descriptor_set())
    order = messages.message_class(messages.descriptor_set())
    bodies = [
        order(
            key=f"k{at % 3}",
            at=datetime.fromtimestamp(START / 1_000 + at, UTC),
            int32=at,
            item={"sku": f"s{at % 4}"} if at else None,
        ).SerializeToString()
        for at in range(40)
    ]
    heads = [confluent_header(at % 2 + 7) + (message_index(1) if at % 2 else b"\0") for at in range(40)]
    samples = [Sample(0, at, START, None, head + bodies[at], 0) for at, head in enumerate(heads)]
    found = detect_format(samples, "orders", tmp_path / "event.desc", (), messages.NAME)
    assert (found.format, len(found.rows)) == ("confluent-protobuf", 40)
    made = draft_event(found, "orders", Choice(["item.sku"]))
    assert made.proposal.event_time == "at"
    assert dict(made.proposal.columns) == {"item_sku": "item.sku"}
    job = job_of(tmp_path, found, made, messages.NAME)
    rejected = list_rejected(job, samples)
    assert [(one.flaw, one.records) for one in rejected or ()] == [(Flaw(NO_KEY, "is null", "item_sku"), 1)]
    for schema, message, why in (
        (None, None, r"give a \.proto or a descriptor file with --schema FILE and .* --message NAME"),
        (tmp_path / "event.desc", None, "not an Avro schema: .*; if the events are Protobuf"),
        (tmp_path / "event.desc", "shop.Oder", "has no message 'shop.Oder'"),
    ):
        with pytest.raises(UsageError, match=why):
            detect_format(samples, "orders", schema, (), message)
    (tmp_path / "click.avsc").write_text(json.dumps(SCHEMA))
    with pytest.raises(
        UsageError, match=r"none of 40 records can be read as confluent of .*; if the events are P"
    ):
        detect_format(samples, "orders", tmp_path / "click.avsc", ())
    with pytest.raises(UsageError, match="leave out --message"):
        detect_format(sampled("json", CLICKS), "orders", None, (), messages.NAME)


def test_a_recursive_schema_is_refused_before_anything_is_drafted(tmp_path: Path) -> None:
    again = {"name": "below", "type": ["null", "test.Click"], "default": None}
    endless = {**SCHEMA, "fields": [SCHEMA["fields"][0], again]}
    (tmp_path / "click.avsc").write_text(json.dumps(endless))
    value = Codec(endless).encode({"page": "p", "below": None})
    with pytest.raises(UsageError, match="recursive, which Spark does not support"):
        detect_format([Sample(0, 0, START, None, value, 0)], "clicks", None, (tmp_path,))


def test_what_only_spark_can_judge_is_said(tmp_path: Path) -> None:
    """A condition, or a column that is more than a path; `init` drafts neither. `plan` then takes no sample."""
    samples = sampled("avro", CLICKS)
    found = found_in(tmp_path, "avro", samples)
    made = draft_event(found, "clicks", Choice(["payload.user.id"]))
    job = job_of(tmp_path, found, made)
    assert "only Spark evaluates" not in list_uncertainties(job, None, measured=False, said=False)[0]
    text = (tmp_path / "job.yaml").read_text()
    (tmp_path / "job.yaml").write_text(text.replace("sql: payload.user.id", "sql: lower(payload.user.id)"))
    other = load_job(tmp_path / "job.yaml")
    assert list_rejected(other, samples) is None
    with pytest.raises(UsageError, match="only Spark tells"):
        list(judge_records(other, samples, ()))
    assert "only Spark evaluates" in list_uncertainties(other, None, measured=False, said=False)[0]
    assert f"# {NOT_JUDGED}.\n" in render(Draft("j", "t", "e.avsc", "avro", 1, 0, 1, (), made.proposal, None))


def test_a_text_inside_that_is_no_utf_8_is_told(tmp_path: Path) -> None:
    """As of a flat field; other texts beside it may be what they like."""
    found = found_in(tmp_path, "avro", sampled("avro", CLICKS))
    job = job_of(tmp_path, found, draft_event(found, "clicks", Choice(["payload.user.id"])))
    broken = FORMS["avro"](click(1)).replace(b"\x04u1", b"\x04u\xff")
    samples = [Sample(0, 0, START, None, one, 0) for one in (broken, broken.replace(b"eu", b"\xffu"))]
    rejected = list_rejected(job, samples)
    assert [(one.flaw.reason, one.flaw.field, one.records) for one in rejected or ()] == [
        (UNDECODABLE, "user_id", 2)
    ]
