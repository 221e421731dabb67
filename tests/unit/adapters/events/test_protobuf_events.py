"""Protobuf events behind a registry's framing: job file, numbers, messages, reading without Spark, `produce`."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.events.event_encoder import event_encoder, known_schemas, unreadable
from cutwater.adapters.events.registry import Registry, registry_at
from cutwater.adapters.job_files.loader import load_job
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import NO_SUCH_SCHEMA, NOT_FRAMED, OTHER_FORMAT, WriterSchema, confluent_header
from cutwater.core.events.protobuf.fields import OTHER_MESSAGE
from cutwater.core.events.protobuf.message_index import message_index
from cutwater.core.events.rejection import NO_EVENT_TIME, NO_KEY, NO_VALUE, UNDECODABLE, UNKNOWN_SCHEMA, Flaw
from cutwater.core.job.event_decoding import Decoding
from cutwater.core.job.job import Job
from cutwater.operations.event_sample import judge_records
from cutwater.operations.format_detection import detect_format
from cutwater.operations.topic_sample import Sample
from support.events import messages
from support.events.registries import StandIn

EVENT = {"key": "größe", "at": "2023-11-14T22:13:20Z", "int32": -3, "int64_list": [1, 300], "item": {"sku": "a"}}
GOLDEN = (
    b"\0\0\0\0\x01\x02\x02\n\x07gr\xc3\xb6\xc3\x9fe\x12\x06\x08\x80\xe2\xcf\xaa\x06P\xfd\xff\xff\xff\xff\xff\xff\xff"
    b"\xff\x01\x92\x03\x03\n\x01a\x9a\r\x03\x01\xac\x02"
)
"""EVENT as confluent-kafka 2.16.1's ProtobufSerializer writes it; it registers the descriptor, with number 1."""
SUBJECT = "wide.events-value"
PLAIN = messages.PROTO.replace("message Other {", "message Order { string key = 1; }\nmessage Other {", 1)


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    with StandIn().running() as registry:
        yield registry


def put(at: StandIn, text: str, kind: str = "PROTOBUF", subject: str = SUBJECT) -> int:
    with Registry(at.url) as registry:
        body = {"schema": text, "schemaType": kind}
        return int(registry.call("POST", f"/subjects/{subject}/versions", subject, None, body)["id"])


def judged(job: Job, known: tuple[WriterSchema, ...], *values: bytes | None) -> list[Any]:
    samples = [Sample(0, at, 1_700_000_000_000, None, one, 0) for at, one in enumerate(values)]
    return [found for _, found in judge_records(job, samples, known)]


def test_events_of_confluent_s_serializer_are_read_and_written(stand_in: StandIn, tmp_path: Path) -> None:
    """By each version's number and its own index of the message; `produce` writes with the newest."""
    job = messages.job(tmp_path, f", registry: '{stand_in.url}'")
    encoded = base64.b64encode(messages.file().SerializeToString()).decode()
    numbers = [put(stand_in, encoded), put(stand_in, PLAIN)]
    with registry_at(job, Settings()) as registry:
        known = known_schemas(job, registry)
        ours = event_encoder(job, registry)(EVENT)
    heads = [confluent_header(numbers[1]) + b"\0", confluent_header(numbers[0]) + b"\2\2"]
    assert [one.header for one in known] == heads
    assert unreadable(job, known) == []
    assert ours == heads[0] + GOLDEN[7:]
    first, second, third = judged(job, known, GOLDEN, ours, ours[:5] + b"\2\0" + ours[6:])
    assert first == second == third
    assert {name: first[name] for name in ("key", "at", "int32", "int64_list", "bool")} == {
        "key": "größe",
        "at": 1_700_000_000_000_000,
        "int32": -3,
        "int64_list": [1, 300],
        "bool": False,
    }
    assert len(stand_in._subjects[SUBJECT]) == 2
    kept = Decoding.parse(Decoding.of(job, known).text)
    assert kept.known == known
    assert judged(kept.applied(job), kept.known, GOLDEN) == [first]


