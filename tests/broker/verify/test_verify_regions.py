"""A copy compared with what it was copied from, on two real brokers: what differs is named, shard and key."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.hashing import key_hash
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.cli.state import verify_regions
from cutwater.core.checks.state_comparison import RowName
from cutwater.core.errors import DivergenceError, UnavailableError, UsageError
from cutwater.core.protocol import mirror_records
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.mirror_records import Arrival
from cutwater.verify import regions
from cutwater.verify.read_rate import ReadRateLimit
from cutwater.verify.regions import ComparisonResult, Request, Side, compare, newest_common
from support.cli.jsonshapes import parsed
from support.regions.mirroring import ORIGIN, Events, arrivals, environment_of, mirroring, read_all, wait_arrived
from support.views.changelogs import GENERATION, HOUR_MS, Sold, Writing, encoded, make_job, now_ms

SHOPS = 40
EPOCHS = 4


@dataclass
class Pair:
    """Four epochs in the origin, of which each has arrived here; the mirror is not running any more."""

    own: Cluster
    writing: Writing
    job_file: Path

    def request(self, **changes: Any) -> Request:
        sides = (Side(ORIGIN, self.writing.cluster), Side("there", self.own))
        return replace(Request(self.writing.job, *sides), **changes)

    def compared(self, pace: ReadRateLimit | None = None, **changes: Any) -> ComparisonResult:
        request = self.request(**changes)
        return compare(request, newest_common(request), pace or ReadRateLimit())

    def mirror(self, arrivals_wanted: int) -> None:
        with mirroring(self.own, self.writing.cluster, self.writing.job) as running:
            wait_arrived(running, self.own, self.writing.job, arrivals_wanted)

    def forge(self, *records: tuple[Sold, Sold | None]) -> None:
        """Rows in the copy, where nobody may write (None: a tombstone), and the newest arrival above them."""
        producer = Producer(self.own.librdkafka())
        for named, row in records:
            key, _ = encoded(self.writing.job, named)
            value = encoded(self.writing.job, row)[1] if row else None
            producer.produce(
                self.writing.topic, key=key, value=value, partition=self.writing.partition(named.shop)
            )
        assert producer.flush(20) == 0
        self.announce()

    def announce(self, **changes: Any) -> None:
        """Another arrival, of the same milestone, at the copy's present end."""
        topic, job = self.writing.topic, self.writing.job
        ends = Offsets(self.own).topic_ends(topic, job.shards.partitions)
        cut = Cut.of({TopicPartition(topic, partition): end for partition, end in ends.items()})
        self._write(replace(arrivals(self.own, job)[-1], changelog_cut=cut, **changes))

    def _write(self, arrival: Arrival) -> None:
        producer = Producer(self.own.librdkafka())
        producer.produce(
            mirror_records.arrivals(self.writing.job.name, ORIGIN), protocol_records.encode(arrival), partition=0
        )
        assert producer.flush(20) == 0

    def shard(self, shop: str) -> int:
        return self.writing.job.shards.shard(key_hash(shop))


@pytest.fixture
def pair(broker: Any, origin: Cluster, tmp_path: Path) -> Iterator[Pair]:
    job, job_file = make_job(tmp_path)
    writing = Writing(origin, job)
    events = Events(writing)
    for number in range(EPOCHS):
        rows = [Sold(f"shop-{shop}", 1, 100 * number + shop) for shop in range(SHOPS - 10 * number)]
        writing.epoch(rows, source_cut=events.cut())
    made = Pair(broker.cluster, writing, job_file)
    made.mirror(EPOCHS)
    yield made
    writing.close()


def named(result: ComparisonResult) -> dict[str, dict[str, int | None]]:
    """Pieces by region, of each differing key."""
    return {
        one.name.key: {region: json.loads(text)["pieces"] if text else None for region, text in one.values.items()}
        for one in result.differences
    }


def test_a_true_copy_is_equal(pair: Pair) -> None:
    """Rows below the horizon are on neither side, tombstones are no rows; both cuts are each side's own."""
    assert pair.writing.last is not None
    late, cut = 30 * HOUR_MS, pair.writing.last.source_cut
    pair.writing.tombstone(Sold("shop-1", 1, 1))
    pair.writing.epoch([Sold("shop-1", 29, 5), Sold("new", 30, 1)], watermark_ms=late, source_cut=cut)
    pair.mirror(EPOCHS + 1)
    result = pair.compared()
    assert (result.equal, result.milestone, result.differing_rows) == (True, pair.writing.last, 0)
    assert result.held[0] == result.held[1]
    assert result.held[0].rows == 2


