"""JSON events behind a registry's framing: job file, numbers, reading without Spark, `produce`, drafts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.event_encoder import event_encoder, known_schemas, unreadable
from cutwater.adapters.events.registry import Registry, registry_for
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.events import json_records
from cutwater.core.events.formats import (
    CONFLUENT_JSON,
    NO_SUCH_SCHEMA,
    NOT_FRAMED,
    OTHER_FORMAT,
    WriterSchema,
    confluent_header,
)
from cutwater.core.events.framed_json import FramedJsonReader
from cutwater.core.events.json_events import EMPTY, NO_OBJECT, json_fields
from cutwater.core.events.rejection import NO_VALUE, UNDECODABLE, UNKNOWN_SCHEMA, Flaw
from cutwater.core.job.event_decoding import Decoding
from cutwater.core.job.job import Job
from cutwater.operations.event_sample import judge_records
from cutwater.operations.format_detection import detect_format, written_with
from cutwater.operations.topic_sample import Sample
from support.events import wide
from support.events.registries import StandIn

FIELDS = [
    {"name": "key", "type": "string"},
    {"name": "at", "type": wide.TYPES["seen"]},
    {"name": "n", "type": "int"},
]
SCHEMA = {"type": "record", "name": "Event", "namespace": "test", "fields": FIELDS}
STATED = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Event",
    "type": "object",
    "properties": {"key": {"type": "string"}, "at": {"type": "integer"}, "n": {"type": "integer"}},
}
ROW = {"key": "größe", "at": 1_700_000_000_000, "n": 3}
GOLDEN = b'\0\0\0\0\x01{"key":"gr\xc3\xb6\xc3\x9fe","at":1700000000000,"n":3}'
"""ROW as confluent-kafka 2.16.1's JSONSerializer writes it with STATED, whose number is 1."""
SUBJECT = "wide.events-value"


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with StandIn().running() as registry:
        yield registry


def job_of(folder: Path, more: str = "") -> Job:
    return wide.job(folder, SCHEMA, f"format: confluent-json{more}")


def put(at: StandIn, schema: Any, kind: str = "JSON", subject: str = SUBJECT) -> int:
    with Registry(at.url) as registry:
        body = {"schema": json.dumps(schema), "schemaType": kind}
        return int(registry.call("POST", f"/subjects/{subject}/versions", subject, None, body)["id"])


def judged(job: Job, known: tuple[WriterSchema, ...], *values: bytes | None) -> list[Any]:
    samples = [Sample(0, at, 1_700_000_000_000, None, one, 0) for at, one in enumerate(values)]
    return [found for _, found in judge_records(job, samples, known)]


def test_events_of_confluent_s_serializer_are_read_and_written(stand_in: StandIn, tmp_path: Path) -> None:
    """By each version's number; `produce` writes with the newest, and registers nothing."""
    job = job_of(tmp_path, f", registry: '{stand_in.url}'")
    numbers = [put(stand_in, STATED), put(stand_in, {**STATED, "title": "Later"})]
    registry = registry_for(job, Settings())
    assert registry is not None
    with registry:
        known = known_schemas(job, registry)
        ours = event_encoder(job, registry)(ROW)
    assert [one.header for one in known] == [confluent_header(one) for one in reversed(numbers)]
    assert unreadable(job, known) == []
    event = {**ROW, "at": ROW["at"] * 1_000}
    assert judged(job, known, GOLDEN, ours) == [event, event]
    assert ours[:5] == confluent_header(numbers[1])
    assert len(stand_in._subjects[SUBJECT]) == 2
    assert Decoding.parse(Decoding.of(job, known).text).known == known


def test_what_is_no_event_has_a_reason(stand_in: StandIn, tmp_path: Path) -> None:
    """Numbers of another subject or of a schema in Avro, other formats, an empty body, no value."""
    job = job_of(tmp_path)
    avro = put(stand_in, SCHEMA, "AVRO")
    own, other = put(stand_in, STATED), put(stand_in, {**STATED, "title": "Other"}, subject="other")
    with Registry(stand_in.url) as registry:
        known = known_schemas(job, registry)
    (line,) = unreadable(job, known)
    assert line.endswith(
        "is AVRO, and source.format reads JSON: set source.format: confluent; all of its events are rejected"
    )
    body, head = GOLDEN[5:], confluent_header(own)
    flaws = {
        confluent_header(other) + body: Flaw(UNKNOWN_SCHEMA, NO_SUCH_SCHEMA),
        confluent_header(avro) + body: Flaw(UNDECODABLE, known[1].problem),
        body: Flaw(UNDECODABLE, OTHER_FORMAT.format("json", CONFLUENT_JSON)),
        b"\xc3\x01" + bytes(9): Flaw(UNDECODABLE, OTHER_FORMAT.format("avro", CONFLUENT_JSON)),
        head[:4]: Flaw(UNDECODABLE, NOT_FRAMED.format(CONFLUENT_JSON)),
        b"": Flaw(UNDECODABLE, NOT_FRAMED.format(CONFLUENT_JSON)),
        head: Flaw(UNDECODABLE, EMPTY),
        head + head + body: Flaw(UNDECODABLE, NO_OBJECT),
    }
    assert judged(job, known, *flaws) == list(flaws.values())
    assert [one.reason for one in judged(job, known, None)] == [NO_VALUE]


