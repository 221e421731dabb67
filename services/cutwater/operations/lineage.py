"""Reads how far a milestone of a job reaches into the output of the job that it reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import Consumer

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import protocol_codec
from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import LostRecordsError, UsageError
from cutwater.core.events.formats import CONFLUENT_HEADER_BYTES, SINGLE_OBJECT_MARKER, is_confluent
from cutwater.core.job.job import Job
from cutwater.core.output.lineage import Contained, Reach, contained
from cutwater.core.output.position import End
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.records import Milestone
from cutwater.views.query.output_json import end_of

STEP = 256
"""Records below the cut that are read first; then ever more, in doubling steps."""


class Lineage(NamedTuple):
    """The milestones of the upstream that one milestone contains."""

    milestone: Milestone
    contained: Contained
    reaches: Mapping[int, Reach]
    """By partition of the output."""


def require_upstream(job: Job) -> None:
    """Raise UsageError if the job reads no other job's output."""
    if not job.upstream:
        raise UsageError(
            f"job {job.name} reads the topic {job.topic or 'of a query of your own'}, not another job's output: "
            "lineage is of jobs with source.job"
        )


def lineage_of(cluster: Cluster, job: Job, milestone: Milestone) -> Lineage:
    """Return the lineage of a milestone. Raise UsageError if the job reads no output, or if retention has deleted
    the part of it that the milestone's cut ends in; LostRecordsError if the output ends below the cut."""
    require_upstream(job)
    copies = sorted({place.topic for place, _ in milestone.source_cut} - {job.topic})
    if copies:
        raise UsageError(
            f"{milestone.token} has also read {', '.join(copies)}: lineage is of outputs in one region"
        )
    with closing(make_consumer(cluster)) as consumer:
        reaches = {
            number: _reach(consumer, job, number, milestone.source_cut.offset(TopicPartition(job.topic, number)))
            for number in range(partition_count(cluster, job.topic))
        }
    return Lineage(milestone, contained(reaches.values()), reaches)


def _reach(consumer: Consumer, job: Job, partition: int, cut: int) -> Reach:
    """Return how far the cut reaches into a partition of the job's source."""
    low, high = bounds(consumer, job.topic, partition)
    if high < cut:
        raise LostRecordsError(f"{job.topic}/{partition} ends at {high}, below the offset {cut} that was read")
    step = STEP
    while True:
        first = max(low, cut - step)
        found = _marked(consumer, job, partition, first, cut) if first < cut else _Marked()
        if found.ended or first <= low:
            break
        step *= 2
    if cut and found.ended is None and low > 0:
        raise UsageError(
            f"{job.topic}/{partition} begins at {low}, and no milestone ends between that and the offset {cut} "
            "that was read: retention has deleted it"
        )
    if not found.rows_after:
        return Reach(found.ended, found.part)
    ahead = read_range(consumer, job.topic, partition, cut)
    markers = (end_marker(job.upstream, bytes(one.value())) for one in ahead if one.key() is None)
    return Reach(found.ended, next(markers, found.part))


class _Marked(NamedTuple):
    """The last end marker below a cut, and what lies between it and the cut."""

    ended: End | None = None
    part: End | None = None
    """A later marker that ends a part of a milestone."""
    rows_after: bool = False


def _marked(consumer: Consumer, job: Job, partition: int, first: int, cut: int) -> _Marked:
    found = _Marked()
    for one in read_range(consumer, job.topic, partition, first, cut):
        if one.key() is not None:
            found = found._replace(rows_after=True)
            continue
        end = end_marker(job.upstream, bytes(one.value()))
        found = _Marked(end) if end.last else _Marked(found.ended, end)
    return found


def end_marker(job: str, value: bytes) -> End:
    """Decode an end marker of a job's output in any format. Raise UsageError for other bytes."""
    if value.startswith(SINGLE_OBJECT_MARKER):
        record = protocol_records.decode(value)
    elif is_confluent(value):
        record = protocol_records.decode(protocol_codec("end").header + value[CONFLUENT_HEADER_BYTES:])
    else:
        record = _of_json(job, value)
    if not isinstance(record, End):
        raise UsageError(f"the output of {job} contains a {type(record).__name__} in the place of an end marker")
    return record


def _of_json(job: str, value: bytes) -> End:
    try:
        return end_of(job, json.loads(value))
    except (ValueError, TypeError) as error:
        raise UsageError(f"{value[:200]!r} is not an end marker of the output of {job} ({error!r})") from None
