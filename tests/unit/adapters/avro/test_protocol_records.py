"""The protocol's records as bytes: every value survives, fixed bytes stay fixed, damage is named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import HEADER_BYTES, MARKER, Codec, protocol_codec
from cutwater.adapters.events.value_headers import OutputHeaders
from cutwater.adapters.hashing import key_hash, row_hash
from cutwater.adapters.topics import audit_log, recovery_log
from cutwater.client.decoding import AvroDecoder, ConfluentDecoder, JsonDecoder
from cutwater.core.errors import ProtocolError, UsageError
from cutwater.core.events import rejection
from cutwater.core.events.formats import confluent_header
from cutwater.core.job.job import WINDOW_KEY_SCHEMA
from cutwater.core.job.shards import ShardMap
from cutwater.core.monitoring.alerts import Alert
from cutwater.core.output.position import End, Published
from cutwater.core.protocol.changelog_rows import fold, signed
from cutwater.core.protocol.cuts import Cut
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
    Start,
    Withdrawal,
)
from cutwater.core.skew.spread_plan import Adoption, Spread
from cutwater.publisher.encoding import AvroEncoder, JsonEncoder
from cutwater.views.query.presenter import Presenter
from support.output_samples import (
    example_job,
    golden_adoption,
    golden_alert,
    golden_audit,
    golden_end,
    golden_published,
    golden_recovery,
    golden_spread,
)
from support.protocol_samples import RECORDS, barrier, milestone, start
from support.regions.mirror_samples import golden_mirror_record
from support.views.changelogs import make_job

ROOT = Path(__file__).parents[4]
GOLDEN: dict[str, Any] = json.loads((ROOT / "tests/golden/format.json").read_text(encoding="utf-8"))
TYPES: dict[str, type[protocol_records.Record]] = {
    "start": Start,
    "barrier": Barrier,
    "committed": Committed,
    "heartbeat": Heartbeat,
    "milestone": Milestone,
    "end": End,
    "published": Published,
    "alert": Alert,
    "claim": Claim,
    "reopening": Reopening,
    "redefinition": Redefinition,
    "canary": Canary,
    "comparison": Comparison,
    "promotion": Promotion,
    "hold": Hold,
    "schedule": Schedule,
    "withdrawal": Withdrawal,
    "decision": Decision,
    "release": Release,
    "mirrored": Mirrored,
    "arrival": Arrival,
    "steering": Steering,
    "renewal": Renewal,
    "spread": Spread,
    "adoption": Adoption,
}


def golden_record(name: str) -> protocol_records.Record:
    """The record whose bytes are fixed in the golden file."""
    others: dict[str, Callable[[], protocol_records.Record]] = {
        "alert": golden_alert,
        "end": golden_end,
        "spread": golden_spread,
        "adoption": golden_adoption,
        "published": lambda: golden_published(bytes.fromhex(GOLDEN["records"]["milestone"])),
        **{one: partial(golden_mirror_record, one) for one in ("mirrored", "arrival", "steering", "renewal")},
    }
    if name in others:
        return others[name]()
    when = 1_700_000_000_000
    others_there = {
        "reopening",
        "redefinition",
        "canary",
        "comparison",
        "promotion",
        "hold",
        "schedule",
        "withdrawal",
        "decision",
    }
    if name == "claim" or name in others_there:
        return golden_candidacy(name, when)
    written: dict[str, Any] = {"job": "flights", "generation": Generation(1, "local"), "attempt": 2}
    brief: dict[str, protocol_records.Record] = {
        "start": Start(**written, at_ms=when),
        "committed": Committed(**written, epoch=7, at_ms=when + 300),
        "heartbeat": Heartbeat(**written, epoch=7, at_ms=when + 2_300),
    }
    if name == "release":
        return Release("flights", Generation(1, "local"), sequence=8, to="eu", at_ms=when)
    if name in brief:
        return brief[name]
    told = written | {
        "epoch": 7,
        "source_cut": Cut.of_topic("flights.events", [1_500, 1_501]),
        "changelog_cut": Cut.of_topic("flights.changelog.g1-local-00000000", [40, 0, 300, 1]),
        "watermark_ms": 1_357_002_000_000,
        "horizon_ms": 0,
        "floor_ms": 1_356_998_400_000,
        "amended": 2,
        "rows": 321,
        "digest": -81_985_529_216_486_896,
        "events": 3_001,
        "rejected": 1,
        "late": 3,
        "skew_ms": 5_400_000,
        "schema_fingerprint": "71c2eba2dfed3d02",
        "definition": GOLDEN["flights_definition"],
        "epoch_started_ms": when,
        "written_ms": when + 250,
        "tombstones": 12,
        "collected": (20, 0, 150, 1),
        "partition_rows": (40, 0, 280, 1),
        "partition_digests": (-81_985_529_216_486_896 ^ 6, 0, 2, 4),
        "origin_cut": Cut.of_topic("flights.events.from-us", [9_000]),
        "evidence": (
            TopicEvidence("flights.changelog.g1-local-00000000", "q6Vb1n0TQ8m4f0uGk3q2Lw", (0, 0, 3, 0)),
            TopicEvidence("flights.events", "PN2PfS87Ql2hX-Iqcsgv8Q", (5, 5)),
        ),
    }
    if name == "barrier":
        return Barrier(**told)
    chained: dict[str, Any] = {
        "sequence": 8,
        "parent_hash": bytes(range(32)),
        "barriers_position": 31,
        "committed_ms": when + 310,
    }
    return Milestone(**told, **chained)


def golden_comparison(of: dict[str, Any], when: int) -> Comparison:
    return Comparison(
        **of,
        **{"epoch": 17, "number": 18, "sequence": 57, "compared": 15, "unpaired": 1, "passed": 2, "rows": 4_711},
        **{"differing": 1, "late": 3, "late_until_ms": when - 60_000},
        first=(DifferingRow("JFK", 1_356_998_400_000, 1_357_002_000_000, "movements 35 → 34"),),
        verdict="drop",
        reason="1 row differs",
        at_ms=when,
    )


def golden_schedule(of: dict[str, Any], when: int) -> Schedule:
    windows = ("02:00-05:00", "22:30-01:00")
    return Schedule(
        **of,
        windows=windows,
        zone="Europe/Berlin",
        max_events_per_s=5_000,
        yield_ms=10_000,
        by="alice",
        at_ms=when,
    )


def golden_candidacy(name: str, when: int) -> protocol_records.Record:
    """What stands on the candidates topic beside milestones."""
    of: dict[str, Any] = {"job": "flights", "generation": Generation(2, "local", "5f0c21aa")}
    if name == "reopening":
        cut = Cut.of_topic("flights.events", [1_500, 1_501])
        return Reopening(**of, floor_ms=1_356_998_400_000, source_cut=cut, at_ms=when)
    if name == "redefinition":
        files = FileText("flights.yaml", "job: flights\n"), FileText("flight.avsc", '{"type": "record"}')
        meaning = GOLDEN["flights_definition"]
        return Redefinition(**of, definition=meaning, files=files, complete_from_ms=when, at_ms=when)
    brief: dict[str, protocol_records.Record] = {
        "promotion": Promotion(**of, at_ms=when),
        "hold": Hold(**of, until_ms=when + 3_600_000, by="alice", reason="dead letters", at_ms=when),
        "schedule": golden_schedule(of, when),
        "withdrawal": Withdrawal(**of, reason="late", at_ms=when),
        "decision": Decision(**of, keeps="g2-local-5f0c21aa", reason="readers saw it", at_ms=when),
        "canary": Canary(**of, milestones=1_000, differences=2, tolerance=1e-9, keep_ms=3_600_000, at_ms=when),
        "comparison": golden_comparison(of, when),
    }
    if name in brief:
        return brief[name]
    parent = bytes.fromhex(GOLDEN["records"]["start"])  # any bytes do
    here: dict[str, Any] = {
        "origin": "us",
        "source_cut": Cut.of_topic("flights.events.from-us", [1_490]),
        "changelog_cut": Cut.of_topic("flights.changelog.g1-us-00000000", [39]),
        "origin_cut": Cut.of_topic("flights.events.from-us", [9_010]),
        "evidence": (TopicEvidence("flights.changelog.g1-us-00000000", "AAAAAAAAQAAAAAAAAAAAAA", (2,)),),
    }
    return Claim(**of, parent=parent, partitions=6, rewinds_to=3, reason="6 partitions", at_ms=when, **here)


def listed_record(name: str) -> dict[str, Any]:
    """The record of a list whose bytes are fixed in the golden file; times in ms."""
    if name.endswith("_key"):
        event = {"topic": "flights.events", "partition": 1, "offset": 1_500}
        key = {"generation": "g1-local-00000000", **event}
        window = {"key": "JFK", "window_start": 1_357_002_000_000, "window_end": 1_357_005_600_000}
        return key | window if name == "late_key" else key
    who = {"job": "flights", "generation": "g1-local-00000000", "attempt": 2, "epoch": 7}
    event = {
        "event_key": b"JFK",
        "event_value": b"\xc3\x01cut",
        "event_written_ms": 1_700_000_000_000,
        "event_headers": [{"key": "trace", "value": b"7f"}, {"key": "empty", "value": None}],
    }
    if name == "late":
        return {**who, "watermark_ms": 1_357_009_200_000, "event_time_ms": 1_357_003_000_000, **event}
    replayed = {"topic": "flights.events", "partition": 1, "offset": 1_777, "at_ms": 1_700_000_600_000}
    return {**who, "reason": rejection.UNDECODABLE, **event, "replayed": replayed}


LISTED = ("dead_letter_key", "dead_letter", "late_key", "late")


@pytest.mark.parametrize("name", LISTED)
def test_fixed_bytes_of_the_lists_stay_fixed(name: str) -> None:
    """Keys are compared by compaction, values are read by others."""
    assert protocol_codec(name).encode(listed_record(name)).hex() == GOLDEN["lists"][name]


def test_fixed_bytes_of_the_recovery_trail_stay_fixed() -> None:
    """In both directions."""
    golden = GOLDEN["lists"]["recovery"]
    assert recovery_log.encode(golden_recovery()).hex() == golden
    assert recovery_log.decode(bytes.fromhex(golden)) == golden_recovery()


def test_fixed_bytes_of_the_audit_log_stay_fixed() -> None:
    """In both directions."""
    golden = GOLDEN["lists"]["audit"]
    assert audit_log.encode(golden_audit()).hex() == golden
    assert audit_log.decode(bytes.fromhex(golden)) == golden_audit()


@given(RECORDS)
def test_every_record_survives_the_wire(record: protocol_records.Record) -> None:
    """Any values that a schema can hold come back equal, and of the same type."""
    assert protocol_records.decode(protocol_records.encode(record)) == record


@pytest.mark.parametrize("name", TYPES)
def test_fixed_bytes_stay_fixed(name: str) -> None:
    """A reader of another version or language relies on these bytes, in both directions."""
    record = golden_record(name)
    assert type(record) is TYPES[name]
    assert protocol_records.encode(record).hex() == GOLDEN["records"][name]
    assert protocol_records.decode(bytes.fromhex(GOLDEN["records"][name])) == record


def test_the_chain_hashes_the_bytes_as_written() -> None:
    """SHA-256 of the whole value: any language computes it without Avro."""
    record = bytes.fromhex(GOLDEN["records"]["milestone"])
    decoded = protocol_records.decode(record)
    assert isinstance(decoded, Milestone)
    assert (
        protocol_records.hash_of(decoded).hex() == hashlib.sha256(record).hexdigest() == GOLDEN["milestone_hash"]
    )


def test_changelog_rows_are_the_published_ones() -> None:
    """Keys, values, hashes, shards, partitions and the digest; Spark computed the same numbers."""
    changelog = GOLDEN["changelog"]
    keys, values = Codec(WINDOW_KEY_SCHEMA), Codec(changelog["state_schema"])
    hashes = []
    for row in changelog["rows"]:
        key = keys.encode({name: row[name] for name in ("key", "window_start", "window_end")})
        value = values.encode(row["value"])
        assert (key.hex(), value.hex()) == (row["key_hex"], row["value_hex"])
        shard = ShardMap().shard(key_hash(row["key"]))
        assert (key_hash(row["key"]), shard) == (row["key_hash"], row["shard"])
        assert ShardMap(1024, 4).partition(shard) == row["partition_of_4"]
        assert ShardMap(1024, 5).partition(shard) == row["partition_of_5"]
        assert row_hash(key, value) == row["row_hash"]
        hashes.append(row_hash(key, value))
    assert signed(fold(hashes)) == changelog["digest"]


def test_output_records_are_the_published_ones(tmp_path: Path) -> None:
    """Rows and end marker in both formats, made from the golden rows of the changelog."""
    job, golden = example_job(tmp_path), GOLDEN["output"]
    assert job.state_schema == GOLDEN["changelog"]["state_schema"]
    assert job.output_schema == golden["schema"]
    assert Codec(job.output_schema).header.hex() == "c301" + GOLDEN["fingerprints"]["example_output"]
    avro, plain = AvroEncoder(job), JsonEncoder(job)
    for encoder in (avro, plain):
        encoder.begin(8, "update")
    rows = [[bytes.fromhex(row[name]) for name in ("key_hex", "value_hex")] for row in GOLDEN["changelog"]["rows"]]
    assert [avro.value(*row).hex() for row in rows] == golden["avro"]
    assert [plain.value(*row).decode() for row in rows] == golden["json"]
    assert avro.end(bytes.fromhex(GOLDEN["records"]["end"]), golden_end()).hex() == GOLDEN["records"]["end"]
    assert plain.end(b"", golden_end()).decode() == golden["json_end"]
    for encoder, wanted in (
        (avro, bytes.fromhex(golden["tombstone"]["avro"])),
        (plain, golden["tombstone"]["json"]),
    ):
        encoder.begin(9, "tombstone")
        (made,) = encoder.tombstones([rows[0][0]])
        assert (made["key"], made["value"]) == (b"JFK", wanted if isinstance(wanted, bytes) else wanted.encode())


def test_records_with_a_registry_s_numbers_are_the_published_ones(tmp_path: Path) -> None:
    """The same bodies behind a zero byte and a number: made, and read, from the fixed bytes."""
    job, golden, rows = example_job(tmp_path), GOLDEN["confluent"], GOLDEN["changelog"]["rows"]
    headers = OutputHeaders(confluent_header(golden["row"]), confluent_header(golden["end"]))
    encoder = AvroEncoder(job, headers)
    encoder.begin(8, "update")
    for row, value, wanted in zip(rows, golden["values"], golden["output"], strict=True):
        for changelog in (row["value_hex"], value):  # whichever way the changelog has it
            assert encoder.value(bytes.fromhex(row["key_hex"]), bytes.fromhex(changelog)).hex() == wanted
    assert encoder.end(bytes.fromhex(GOLDEN["records"]["end"]), golden_end()).hex() == golden["output_end"]
    assert [Presenter(job).values(bytes.fromhex(one)) for one in golden["values"]] == [
        one["value"] for one in rows
    ]
    schemas = {golden["row"]: job.output_schema, golden["end"]: protocol_codec("end").schema}
    decoder, avro = ConfluentDecoder(job, lambda number: schemas[number]), AvroDecoder(job)
    assert [decoder.change(bytes.fromhex(one)) for one in golden["output"]] == [
        avro.change(bytes.fromhex(one)) for one in GOLDEN["output"]["avro"]
    ]
    assert decoder.end(bytes.fromhex(golden["output_end"])) == golden_end()
    with pytest.raises(UsageError, match=f"number {golden['end']} in the place of Output"):
        decoder.change(bytes.fromhex(golden["output_end"]))


def test_output_records_of_both_formats_read_the_same(tmp_path: Path) -> None:
    """The client library makes equal changes and ends of the fixed bytes, whatever the format."""
    job, golden = example_job(tmp_path), GOLDEN["output"]
    avro, plain = AvroDecoder(job), JsonDecoder(replace(job, name="flights"))
    rows = [avro.change(bytes.fromhex(value)) for value in golden["avro"]]
    assert rows == [plain.change(value.encode()) for value in golden["json"]]
    assert [row.values for row in rows] == [row["value"] for row in GOLDEN["changelog"]["rows"]]
    assert avro.end(bytes.fromhex(GOLDEN["records"]["end"])) == golden_end()
    assert plain.end(golden["json_end"].encode()) == golden_end()
    stone = avro.change(bytes.fromhex(golden["tombstone"]["avro"]))
    assert stone == plain.change(golden["tombstone"]["json"].encode())
    assert (stone.kind, set(stone.values.values())) == ("tombstone", {None})


def test_floats_that_are_no_numbers_read_the_same_in_json_of_before(tmp_path: Path) -> None:
    """Versions before wrote `nan` and `inf`: an output that holds both forms is one output to whoever compares."""
    job, _ = make_job(tmp_path)
    measure = "mean"
    fields = json.loads(GOLDEN["output"]["json"][0])
    for before, now in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity"), ("NaN", "NaN")):
        change = JsonDecoder(job).change(json.dumps(fields | {measure: before}).encode())
        assert change.values[measure] == now


@pytest.mark.parametrize("data", [b"", b"\xc3", MARKER, MARKER + bytes(8), b"not avro at all", b"\x00" * 40])
def test_an_unknown_fingerprint_is_named(data: bytes) -> None:
    """Written by a newer version or by something else: never guessed at."""
    with pytest.raises(ProtocolError, match="is of no schema this version of Cutwater knows"):
        protocol_records.decode(data)


@given(RECORDS, st.data())
def test_a_record_cut_short_is_damaged(record: protocol_records.Record, data: st.DataObject) -> None:
    """Whatever the length that is left of the body."""
    whole = protocol_records.encode(record)
    with pytest.raises(UsageError, match="is damaged"):
        protocol_records.decode(whole[: data.draw(st.integers(HEADER_BYTES, len(whole) - 1))])


@given(RECORDS, st.binary(min_size=1, max_size=9))
def test_a_record_with_bytes_behind_it_is_damaged(record: protocol_records.Record, behind: bytes) -> None:
    """What is not read would still be hashed: two readers could disagree about the chain."""
    with pytest.raises(UsageError, match="is damaged"):
        protocol_records.decode(protocol_records.encode(record) + behind)


@given(st.sampled_from(sorted(TYPES)), st.binary(max_size=60))
def test_any_other_body_is_a_record_or_a_usage_error(name: str, body: bytes) -> None:
    """Bytes of a stranger behind a known header never raise anything else."""
    try:
        record = protocol_records.decode(protocol_codec(name).header + body)
    except UsageError:
        return
    assert type(record) is TYPES[name]


@given(st.data())
def test_a_flipped_bit_never_gives_another_error(data: st.DataObject) -> None:
    """A damaged record decodes to something or is refused in words; the chain's hash tells the difference."""
    damaged = bytearray.fromhex(GOLDEN["records"]["milestone"])
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(HEADER_BYTES, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        protocol_records.decode(bytes(damaged))
    except UsageError:
        return


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (start(1, job=7), "job"),
        (start(1, at_ms=2**63), "Start"),
        (barrier(0, rows="many"), "rows"),
        (replace(milestone(0), parent_hash=b"short"), "Sha256"),
    ],
    ids=["a number as text", "a time beyond 64 bits", "text as a number", "a short hash"],
)
def test_values_that_do_not_fit_are_refused_before_they_are_written(
    record: protocol_records.Record, named: str
) -> None:
    """The error names the schema, and the field where Avro's writer knows it."""
    with pytest.raises(UsageError, match=f"does not fit schema .*{named}"):
        protocol_records.encode(record)


@pytest.mark.parametrize("at_ms", [253_402_300_800_000, -62_135_596_800_001, 2**62, -(2**63)])
def test_a_time_outside_the_years_1_to_9999_is_damage(at_ms: int) -> None:
    """No clock says so; as a Python date it does not exist."""
    with pytest.raises(UsageError, match="is damaged"):
        protocol_records.decode(protocol_records.encode(start(1, at_ms=at_ms)))


@given(st.integers(-(10**10), 10**10))
def test_times_are_exact_to_the_millisecond(seconds: int) -> None:
    """No float is on the way, before 1970 either."""
    record = start(1, at_ms=seconds * 1_000 + 1)
    assert protocol_records.decode(protocol_records.encode(record)) == record