def test_a_subject_without_json_schema_is_named(stand_in: StandIn, tmp_path: Path) -> None:
    """Missing, or of another kind: what to do, which is never to register the job's Avro."""
    job = job_of(tmp_path)
    with Registry(stand_in.url) as registry:
        for ask in (known_schemas, event_encoder):
            with pytest.raises(
                UsageError, match=f"no subject {SUBJECT}: .* the JSON Schema of the events under it"
            ):
                ask(job, registry)
        put(stand_in, SCHEMA, "AVRO")
        for ask in (known_schemas, event_encoder):
            with pytest.raises(
                UsageError, match=f"version 1 of {SUBJECT} at .* is AVRO.*set source.format: confluent"
            ):
                ask(job, registry)
    with pytest.raises(UsageError, match="format confluent-json need a schema registry"):
        known_schemas(job, None)
    with pytest.raises(UsageError, match=r"source\.format confluent-json needs it: set registry\.url"):
        registry_for(job, Settings())


def test_a_job_in_avro_says_which_format_reads_json_schema(stand_in: StandIn, tmp_path: Path) -> None:
    put(stand_in, STATED)
    job = wide.job(tmp_path, SCHEMA, "format: confluent")
    with (
        Registry(stand_in.url) as registry,
        pytest.raises(UsageError, match=r"set source\.format: confluent-json"),
    ):
        known_schemas(job, registry)


def test_the_schema_of_a_job_file_is_as_for_json(tmp_path: Path) -> None:
    """Its subject is the topic's; types that JSON has not are refused when the file is read."""
    assert job_of(tmp_path).format.subject == SUBJECT
    union = {**SCHEMA, "fields": [*FIELDS, {"name": "u", "type": ["int", "string"]}]}
    with pytest.raises(UsageError, match="field 'u' is a union"):
        wide.job(tmp_path, union, "format: confluent-json")


def test_a_topic_of_such_events_is_drafted(tmp_path: Path) -> None:
    """The schema is inferred as for JSON; without asking a registry, each number in the sample counts."""
    values = [
        confluent_header(at % 2 + 7) + json.dumps({**ROW, "key": f"k{at % 3}", "n": at}).encode()
        for at in range(50)
    ]
    samples = [Sample(0, at, 1_700_000_000_000, None, one, len(one)) for at, one in enumerate(values)]
    stranger = Sample(0, 99, 1_700_000_000_000, None, b'{"key": "k"}', 12)
    found = detect_format([*samples, stranger], "orders", None, ())
    assert (found.format, len(found.rows), found.unreadable, found.schema) == (CONFLUENT_JSON, 50, 1, None)
    job = job_of(tmp_path)
    assert {one.header for one in written_with(job, samples)} == {confluent_header(7), confluent_header(8)}
    read = judged(job, written_with(job, samples), *values)
    assert [one["n"] for one in read] == list(range(50))


@given(
    st.binary(max_size=30)
    | st.builds(lambda one: json.dumps(one).encode(), st.dictionaries(st.text(), st.integers()))
)
def test_behind_the_framing_json_is_read_as_without(body: bytes) -> None:
    """Whatever the bytes are; another format's first bytes mean nothing there."""
    fields = json_fields(SCHEMA)
    known = [WriterSchema(confluent_header(1), {}, "1")]
    mine = FramedJsonReader(SCHEMA, known).read(confluent_header(1) + body)
    plain = json_records.read(body, fields)
    if isinstance(plain, Flaw) and ("source.format" in plain.rule):
        assert isinstance(mine, Flaw)
        assert mine.reason == UNDECODABLE
    else:
        assert mine == plain


def test_a_job_file_s_other_formats_stay(tmp_path: Path) -> None:
    """`output` and `changelog` have no such framing."""
    path = job_file(tmp_path, "output: {format: confluent-json}\n")
    with pytest.raises(UsageError, match=r"output\.format"):
        load_job(path)


def job_file(folder: Path, more: str) -> Path:
    (folder / "event.avsc").write_text(json.dumps(SCHEMA), encoding="utf-8")
    (folder / "job.yaml").write_text(wide.job_text("wide", "format: confluent-json") + more, encoding="utf-8")
    return folder / "job.yaml"
