"""Random Protobuf types in Spark: read as by Google's library; what is damaged is told as without Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cutwater.core.events.formats import WriterSchema, confluent_header
from cutwater.core.events.protobuf.message_index import message_index
from cutwater.core.events.protobuf.records import ProtobufReader
from cutwater.core.events.rejection import Flaw
from support.events import messages
from support.events.random_messages import random_file, random_message
from support.events.spark_decoder import read, shown

pytestmark = [pytest.mark.spark, pytest.mark.slow]
HEAD = confluent_header(3) + message_index(7)
KNOWN = [WriterSchema(HEAD, {}, "number 3")]


@pytest.mark.parametrize("seed", range(8))
def test_a_random_type_is_read_as_by_google_s_library(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """As deep as they may be, with proto2's required fields: 60 messages, and as many that are damaged."""
    rng = random.Random(seed)
    descriptor = messages.descriptor_set(random_file(rng, ("proto3", "proto2")[seed % 2]))
    job, made_of = messages.job(tmp_path, descriptor=descriptor), messages.message_class(descriptor)
    bodies = [random_message(made_of, rng).SerializeToString() for _ in range(60)]
    damaged = list(_damaged(bodies, rng))
    found = read(spark, job, [HEAD + one for one in [*bodies, *damaged]], KNOWN)
    expected = [messages.of_message(made_of.FromString(one)) for one in bodies]
    reader = ProtobufReader(job.event_schema, KNOWN)
    expected += [reader.read(HEAD + one) for one in damaged]
    assert [shown(one) for one in found] == [shown(one) for one in expected]
    assert any(isinstance(one, Flaw) for one in found)


def _damaged(bodies: list[bytes], rng: random.Random) -> Iterator[bytes]:
    for body in bodies:
        cut = bytearray(body)
        for _ in range(rng.randrange(1, 4)):
            cut[rng.randrange(len(cut))] = rng.randrange(256)
        yield bytes(cut[: rng.randrange(len(cut))] if rng.random() < 0.2 else cut)
