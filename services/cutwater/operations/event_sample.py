"""A sample of a job's source topic as the driver would judge it, for `core.checks.event_sample`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cutwater.adapters.events.avro_events import AvroReader
from cutwater.adapters.events.event_encoder import known_schemas
from cutwater.adapters.events.registry import Registry
from cutwater.adapters.job_files.event_schema import field_types
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.checks.event_sample import SampledEvent
from cutwater.core.errors import UsageError
from cutwater.core.events import json_records
from cutwater.core.events.formats import CONFLUENT_JSON, CONFLUENT_PROTOBUF, JSON, WriterSchema
from cutwater.core.events.framed_json import FramedJsonReader
from cutwater.core.events.json_events import json_fields
from cutwater.core.events.protobuf.records import ProtobufReader
from cutwater.core.events.rejection import Flaw
from cutwater.core.job.field_paths import column_paths
from cutwater.core.job.job import Job
from cutwater.core.job.usable_events import find_flaw, too_large, with_columns
from cutwater.operations.topic_sample import BYTES_MAX, Sample, sample

EVENTS_MAX = 50_000
ROWS_MAX = 1_000_000
"""An event has several rows in the sliding windows of a query of one's own: fewer events are sampled."""
FIRST = 100
"""Records for the mean size, which sets the sample's size so that the byte limit cuts off no partition."""


def sample_events(cluster: Cluster, job: Job, registry: Registry | None) -> list[SampledEvent]:
    """Return the newest usable events of the job, equally from each partition. At most 50,000, 32 MB and 60 s.
    Empty if none can be read, or only by Spark: the job reads another's output, or has expressions other than
    paths. Raises UsageError if the topic does not exist."""
    if column_paths(job) is None or job.upstream:
        return []
    first = sample(cluster, job.topic, FIRST)
    if not first:
        return []
    mean = max(sum(one.size for one in first) / len(first), 1.0)
    most = min(EVENTS_MAX, ROWS_MAX // job.row_windows.per_event_max, int(BYTES_MAX / 2 / mean))
    return decode_events(job, sample(cluster, job.topic, max(most, FIRST)), registry)


def decode_events(job: Job, samples: Sequence[Sample], registry: Registry | None) -> list[SampledEvent]:
    """Return the records that the driver would accept as events of the job."""
    return [
        SampledEvent(one.partition, event[job.time_field] // 1_000, job.key_of(event), one.size, event)
        for one, event in judge_records(job, samples, known_schemas(job, registry))
        if not isinstance(event, Flaw)
    ]


def judge_records(
    job: Job, samples: Sequence[Sample], known: Sequence[WriterSchema]
) -> Iterator[tuple[Sample, dict[str, Any] | Flaw]]:
    """Yield each record with its event and columns, times in microseconds, or with the reason why the driver would
    reject it. `known`: the schemas of the writers; plain JSON needs none.

    Raises UsageError if the job has other expressions than paths, which Spark alone evaluates.
    """
    paths = column_paths(job)
    if paths is None:
        raise UsageError(f"job {job.name}: only Spark tells which of its records are events")
    read = _reader(job, known)
    types = {**field_types(job.event_schema), **job.column_types}
    for one in samples:
        found: dict[str, Any] | Flaw | None = too_large(job, one.value)
        if found is None:
            found = read(one.value)
        if not isinstance(found, Flaw):
            found = with_columns(found, paths)
        if not isinstance(found, Flaw):
            found = find_flaw(job, types, found, one.timestamp_ms) or found
        yield one, found


def _reader(job: Job, known: Sequence[WriterSchema]) -> Callable[[bytes | None], dict[str, Any] | Flaw]:
    if job.format.kind == CONFLUENT_JSON:
        return FramedJsonReader(job.event_schema, known).read
    if job.format.kind == CONFLUENT_PROTOBUF:
        return ProtobufReader(job.event_schema, known).read
    if job.format.kind == JSON:
        fields = json_fields(job.event_schema)
        return lambda value: json_records.read(value, fields)
    return AvroReader(job.format.kind, job.event_schema, known).read
