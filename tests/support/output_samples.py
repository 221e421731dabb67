"""Of docs/FORMAT.md: the example job, its end marker, the publisher's position, a start on the trail, an alert."""

from __future__ import annotations

import json
from pathlib import Path

from cutwater.adapters.job_files.loader import load_job
from cutwater.core.access.audit_log import Argument, AuditRecord
from cutwater.core.job.job import Job
from cutwater.core.monitoring.alerts import Alert
from cutwater.core.output.position import End, Published
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.log_evidence import TopicEvidence
from cutwater.core.protocol.recovery_log import RUNNING, Fact, Recovery, Took
from cutwater.core.skew.spread_plan import Adoption, Spread, SpreadKey

_WHEN = 1_700_000_000_000
_EVENT = {
    "type": "record",
    "name": "Movement",
    "fields": [
        {"name": "airport", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "delay", "type": ["null", "int"], "default": None},
    ],
}
_JOB = """
job: example
source: {topic: example.events, schema: movement.avsc, key: airport, event_time: at}
window: {kind: tumbling, size: 1h}
lateness: 1h
retention: 24h
measures:
  movements: {measure: count}
  worst_delay: {measure: max, field: delay}
"""


def example_job(folder: Path) -> Job:
    """The job whose state the golden rows of the changelog are."""
    (folder / "movement.avsc").write_text(json.dumps(_EVENT))
    (folder / "example.yaml").write_text(_JOB)
    return load_job(folder / "example.yaml")


def golden_end() -> End:
    """The end of milestone 8 in a partition that holds two rows of it."""
    return End(
        job="flights",
        generation=Generation(1, "local"),
        first_sequence=8,
        sequence=8,
        part=0,
        last=True,
        rows=2,
        watermark_ms=1_357_002_000_000,
        committed_ms=_WHEN + 310,
        published_ms=_WHEN + 350,
    )


def golden_alert() -> Alert:
    """An epoch that was stuck for a minute."""
    return Alert(
        job="flights",
        generation=Generation(1, "local"),
        kind="stuck-epoch",
        part="driver",
        told_by="watch",
        raised_ms=_WHEN + 120_500,
        resolved_ms=_WHEN + 180_000,
        sequence=8,
        value=120_250,
        text="epoch 8 is written",
    )


def golden_spread() -> Spread:
    """The third version of a plan, with two keys."""
    keys = SpreadKey("EWR", (0, 3), 3), SpreadKey("JFK", (0, 1, 2), 1)
    return Spread("flights", 3, 4, keys, "ops@host:4711", "holidays", _WHEN)


def golden_adoption() -> Adoption:
    """A producer that works with it."""
    return Adoption("flights", "app@host:4712-0badcafe", 3, _WHEN + 250)


def golden_published(milestone: bytes) -> Published:
    """Milestone 8 is published whole, and the first part of milestone 9."""
    return Published(
        job="flights",
        generation=Generation(1, "local"),
        milestone=milestone,
        stream_offset=15,
        target=9,
        parts=1,
        progress=Cut.of_topic("flights.changelog.g1-local-00000000", [60, 0, 300, 1]),
        rows=(20, 0, 0, 0),
        form="updates avro",
        output_cut=Cut.of_topic("flights.output", [70, 12, 9, 31]),
        evidence=(TopicEvidence("flights.output", "sV5b1n0TQ8m4f0uGk3q2Lw", (0, 0, 3, 0)),),
    )


def golden_audit() -> AuditRecord:
    """The outcome of a promotion."""
    return AuditRecord(
        id="0123456789abcdef0123456789abcdef",
        job="flights",
        actor="alice",
        role="owner",
        via="cli",
        process="ubuntu@node-1:4711",
        action="generation promote",
        object="g2-local-5f0c21aa",
        arguments=(Argument("wait", "60"),),
        begun_ms=_WHEN,
        written_ms=_WHEN + 240,
        outcome="done",
        detail="its promotion is requested",
    )


def golden_recovery() -> Recovery:
    """A driver's second start, which runs epoch 7 again."""
    return Recovery(
        job="flights",
        generation=Generation(1, "local"),
        service="driver",
        process="node-1:4711",
        attempt=2,
        begun_ms=_WHEN,
        outcome=RUNNING,
        decision="run epoch 7 again as attempt 2",
        found=(Fact("planned", "7"), Fact("committed", "6")),
        steps=(Took("starting Spark", 4_200), Took("fencing older drivers", 31)),
    )