@pytest.mark.slow
def test_what_differs_is_named_by_shard_key_and_window(pair: Pair) -> None:
    """One value changed in the copy, one key gone, one added; nothing else is looked at."""
    pair.forge(
        (Sold("shop-7", 1, 0), Sold("shop-7", 1, 999)),
        (Sold("shop-39", 1, 0), None),
        (Sold("stranger", 5, 0), Sold("stranger", 5, 1)),
    )
    result = pair.compared()
    assert named(result) == {
        "shop-7": {ORIGIN: 307, "there": 999},
        "shop-39": {ORIGIN: 39, "there": None},
        "stranger": {ORIGIN: None, "there": 1},
    }
    by_key = {one.name.key: one for one in result.differences}
    assert by_key["shop-7"].name == RowName("shop-7", HOUR_MS, 2 * HOUR_MS)
    assert by_key["stranger"].name == RowName("stranger", 5 * HOUR_MS, 6 * HOUR_MS)
    assert all(one.suspects == ("there",) for one in result.differences)
    assert {one.number for one in result.shards} == {pair.shard(key) for key in by_key}
    assert all(one.held[0] != one.held[1] for one in result.shards)
    assert [one.rows for one in result.held] == [SHOPS, SHOPS]
    assert (result.equal, result.differing_rows) == (False, 3)
    fewer = pair.compared(limit=1)
    assert (len(fewer.differences), fewer.differing_rows) == (1, 3)


@pytest.mark.slow
def test_a_milestone_in_the_middle_of_the_copy(pair: Pair) -> None:
    """What stands above its cuts is not compared: neither later rows, nor what is wrong with the copy there."""
    pair.forge((Sold("shop-7", 1, 0), Sold("shop-7", 1, 999)))
    result = pair.compared(at=Token(GENERATION, 2))
    assert result.equal
    pieces = sum(pair.writing.by_sequence[2].values())
    assert pieces != sum(pair.writing.by_sequence[4].values())
    assert (result.milestone.sequence, result.held[1].rows) == (2, len(pair.writing.by_sequence[2]))
    assert named(pair.compared(at=Token(GENERATION, 4))) == {"shop-7": {ORIGIN: 307, "there": 999}}


@pytest.mark.slow
def test_the_rate_is_bounded(pair: Pair) -> None:
    """By a clock that only waiting moves: never more was read than one piece ahead of what the time allows."""
    moment, rate, most = 0.0, 1_000, 0

    class Counted(ReadRateLimit):
        def _take(self, size: int) -> None:
            nonlocal most
            super()._take(size)
            assert self.size - size <= rate * moment, "the pieces before are paid for"
            most = max(most, size)

    def sleep(seconds: float) -> None:
        nonlocal moment
        moment += seconds

    result = pair.compared(Counted(rate, lambda: moment, sleep))
    both = [
        sum(
            len(one.key or b"") + len(one.value or b"") for one in read_all(cluster, pair.writing.topic, partition)
        )
        for cluster in (pair.own, pair.writing.cluster)
        for partition in range(pair.writing.job.shards.partitions)
    ]
    assert result.size == sum(both), "each side is read once"
    assert moment >= (result.size - most) / rate > 1


@pytest.mark.slow
def test_without_a_common_milestone_it_says_so(pair: Pair, broker: Any, tmp_path: Path) -> None:
    """Nothing copied or arrived, one that has not arrived or that the origin does not hold, one cluster."""
    with pytest.raises(UsageError, match="nothing of region elsewhere is copied"):
        newest_common(pair.request(origin=Side("elsewhere", pair.writing.cluster)))
    with pytest.raises(
        UsageError, match=f"{GENERATION}:99 has not arrived here.*newest arrival is {GENERATION}:4"
    ):
        newest_common(pair.request(at=Token(GENERATION, 99)))
    with pytest.raises(UsageError, match="are the same cluster"):
        newest_common(pair.request(origin=Side(ORIGIN, pair.own)))
    pair.announce(sequence=5)  # of which nobody knows
    with pytest.raises(UnavailableError, match="does not hold it"):
        newest_common(pair.request())
    pair.announce(stream_offset=0)
    with pytest.raises(DivergenceError, match="whose arrival was announced"):
        newest_common(pair.request())
    quiet = Writing(pair.writing.cluster, make_job(tmp_path / "quiet")[0])
    Events(quiet)
    with mirroring(broker.cluster, quiet.cluster, quiet.job) as mirror:
        mirror.until(lambda: mirror.mirror.copier.ready, "its topics")
        with pytest.raises(UnavailableError, match="no milestone of local has arrived here yet"):
            newest_common(replace(pair.request(), job=quiet.job))
    quiet.close()


