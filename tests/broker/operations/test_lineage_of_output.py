"""How far cuts reach into an output on a broker: every cut, against the records that a plain reader gets."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import HEADER_BYTES
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.writers.transactional_writer import Batch, TransactionalWriter
from cutwater.core.errors import LostRecordsError, UsageError
from cutwater.core.events.formats import confluent_header
from cutwater.core.output.lineage import Contained
from cutwater.core.output.position import End
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.topics import TopicSpec
from cutwater.operations import lineage
from cutwater.operations.lineage import end_marker, lineage_of
from cutwater.views.query.output_json import end_fields
from support.naming import unique
from support.protocol_samples import milestone
from support.views.changelogs import make_job

GENERATION = Generation(1, "local")
PARTS = [(1, 0, True), (2, 0, False), (2, 1, True), (3, 0, True)]
"""Sequence, part, and whether it is the last: the second milestone has two transactions."""


def encoded(end: End, kind: str) -> bytes:
    if kind == "json":
        return json.dumps(end_fields(end)).encode()
    value = protocol_records.encode(end)
    return value if kind == "avro" else confluent_header(7) + value[HEADER_BYTES:]


@pytest.mark.parametrize("kind", ["avro", "confluent", "json"])
def test_end_markers_of_each_format_are_read(kind: str) -> None:
    """By their first byte, since an output's format may have changed."""
    end = End("up", GENERATION, 3, 4, 1, True, 9, 1_000, 2_000, 3_000)
    assert end_marker("up", encoded(end, kind)) == end
    with pytest.raises(UsageError, match="end marker"):
        end_marker("up", b"neither")


@pytest.mark.slow
def test_every_cut_has_the_lineage_of_the_records_below_it(
    broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, parts, aborted rows and Kafka's own records lie between; what is above the log's end is lost."""
    monkeypatch.setattr(lineage, "STEP", 1)  # so that it looks further back
    name = unique("up")
    topic = topics.output(name)
    job = replace(make_job(tmp_path)[0], upstream=name, topic=topic)
    admin.create_topics(broker.cluster, [TopicSpec(topic, 2, ())])
    writer = TransactionalWriter(broker.cluster, f"{name}.writer")
    writer.initialise()
    for sequence, part, last in PARTS:
        ends = [End(name, GENERATION, sequence, sequence, part, last, 1, 0, 0, 0)] * 2
        rows = [Batch(topic, number, [{"key": b"k", "value": b"row"}] * (number * sequence)) for number in (0, 1)]
        marks = [Batch(topic, number, [{"value": encoded(end, "avro")}]) for number, end in enumerate(ends)]
        writer.write_all([*rows, *marks])
    consumer = make_consumer(broker.cluster)
    logs: dict[int, list[tuple[int, int]]] = {}
    heights = {}
    for number in (0, 1):
        _, heights[number] = bounds(consumer, topic, number)
        # Each record with its sequence, told by the transactions that were written.
        told = [seq for seq, _, _ in PARTS for _ in range(number * seq + 1)]
        offsets = [one.offset() for one in read_range(consumer, topic, number, 0, heights[number])]
        logs[number] = list(zip(offsets, told, strict=True))
    consumer.close()
    short = heights[0]
    for cuts in (
        pair for at in range(heights[1] + 1) for pair in ((min(at, short), at), (max(short - at, 0), at))
    ):
        below = {seq for number in (0, 1) for offset, seq in logs[number] if offset < cuts[number]}
        above = {seq for number in (0, 1) for offset, seq in logs[number] if offset >= cuts[number]}
        found = lineage_of(broker.cluster, job, milestone(0, source_cut=Cut.of_topic(topic, cuts)))
        whole, partly = max(below - above, default=0), max(below, default=0)
        assert found.contained == Contained(
            Token(GENERATION, whole) if whole else None, Token(GENERATION, partly) if partly else None
        ), cuts
    beyond = milestone(0, source_cut=Cut.of_topic(topic, [heights[0] + 1, 0]))
    with pytest.raises(LostRecordsError, match=f"{topic}/0 ends at {heights[0]}"):
        lineage_of(broker.cluster, job, beyond)
    with pytest.raises(UsageError, match="not another job's output"):
        lineage_of(broker.cluster, replace(job, upstream=""), beyond)


def test_a_job_over_a_topic_of_events_has_no_lineage(broker: Any, tmp_path: Path) -> None:
    """The verb ends with exit code 2, and says why."""
    _, file = make_job(tmp_path)
    place = ["--bootstrap-servers", broker.cluster.bootstrap, "--data-dir", str(tmp_path / "data")]
    command = [sys.executable, "-m", "cutwater.cli.main", "lineage", str(file), *place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert "not another job's output" in " ".join(done.stderr.split())
