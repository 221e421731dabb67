"""Avro schemas of a registry that refer to other subjects: read in one piece, with bounds."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.events import registry_references
from cutwater.adapters.events.avro_events import AvroReader
from cutwater.adapters.events.event_encoder import event_encoder, known_schemas, unreadable
from cutwater.adapters.events.registry import ClosedError, MuteError, Registered, Registry
from cutwater.core.errors import UsageError
from cutwater.core.events.avro_types import Schema, in_one_piece
from cutwater.core.events.formats import CONFLUENT, EventFormat
from cutwater.core.events.registry_ids import REFERENCED_MAX, REFERENCES_DEEP
from cutwater.core.job.job import Job
from support.events import wide
from support.events.registries import StandIn
from support.naming import unique

UNIT = {"type": "enum", "name": "Unit", "namespace": "test.units", "symbols": ["KG", "T"]}
WEIGHT = {
    "type": "record",
    "name": "test.Weight",
    "fields": [{"name": "amount", "type": "int"}, {"name": "unit", "type": "test.units.Unit"}],
}
EVENT = {
    "type": "record",
    "name": "Event",
    "namespace": "test",
    "fields": [
        {"name": "weight", "type": "Weight"},
        {"name": "empty", "type": ["null", "Weight"], "default": None},
        {"name": "unit", "type": "test.units.Unit"},
    ],
}
WHOLE = {
    **EVENT,
    "fields": [
        {
            "name": "weight",
            "type": {
                **WEIGHT,
                "fields": [{"name": "amount", "type": "int"}, {"name": "unit", "type": UNIT}],
            },
        },
        *EVENT["fields"][1:],
    ],
}
ROW = {"weight": {"amount": 3, "unit": "T"}, "empty": None, "unit": "KG"}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with StandIn().running() as running, Registry(running.url) as made:
        yield made


def put(registry: Registry, subject: str, schema: Any, *references: tuple[str, str, int], kind: str = "") -> int:
    named = [dict(zip(("name", "subject", "version"), one, strict=True)) for one in references]
    body = {"schema": json.dumps(schema), "references": named, **({"schemaType": kind} if kind else {})}
    return int(registry.call("POST", f"/subjects/{subject}/versions", subject, None, body)["id"])


def job_of(folder: Path, subject: str) -> Job:
    job = wide.job(folder, wide.SCHEMA, "format: confluent, registry: 'http://127.0.0.1:1'")
    return replace(job, event_schema=WHOLE, format=EventFormat(CONFLUENT, subject=subject))


def test_events_of_confluent_s_serializer_are_read(url: str, tmp_path: Path) -> None:
    """One schema through another and one used twice; `produce` takes the registered schema, adding no version."""
    from confluent_kafka.schema_registry import Schema as Stated
    from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    unit, weight, topic = unique("unit"), unique("weight"), unique("parcels")
    with Registry(url) as registry:
        put(registry, unit, UNIT)
        put(registry, weight, WEIGHT, ("test.units.Unit", unit, 1))
        references = [("test.units.Unit", unit, 1), ("test.Weight", weight, 1)]
        put(registry, f"{topic}-value", EVENT, *references)
        client = SchemaRegistryClient({"url": url})
        stated = Stated(json.dumps(EVENT), "AVRO", [SchemaReference(*one) for one in references])
        write = AvroSerializer(client, stated, conf={"auto.register.schemas": False, "use.latest.version": True})
        value = write(ROW, SerializationContext(topic, MessageField.VALUE))
        job = job_of(tmp_path, f"{topic}-value")
        known = known_schemas(job, registry)
        ours = event_encoder(job, registry)(ROW)
        assert len(registry.versions(f"{topic}-value")) == 1
    assert unreadable(job, known) == []
    assert value is not None
    assert AvroReader(CONFLUENT, WHOLE, known).read(value) == ROW
    assert ours == value
    assert [one.schema for one in known] == [in_one_piece(WHOLE, ())]


def one_version(registry: Registry, subject: str = "event-value") -> Registered:
    (found,) = registry.versions(subject)
    return found


def test_a_missing_reference_is_named(registry: Registry) -> None:
    """And the version alone is of no use."""
    put(registry, "event-value", EVENT, ("test.Weight", "weight", 3))
    assert "refers to version 3 of weight, which the registry does not have" in one_version(registry).problem


def test_a_reference_to_another_kind_is_named(registry: Registry) -> None:
    """Avro uses no type of JSON Schema."""
    put(registry, "weight", {"type": "object"}, kind="JSON")
    put(registry, "event-value", EVENT, ("test.Weight", "weight", 1))
    assert one_version(registry).problem.startswith("version 1 of weight is JSON, and source.format reads AVRO")


def test_a_type_that_no_reference_defines_is_named(registry: Registry) -> None:
    """The registry accepted it; Avro would not."""
    put(registry, "unit", UNIT)
    put(registry, "event-value", EVENT, ("test.units.Unit", "unit", 1))
    assert "the type 'Weight' is not defined" in one_version(registry).problem


def test_a_type_in_two_versions_is_refused(registry: Registry) -> None:
    """Which of the two an event has cannot be told; the same one twice is one."""
    put(registry, "unit", UNIT)
    put(registry, "unit", {**UNIT, "symbols": ["KG"]})
    put(registry, "same", UNIT)
    put(registry, "weight", WEIGHT, ("test.units.Unit", "unit", 1))
    put(registry, "event-value", EVENT, ("u", "unit", 2), ("w", "weight", 1))
    put(registry, "twice", EVENT, ("u", "same", 1), ("w", "weight", 1))
    assert "'test.units.Unit' is defined in two ways" in one_version(registry).problem
    assert one_version(registry, "twice").schema == in_one_piece(WHOLE, ())


def test_references_in_a_circle_end(registry: Registry) -> None:
    """No registry accepts them; one that returns them keeps nobody busy."""
    put(registry, "b", UNIT, ("a", "event-value", 1))
    put(registry, "event-value", EVENT, ("b", "b", 1))
    assert "refers to version 1 of b, which refers to it" in one_version(registry).problem


@pytest.mark.parametrize("deep", [True, False])
def test_references_have_bounds(registry: Registry, deep: bool) -> None:
    """Of depth and number; just within them they are read."""
    most = REFERENCES_DEEP if deep else REFERENCED_MAX
    for at in range(most + 1):
        inner = [(f"s{at - 1}", f"s{at - 1}", 1)] if deep and at else []
        put(registry, f"s{at}", {**UNIT, "name": f"U{at}"}, *inner)
    for number in (most, most + 1):
        names = [f"s{number - 1}"] if deep else [f"s{at}" for at in range(number)]
        put(registry, f"event{number}", {**EVENT, "fields": []}, *((one, one, 1) for one in names))
    assert one_version(registry, f"event{most}").problem == ""
    assert f"at most {REFERENCED_MAX} schemas" in one_version(registry, f"event{most + 1}").problem


@pytest.mark.parametrize("bound", ["READ_MAX", "CHARACTERS_MAX"])
def test_all_references_of_a_subject_have_bounds(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """Newer versions are read before older ones."""
    monkeypatch.setattr(registry_references, bound, 1)
    for version in (1, 2):
        put(registry, f"unit{version}", {**UNIT, "name": f"Unit{version}"})
        put(registry, "event-value", {**EVENT, "fields": [{"name": "unit", "type": f"test.units.Unit{version}"}]},
            ("u", f"unit{version}", 1))  # fmt: skip
    newer, older = registry.versions("event-value")
    assert newer.problem == ""
    assert "all versions of a subject together may refer to" in older.problem


def test_who_may_register_need_not_be_allowed_to_read(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`produce` registers then, as it did before it looked for an equal version."""
    call = registry.call

    def refusing(method: str, *more: Any, **named: Any) -> Any:
        if method == "GET":
            raise ClosedError("the registry refuses this client (403)")
        return call(method, *more, **named)

    monkeypatch.setattr(registry, "call", refusing)
    assert event_encoder(job_of(tmp_path, "event-value"), registry)(ROW)