@pytest.mark.slow
def test_an_origin_whose_stream_was_replaced_is_told(pair: Pair) -> None:
    """The token is there, and is another milestone's."""
    assert pair.writing.last is not None
    pair.writing.publish(replace(pair.writing.last, rows=1))
    with pytest.raises(DivergenceError, match="is not the same milestone"):
        newest_common(pair.request())


@pytest.mark.slow
def test_what_compaction_may_have_taken_is_no_false_alarm(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two days later the end of both logs is whole; what has rows above it is not, on either side, and which."""
    monkeypatch.setattr(regions, "now_ms", lambda: now_ms() + 48 * HOUR_MS)
    assert pair.compared().equal
    with pytest.raises(UnavailableError, match=f"compaction may have removed values of .*:2 .* in {ORIGIN},"):
        pair.compared(at=Token(GENERATION, 2))
    cut = arrivals(pair.own, pair.writing.job)[-1].changelog_cut
    pair.forge((Sold("shop-7", 1, 0), Sold("shop-7", 1, 999)))
    pair.announce()
    request = pair.request()
    found = newest_common(request)
    early = replace(found, arrival=replace(found.arrival, changelog_cut=cut))
    with pytest.raises(UnavailableError, match=r"compaction may have removed values of .* in there,"):
        compare(request, early, ReadRateLimit())


def call(pair: Pair, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "cutwater.cli.main", "verify", str(pair.job_file), "--region", ORIGIN, *words],
        env=environment_of(pair.own, pair.writing.cluster) | {"NO_COLOR": "1", "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, said = process.communicate(timeout=90)
    return process.returncode, out, said


@pytest.mark.slow
def test_the_verb(pair: Pair) -> None:
    """Exit 0 and 1; a table, and the same as JSON; what does not go together is refused."""
    code, out, _ = ended(call(pair, "--bytes-per-s", "10000000"))
    assert (code, "g1-local-00000000:4" in out, "equal" in out) == (0, True, True)
    pair.forge((Sold("shop-7", 1, 0), Sold("shop-7", 1, 999)))
    code, out, _ = ended(call(pair, "--json"))
    found = parsed(["verify"], out)
    assert (code, found["verdict"], found["differing_rows"]) == (1, "different", 1)
    assert [one["shard"] for one in found["shards"]] == [pair.shard("shop-7")]
    (row,) = found["differences"]
    assert (row["key"], row["suspects"], row["shard"]) == ("shop-7", ["there"], pair.shard("shop-7"))
    code, out, _ = ended(call(pair))
    assert code == 1
    assert "shards that differ: 1 of 1" in out
    assert "shop-7" in out
    code, _, said = ended(call(pair, "--place", "output"))
    assert (code, "--region compares changelogs" in said) == (2, True)
    for every in ("soon", "1ms"):
        with pytest.raises(UsageError, match=f"--every.*{every}"):
            verify_regions.run(pair.request(), 0, every, as_json=False)
    with pytest.raises(UsageError, match="give only one of them"):
        verify_regions.run(pair.request(at=Token(GENERATION, 2)), 0, "60s", as_json=False)


def stopped(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    process.send_signal(signal.SIGINT)
    return ended(process)


def line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = parsed(["verify"], process.stdout.readline())
    return found


@pytest.mark.slow
def test_again_and_again_until_a_signal(broker: Any, origin: Cluster, tmp_path: Path) -> None:
    """A line for each newer milestone, none for the same one; what cannot be compared yet is told and no end."""
    job, job_file = make_job(tmp_path)
    writing = Writing(origin, job)
    pair = Pair(broker.cluster, writing, job_file)
    events = Events(writing)
    with mirroring(broker.cluster, origin, job) as mirror:
        mirror.until(lambda: mirror.mirror.copier.ready, "its topics")
        process = call(pair, "--every", "1s", "--json")
        assert line(process)["verdict"] == "not compared"
        for sequence in (1, 2):
            writing.epoch([Sold("shop", sequence, sequence)], source_cut=events.cut())
            while (found := line(process))["verdict"] == "not compared":
                pass
            assert (found["verdict"], found["milestone"]["sequence"]) == ("equal", sequence)
        code, rest, said = stopped(process)
        assert (code, rest) == (0, ""), said
    pair.forge((Sold("shop", 1, 0), Sold("shop", 1, 999)))
    process = call(pair, "--every", "1s", "--json")
    assert line(process)["verdict"] == "different"
    code, rest, said = stopped(process)
    assert (code, rest) == (1, ""), said
    writing.close()
