"""Protobuf events in Spark: every type as Google's library wrote it, and what is no event as without Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cutwater.core.events.formats import WriterSchema, confluent_header
from cutwater.core.events.protobuf.message_index import message_index
from cutwater.core.events.protobuf.records import ProtobufReader
from cutwater.core.events.rejection import Flaw
from cutwater_spark.query.formats import with_events
from support.events import messages, odd_messages
from support.events.spark_decoder import EPOCH, read, shown

pytestmark = [pytest.mark.spark, pytest.mark.slow]
HEAD, FIRST, BAD = (
    confluent_header(3) + message_index(1),
    confluent_header(4) + message_index(0),
    confluent_header(9),
)
KNOWN = (
    WriterSchema(HEAD, {}, "number 3"),
    WriterSchema(FIRST, {}, "number 4"),
    WriterSchema(BAD, {}, "number 9", "version 2 is AVRO, and it's not read"),
)


def test_events_of_every_type_are_those_that_were_written(spark: SparkSession, tmp_path: Path) -> None:
    """300 by Google's library, with two numbers and two indices."""
    job, made_of = messages.job(tmp_path), messages.message_class(messages.descriptor_set())
    made = messages.events(300, seed=21)
    values = [(HEAD, FIRST)[at % 2] + messages.serialized(one, made_of) for at, one in enumerate(made)]
    found = read(spark, job, values, KNOWN)
    assert found == [messages.read(one) for one in made]


def test_what_is_no_event_is_told_as_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Framing, number, index, damaged bytes, wrong types at every level: reason, rule and field."""
    job, made_of = messages.job(tmp_path), messages.message_class(messages.descriptor_set())
    body = messages.serialized({"key": "k", "at": EPOCH}, made_of)
    values = [*_broken(body), *_mutated(body, made_of)]
    found = read(spark, job, values, KNOWN)
    reader = ProtobufReader(job.event_schema, KNOWN)
    expected = [reader.read(one) for one in values]
    assert [shown(one) for one in found] == [shown(one) for one in expected]
    assert {one.reason for one in expected if isinstance(one, Flaw)} == {
        "no value",
        "unknown schema",
        "undecodable",
    }


def test_odd_messages_are_read_as_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Each flaw at its path; what serializers rarely write, by the rules of Protobuf."""
    job, known = messages.job(tmp_path), [KNOWN[0]]
    reader = ProtobufReader(job.event_schema, known)
    rare = [HEAD + one for one in odd_messages.RARE]
    found = read(spark, job, [*odd_messages.FLAWS, *rare], known)
    assert found == [*odd_messages.FLAWS.values(), *(reader.read(one) for one in rare)]


def test_of_two_equal_keys_of_a_map_the_last_counts(spark: SparkSession, tmp_path: Path) -> None:
    """Also for an expression: Python would make one of two entries."""
    raw = spark.createDataFrame([(bytearray(HEAD + odd_messages.PAIRS),)], "value binary")
    frame = with_events(raw, messages.job(tmp_path), [KNOWN[0]])
    assert frame.selectExpr("event.counts['k']", "cardinality(event.counts)").collect() == [(2, 1)]


def _broken(body: bytes) -> Iterator[bytes | None]:
    yield from (None, b"", HEAD[:4], HEAD[:5], HEAD[:6], b"\x01" + body, b"{}", b"\xc3\x01" + bytes(9))
    yield from (BAD + body, confluent_header(5) + body, HEAD[:5] + b"\0" + body, FIRST[:5] + b"\x02\0" + body)


def _mutated(body: bytes, made_of: Any) -> Iterator[bytes]:
    rng = random.Random(5)
    for event in messages.events(40, seed=3):
        whole = messages.serialized(event, made_of)
        for _ in range(4):
            cut = bytearray(whole[: rng.randrange(len(whole))] if rng.random() < 0.3 else whole)
            for _ in range(rng.randrange(4) if cut else 0):
                cut[rng.randrange(len(cut))] = rng.randrange(256)
            yield HEAD + bytes(cut)
