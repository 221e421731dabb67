"""A sample of a job's source topic, decoded: what `core.event_sample` counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cutwater.adapters.avro import Codec
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.eventschemas import known_schemas
from cutwater.adapters.registry import Registry
from cutwater.adapters.sampling import BYTES_MAX, Sample, sample
from cutwater.core.errors import UsageError
from cutwater.core.event_sample import SampledEvent
from cutwater.core.formats import JSON
from cutwater.core.inference import parse_event, time_ms
from cutwater.core.job import Job

EVENTS_MAX = 50_000
ROWS_MAX = 1_000_000
"""Of sliding windows an event makes several rows: fewer events are taken then."""
FIRST = 100
"""How many tell the size of all: partitions must be sampled alike, so the bound on bytes may not end it."""


def sample_events(cluster: Cluster, job: Job, registry: Registry | None) -> list[SampledEvent]:
    """The newest events that can be read, of each partition alike.

    At most 50,000, 32 MB and 60 s. Empty where none can be read. Raises UsageError when the topic does not exist.
    """
    first = sample(cluster, job.topic, FIRST)
    if not first:
        return []
    mean = max(sum(one.size for one in first) / len(first), 1.0)
    most = min(EVENTS_MAX, ROWS_MAX // job.window.per_event_max, int(BYTES_MAX / 2 / mean))
    return decoded(job, sample(cluster, job.topic, max(most, FIRST)), registry)


def decoded(job: Job, samples: Sequence[Sample], registry: Registry | None) -> list[SampledEvent]:
    """Those of the records that are events of the job, with key and event time."""
    decode = _decoder(job, registry)
    kind = "timestamp-micros" if job.time_micros else "timestamp-millis"
    found = []
    for one in samples:
        event = decode(one.value) if one.value else None
        at = time_ms(event.get(job.time_field), kind) if event else None
        if event and at is not None and isinstance(event.get(job.key_field), str):
            found.append(SampledEvent(one.partition, at, event[job.key_field], one.size, event))
    return found


def _decoder(job: Job, registry: Registry | None) -> Callable[[bytes], dict[str, Any] | None]:
    if job.format.kind == JSON:
        return parse_event
    codecs = {one.header: Codec(one.schema) for one in known_schemas(job, registry)}

    def decode(value: bytes) -> dict[str, Any] | None:
        for header, codec in codecs.items():
            if value.startswith(header):
                try:
                    return codec.decode_body(value, len(header))
                except UsageError:
                    return None
        return None

    return decode