def test_a_registry_that_refuses_a_reference_makes_no_dead_letters(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a schema that may not be read nothing is known: the driver ends, and says what to set."""
    put(registry, "weight", WEIGHT)
    put(registry, "event-value", EVENT, ("w", "weight", 1))
    call = registry.call

    def refusing(method: str, path: str, *more: Any, **named: Any) -> Any:
        if "/weight/" in path:
            raise MuteError("the registry refuses this client (403)")
        return call(method, path, *more, **named)

    monkeypatch.setattr(registry, "call", refusing)
    with pytest.raises(MuteError, match="refuses this client"):
        registry.versions("event-value")


def test_without_an_equal_version_the_job_s_schema_is_registered(registry: Registry, tmp_path: Path) -> None:
    """A default more is another schema."""
    put(registry, "event-value", {**WHOLE, "fields": WHOLE["fields"][:1]})
    job = job_of(tmp_path, "event-value")
    event_encoder(job, registry)
    assert [one.version for one in registry.versions("event-value")] == [2, 1]
    event_encoder(job, registry)
    assert len(registry.versions("event-value")) == 2


NAMES = ("a.A", "a.B", "b.A", "C")


@st.composite
def families(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Records of which each uses some that stand before it, by their full names."""
    made: list[dict[str, Any]] = []
    for name in NAMES:
        before = [one["name"] for one in made if "." in one["name"] or "." not in name]
        kinds = ["int", "string", *before]
        fields = []
        for at in range(draw(st.integers(1, 3))):
            type_: Any = draw(st.sampled_from(kinds))
            form = draw(st.integers(0, 2))
            fields.append(
                {"name": f"f{at}", "type": [type_, {"type": "array", "items": type_}, ["null", type_]][form]}
            )
        made.append({"type": "record", "name": name, "fields": fields})
    return made


@given(families(), st.randoms(use_true_random=False))
def test_one_piece_has_the_bytes_of_the_parts(family: list[dict[str, Any]], random: Any) -> None:
    """Events that Avro's library writes with the parts, it reads with the one piece; and back."""
    *others, schema = family
    parts: dict[str, Any] = {}
    for one in others:
        fastavro.parse_schema(one, parts)
    written = fastavro.parse_schema(schema, parts)
    whole = in_one_piece(schema, others)
    assert Schema.of(whole).root == schema["name"]
    row = value_of(schema["name"], {one["name"]: one for one in family}, random)
    body = io.BytesIO()
    fastavro.schemaless_writer(body, written, row)
    assert Codec(whole).decode_body(body.getvalue(), 0) == row
    assert in_one_piece(whole, ()) == whole


def value_of(kind: Any, named: dict[str, Any], random: Any) -> Any:
    if isinstance(kind, list):
        return value_of(kind[1], named, random) if random.random() < 0.5 else None
    if isinstance(kind, dict):
        return [value_of(kind["items"], named, random) for _ in range(random.randrange(3))]
    if kind in named:
        return {one["name"]: value_of(one["type"], named, random) for one in named[kind]["fields"]}
    return random.randrange(-100, 100) if kind == "int" else random.choice(["", "x", "é"])


def test_a_schema_too_deep_with_its_references_is_refused() -> None:
    """Each alone is within the bound."""
    chain = [
        {"type": "record", "name": f"R{at}", "fields": [{"name": "f", "type": f"R{at - 1}" if at else "int"}]}
        for at in range(120)
    ]
    with pytest.raises(UsageError, match="nest more than 100 types"):
        in_one_piece(chain[-1], chain[:-1])