def test_what_is_no_event_has_a_reason(stand_in: StandIn, tmp_path: Path) -> None:
    """Numbers of another subject, versions without the message, other formats and messages, no key, no value."""
    job = messages.job(tmp_path)
    avro = put(stand_in, '"string"', "AVRO")
    without = put(stand_in, 'syntax = "proto3"; package shop; message Other { message Order {} }')
    damaged, own = put(stand_in, "AAAA"), put(stand_in, messages.PROTO)
    other = put(stand_in, PLAIN, subject="other")
    with Registry(stand_in.url) as registry:
        known = known_schemas(job, registry)
    lines = unreadable(job, known)
    assert [one.partition(": ")[2] for one in lines] == [
        f"version 3 of {SUBJECT} is no .proto, and no descriptor of one; all of its events are rejected",
        f"version 2 of {SUBJECT} has no message shop.Order; it has: shop.Other; all of its events are rejected",
        f"version 1 of {SUBJECT} at {stand_in.url} is AVRO, and source.format reads PROTOBUF: set source.format: "
        "confluent; all of its events are rejected",
    ]
    body, head = GOLDEN[7:], confluent_header(own)
    problems = {one.header: one.problem for one in known}
    flaws = {
        confluent_header(other) + b"\0" + body: Flaw(UNKNOWN_SCHEMA, NO_SUCH_SCHEMA),
        **{
            confluent_header(one) + b"\0" + body: Flaw(UNDECODABLE, problems[confluent_header(one)])
            for one in (avro, without, damaged)
        },
        head + b"\0" + body: Flaw(UNDECODABLE, OTHER_MESSAGE),
        head: Flaw(UNDECODABLE, OTHER_MESSAGE),
        b'{"key": 1}': Flaw(UNDECODABLE, OTHER_FORMAT.format("json", "confluent-protobuf")),
        b"\xc3\x01" + bytes(9): Flaw(UNDECODABLE, OTHER_FORMAT.format("avro", "confluent-protobuf")),
        body: Flaw(UNDECODABLE, NOT_FRAMED.format("confluent-protobuf")),
        head + b"\2\2": Flaw(NO_EVENT_TIME, "is null", "at"),
    }
    assert dict(zip(flaws, judged(job, known, *flaws), strict=True)) == flaws
    assert judged(job, known, None)[0].reason == NO_VALUE


def test_a_key_that_may_be_null_is_a_dead_letter(tmp_path: Path) -> None:
    """Fields without presence read as their default, those with presence as null."""
    file = messages.file()
    file.message_type[1].field[0].proto3_optional = True
    file.message_type[1].field[0].oneof_index = len(file.message_type[1].oneof_decl)
    file.message_type[1].oneof_decl.add(name="_key")
    job = messages.job(tmp_path, descriptor=messages.descriptor_set(file))
    known = (WriterSchema(confluent_header(1) + message_index(1), {}, "number 1"),)
    assert judged(job, known, known[0].header) == [Flaw(NO_KEY, "is null", "key")]


def test_nothing_is_read_or_written_without_a_registry(stand_in: StandIn, tmp_path: Path) -> None:
    job = messages.job(tmp_path, f", registry: '{stand_in.url}'")
    with pytest.raises(UsageError, match="format confluent-protobuf need a schema registry"):
        event_encoder(job, None)
    with (
        registry_at(job, Settings()) as registry,
        pytest.raises(
            UsageError, match=r"or register the \.proto of the events under it; Cutwater registers none"
        ),
    ):
        event_encoder(job, registry)
    put(stand_in, 'syntax = "proto3"; message Other {}')
    with (
        registry_at(job, Settings()) as registry,
        pytest.raises(UsageError, match=r"version 1 .* has no message shop\.Order; it has: Other"),
    ):
        known_schemas(job, registry)


def test_the_message_is_named_in_the_job_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"source\.schema: event\.desc has no message 'shop\.Oder'"):
        messages.job(tmp_path, name="shop.Oder")
    with pytest.raises(UsageError, match=r"source\.message: is required by the format confluent-protobuf"):
        messages.job(tmp_path, name="''")
    text = (tmp_path / "job.yaml").read_text(encoding="utf-8").replace("confluent-protobuf, message: ''", "avro")
    (tmp_path / "job.yaml").write_text(text.replace("avro", "json, message: a.B"), encoding="utf-8")
    with pytest.raises(
        UsageError, match=r"source\.message: belongs to the format confluent-protobuf; this one is"
    ):
        load_job(tmp_path / "job.yaml")


def test_init_says_what_it_needs_for_such_a_topic() -> None:
    samples = [Sample(0, 0, 1_700_000_000_000, None, GOLDEN, 0)]
    needed = r"--schema FILE; if the events are Protobuf, give a \.proto or a descriptor file .* --message NAME"
    with pytest.raises(UsageError, match=needed):
        detect_format(samples, "orders", None, ())
