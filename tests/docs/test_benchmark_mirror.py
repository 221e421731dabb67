"""B4's way to compare copies, its peer's settings and its figures, with plain values."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cutwater.adapters.cluster import Cluster
from cutwater.local.jarlock import lock_path, read_lock
from cutwater.local.jars import SPECS

ROOT = Path(__file__).parents[2]


class Message(NamedTuple):
    """A record as a consumer hands it out."""

    a_key: bytes | None
    a_value: bytes | None
    some: list[tuple[str, bytes | None]] | None = None

    def key(self) -> bytes | None:
        return self.a_key

    def value(self) -> bytes | None:
        return self.a_value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.some


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of `benchmarks`, which lies at the root and is in no package that gets installed."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


def test_a_copy_is_exact_only_with_all_records_once_and_in_order(part: Any) -> None:
    """Headers that the mirror puts on top do not count; a record twice, lost, moved or changed does."""
    copies, records = part("mirror.copies"), [Message(b"a", b"1", [("x", b"y")]), Message(b"b", None)]
    right = copies.told(iter(records))
    assert (right.records, right.size, right.last) == (2, 5, None)
    ours = [("source-offset", b"7"), ("source-timestamp", b"9")]
    copied = [one._replace(some=[*(one.some or []), *ours]) for one in records]
    assert copies.difference("t", [copies.told(iter(copied))], [right]) is None
    wrong = [
        records[:1],
        [*records, records[0]],
        records[::-1],
        [records[0], Message(b"b", b"")],
        [records[0]._replace(some=[]), records[1]],
        [Message(b"a1", b"", [("x", b"y")]), records[1]],
    ]
    for one in wrong:
        assert copies.difference("t", [copies.told(iter(one))], [right]).startswith("t/0: ")


def test_events_are_of_one_size_and_no_two_alike(part: Any) -> None:
    """The last record tells whether a copy is whole, so it must be no other's."""
    import random

    origin = part("mirror.origin")
    made = [origin.event(number, random.Random(7)) for number in (0, 1, 999_999_999_999)]
    assert {len(one) for one in made} == {origin.VALUE_BYTES}
    assert len(set(made)) == 3


def test_the_peer_reads_and_writes_as_the_mirror_does(part: Any) -> None:
    """In each variant: committed records, all replicas, lz4; exactly-once where its name says so."""
    peer = part("mirror.mirrormaker")
    for name in peer.SETTINGS:
        told = peer.properties(name, Cluster("there:1"), Cluster("here:2"), ["a", "b"])
        assert (told["us.bootstrap.servers"], told["eu.bootstrap.servers"]) == ("there:1", "here:2")
        assert told["us->eu.topics"] == "a,b"
        assert told["us.consumer.isolation.level"] == "read_committed"
        assert (told["eu.producer.acks"], told["eu.producer.compression.type"]) == ("all", "lz4")
        assert ("eu.exactly.once.source.support" in told) == ("exactly-once" in name)


def test_the_peer_is_of_the_broker_s_version(part: Any) -> None:
    """Connect's runtime, the mirror and the clients are all of the Kafka that the project runs."""
    (version,) = {one.version for one in read_lock(SPECS / "kafka.lock.toml") if one.group == "org.apache.kafka"}
    locked = read_lock(lock_path(part("mirror.mirrormaker").JARS))
    ours = {one.artifact: one.version for one in locked if one.group == "org.apache.kafka"}
    assert set(ours.values()) == {version}
    assert {"connect-mirror", "connect-mirror-client", "connect-runtime", "kafka-clients"} <= set(ours)


def test_bytes_per_cpu_second_are_compared_with_every_peer(part: Any) -> None:
    """Half the CPU for the same bytes is 2; below the limit the verdict says so."""
    b4, figures, contest = part("b4"), part("figures"), part("mirror.contest")
    known = {"pair": 1, "events": 1000, "start_s": 1.0, "drain_s": 2.0, "start_cpu_s": 1.0, "broker_cpu_s": 1.0}
    known |= {"memory_mb_peak": 100.0, "exact": True, "size": 8_000_000}
    runs = [
        contest.Copy(contender="cutwater", cpu_s=2.0, **known),
        contest.Copy(contender="mirrormaker2", cpu_s=4.0, **known),
        contest.Copy(contender="mirrormaker2-exactly-once", cpu_s=1.0, **known),
    ]
    found = figures.ratios(runs, "cutwater", b4.FIGURES)
    assert found["mirror-bytes-per-cpu/mirrormaker2"]["median"] == 2.0
    assert found["mirror-records-per-s/mirrormaker2"]["median"] == 1.0
    assert [one.rsplit(": ", 1)[1] for one in b4.verdicts(found)] == ["kept)", "not kept)"]
    assert figures.document("b4", {}, runs, found)["runs"][0]["size"] == 8_000_000
