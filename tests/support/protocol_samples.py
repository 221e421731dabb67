"""Records of the protocol as tests need them: one function a record, every field with a quiet default."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from cutwater.core.monitoring.alerts import Alert
from cutwater.core.output.position import End, Published
from cutwater.core.protocol.chain import ROOT_HASH, link
from cutwater.core.protocol.commit import SignalState, step
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.log_evidence import TopicEvidence
from cutwater.core.protocol.mirror_records import Arrival, Mirrored, Renewal, Steering
from cutwater.core.protocol.records import (
    Barrier,
    Canary,
    Claim,
    Committed,
    Comparison,
    Decision,
    DifferingRow,
    FileText,
    Heartbeat,
    Hold,
    Milestone,
    Promotion,
    Redefinition,
    Release,
    Reopening,
    Schedule,
    Signal,
    Start,
    StreamRecord,
    Withdrawal,
)
from cutwater.core.skew.spread_plan import Adoption, Spread, SpreadKey

JOB = "flights"
GENERATION = Generation(1, "local")
OTHER = Generation(2, "local", "0badcafe")
ROWS_PER_EPOCH = 10


def hash_of(milestone: Milestone) -> bytes:
    """A stand-in for the hash of the wire bytes: the core is told how to hash, so it needs no Avro."""
    return link(repr(milestone).encode())


def source_cut(epoch: int) -> Cut:
    return Cut.of_topic("flights.events", [100 * (epoch + 1), 90 * (epoch + 1)])


def start(attempt: int, **changes: Any) -> Start:
    return Start(**{"job": JOB, "generation": GENERATION, "attempt": attempt, "at_ms": 1_000, **changes})


def barrier(epoch: int, attempt: int = 1, **changes: Any) -> Barrier:
    """Barrier N reads what N always reads; its changelog cut grows with the attempt, as in a replay."""
    written = ROWS_PER_EPOCH * (epoch + attempt)
    defaults: dict[str, Any] = {
        "job": JOB,
        "generation": GENERATION,
        "attempt": attempt,
        "epoch": epoch,
        "source_cut": source_cut(epoch),
        "changelog_cut": Cut.of_topic(f"flights.changelog.{GENERATION}", [written, written]),
        "watermark_ms": 3_600_000 * epoch,
        "horizon_ms": 0,
        "rows": ROWS_PER_EPOCH,
        "digest": 7_919 * (epoch + 1),
        "events": 190,
        "rejected": 1,
        "no_value": 0,
        "late": 2,
        "skew_ms": 1_000,
        "schema_fingerprint": "00112233aabbccdd",
        "definition": "ddccbbaa33221100",
        "epoch_started_ms": 10_000 + epoch,
        "written_ms": 20_000 + epoch,
        "tombstones": 3,
        "collected": (5 * epoch, 0),
    }
    return Barrier(**_parts(defaults | changes))


def _parts(record: dict[str, Any]) -> dict[str, Any]:
    """The same with its rows and digest by partition."""
    parts = {"partition_rows": (record["rows"], 0), "partition_digests": (record["digest"] ^ 5, 5)}
    return record | parts


def committed(epoch: int, attempt: int = 1, **changes: Any) -> Committed:
    record: dict[str, Any] = {
        "job": JOB,
        "generation": GENERATION,
        "attempt": attempt,
        "epoch": epoch,
        "at_ms": 30_000 + epoch,
    }
    return Committed(**record | changes)


def heartbeat(epoch: int, at_ms: int, attempt: int = 1, **changes: Any) -> Heartbeat:
    record: dict[str, Any] = {
        "job": JOB,
        "generation": GENERATION,
        "attempt": attempt,
        "epoch": epoch,
        "at_ms": at_ms,
    }
    return Heartbeat(**record | changes)


def milestone(epoch: int, parent: Milestone | None = None, **changes: Any) -> Milestone:
    """The milestone of epoch N after `parent`, chained by `hash_of`."""
    told = barrier(epoch)
    record = dict(vars(told)) | {
        "sequence": parent.sequence + 1 if parent else 1,
        "parent_hash": hash_of(parent) if parent else ROOT_HASH,
        "barriers_position": 2 * epoch + 1,
        "committed_ms": 40_000 + epoch,
    }
    return Milestone(**_parts(record | changes))


NOW = 99_000
FRESH = SignalState(JOB, GENERATION)


def run(*signals: Signal, state: SignalState = FRESH, at: int = 0) -> tuple[SignalState, list[StreamRecord]]:
    """Feed signals from offset `at` on; transaction markers take every second offset."""
    written: list[StreamRecord] = []
    for number, signal in enumerate(signals):
        state, records = step(state, signal, at + 2 * number, NOW, hash_of)
        written += records
    return state, written


def told(records: list[StreamRecord]) -> list[tuple[int, int, int]]:
    """(sequence, epoch, attempt) of each milestone."""
    return [(one.sequence, one.epoch, one.attempt) for one in records if isinstance(one, Milestone)]


LONGS = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.integers(0, 2**63 - 1)
# What Python's datetime can hold, in which Avro's timestamps are decoded.
TIMES_MS = st.integers(-62_135_596_800_000, 253_402_300_799_999)
NAMES = st.text(max_size=20)
GENERATIONS = st.builds(
    Generation,
    st.integers(1, 999_999_999),
    st.from_regex(r"[a-z][a-z0-9]{0,15}", fullmatch=True),
    st.from_regex(r"[0-9a-f]{8}", fullmatch=True),
)
PLACES = st.builds(TopicPartition, NAMES, st.integers(0, 2**31 - 1))
CUTS = st.dictionaries(PLACES, COUNTS, max_size=4).map(Cut.of)
EPOCHS = st.lists(st.integers(-1, 2**31 - 1), max_size=4).map(tuple)
EVIDENCE = st.lists(st.builds(TopicEvidence, NAMES, NAMES, EPOCHS), max_size=3).map(tuple)
WRITTEN = {
    "job": NAMES,
    "generation": GENERATIONS,
    "attempt": st.integers(1, 2**31 - 1),
}
TOLD = {
    **WRITTEN,
    "epoch": LONGS,
    "source_cut": CUTS,
    "changelog_cut": CUTS,
    "origin_cut": CUTS,
    "evidence": EVIDENCE,
    "watermark_ms": TIMES_MS,
    "horizon_ms": TIMES_MS,
    "rows": LONGS,
    "digest": LONGS,
    "events": LONGS,
    "rejected": LONGS,
    "no_value": LONGS,
    "late": LONGS,
    "skew_ms": LONGS,
    "schema_fingerprint": NAMES,
    "definition": NAMES,
    "epoch_started_ms": TIMES_MS,
    "written_ms": TIMES_MS,
    "tombstones": LONGS,
    "collected": st.lists(LONGS, max_size=4).map(tuple),
}
RECORDS = st.one_of(
    st.builds(Start, **WRITTEN, at_ms=TIMES_MS),
    st.builds(Committed, **WRITTEN, epoch=LONGS, at_ms=TIMES_MS),
    st.builds(Heartbeat, **WRITTEN, epoch=LONGS, at_ms=TIMES_MS),
    st.builds(Barrier, **TOLD),
    st.builds(
        Milestone,
        **TOLD,
        sequence=LONGS,
        parent_hash=st.binary(min_size=32, max_size=32),
        barriers_position=LONGS,
        committed_ms=TIMES_MS,
        rewinds_to=LONGS,
    ),
    st.builds(Release, job=NAMES, generation=GENERATIONS, sequence=LONGS, to=NAMES, at_ms=TIMES_MS),
    st.builds(Promotion, job=NAMES, generation=GENERATIONS, at_ms=TIMES_MS),
    st.builds(Reopening, job=NAMES, generation=GENERATIONS, floor_ms=TIMES_MS, source_cut=CUTS, at_ms=TIMES_MS),
    st.builds(
        Redefinition,
        job=NAMES,
        generation=GENERATIONS,
        definition=NAMES,
        files=st.lists(st.builds(FileText, NAMES, NAMES), max_size=3).map(tuple),
        complete_from_ms=TIMES_MS,
        at_ms=TIMES_MS,
    ),
    st.builds(Hold, job=NAMES, generation=GENERATIONS, until_ms=TIMES_MS, by=NAMES, reason=NAMES, at_ms=TIMES_MS),
    st.builds(
        Canary,
        job=NAMES,
        generation=GENERATIONS,
        milestones=LONGS,
        differences=LONGS,
        tolerance=st.floats(0, 1),
        keep_ms=LONGS,
        at_ms=TIMES_MS,
    ),
    st.builds(
        Comparison,
        job=NAMES,
        generation=GENERATIONS,
        **{name: LONGS for name in ("epoch", "number", "sequence", "compared", "unpaired", "passed", "rows")},
        differing=LONGS,
        late=LONGS,
        late_until_ms=TIMES_MS,
        first=st.lists(st.builds(DifferingRow, NAMES, LONGS, LONGS, NAMES), max_size=3).map(tuple),
        verdict=NAMES,
        reason=NAMES,
        at_ms=TIMES_MS,
    ),
    st.builds(
        Schedule,
        job=NAMES,
        generation=GENERATIONS,
        windows=st.lists(NAMES, max_size=3).map(tuple),
        zone=NAMES,
        max_events_per_s=st.integers(0, 2**40),
        yield_ms=st.integers(0, 2**40),
        by=NAMES,
        at_ms=TIMES_MS,
    ),
    st.builds(Withdrawal, job=NAMES, generation=GENERATIONS, reason=NAMES, at_ms=TIMES_MS),
    st.builds(Decision, job=NAMES, generation=GENERATIONS, keeps=NAMES, reason=NAMES, at_ms=TIMES_MS),
    st.builds(
        Claim,
        job=NAMES,
        generation=GENERATIONS,
        parent=st.binary(max_size=40),
        partitions=st.integers(1, 2**31 - 1),
        rewinds_to=st.integers(0, 2**40),
        origin=NAMES,
        source_cut=CUTS,
        changelog_cut=CUTS,
        origin_cut=CUTS,
        reason=NAMES,
        at_ms=TIMES_MS,
    ),
    st.builds(
        Spread,
        job=NAMES,
        version=st.integers(0, 2**31 - 1),
        source_partitions=st.integers(0, 2**31 - 1),
        keys=st.lists(
            st.builds(
                SpreadKey,
                NAMES,
                st.lists(st.integers(0, 2**31 - 1), max_size=3).map(tuple),
                st.integers(0, 2**31 - 1),
            ),
            max_size=3,
        ).map(tuple),
        made_by=NAMES,
        reason=NAMES,
        at_ms=TIMES_MS,
    ),
    st.builds(Adoption, job=NAMES, producer=NAMES, version=st.integers(0, 2**31 - 1), at_ms=TIMES_MS),
    st.builds(
        End,
        job=NAMES,
        generation=GENERATIONS,
        first_sequence=LONGS,
        sequence=LONGS,
        part=st.integers(0, 2**31 - 1),
        last=st.booleans(),
        rows=LONGS,
        watermark_ms=TIMES_MS,
        committed_ms=TIMES_MS,
        published_ms=TIMES_MS,
    ),
    st.builds(
        Alert,
        job=NAMES,
        generation=GENERATIONS,
        kind=NAMES,
        part=NAMES,
        told_by=NAMES,
        raised_ms=TIMES_MS,
        resolved_ms=st.none() | TIMES_MS,
        sequence=LONGS,
        value=LONGS,
        text=NAMES,
    ),
    st.builds(
        Published,
        job=NAMES,
        generation=GENERATIONS,
        milestone=st.binary(max_size=40),
        stream_offset=LONGS,
        target=LONGS,
        parts=st.integers(0, 2**31 - 1),
        progress=CUTS,
        rows=st.lists(LONGS, max_size=4).map(tuple),
    ),
    st.builds(
        Mirrored,
        **dict.fromkeys(("job", "origin", "topic", "topic_id"), NAMES),
        **dict.fromkeys(("partition", "partitions", "leader", "local_epoch"), st.integers(0, 2**31 - 1)),
        **dict.fromkeys(("first", "before", "next", "local", "whole_from", "whole_to", "ended"), LONGS),
        leaders=st.lists(st.integers(0, 2**31 - 1), max_size=3).map(tuple),
        leaders_from=st.lists(LONGS, max_size=3).map(tuple),
        **dict.fromkeys(("runs_source", "runs_local", "runs_length"), st.lists(LONGS, max_size=3).map(tuple)),
        **dict.fromkeys(("records", "size"), LONGS),
        **dict.fromkeys(("source_ms", "at_ms"), TIMES_MS),
    ),
    st.builds(
        Arrival,
        **dict.fromkeys(("job", "origin"), NAMES),
        generation=GENERATIONS,
        sequence=LONGS,
        milestone_hash=st.binary(min_size=32, max_size=32),
        stream_offset=LONGS,
        **dict.fromkeys(("source_cut", "changelog_cut"), CUTS),
        **dict.fromkeys(("watermark_ms", "committed_ms", "arrived_ms"), TIMES_MS),
    ),
    st.builds(Steering, job=NAMES, origin=NAMES, paused=st.booleans(), at_ms=TIMES_MS),
    st.builds(Renewal, job=NAMES, origin=NAMES, topic=NAMES, at_ms=TIMES_MS),
)
"""Any record of the protocol, with any values that its schema can hold."""
