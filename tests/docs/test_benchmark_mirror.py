"""B4's way to compare copies, its peer's settings and its figures, with plain values."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, NamedTuple

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.local.jar_lock import lock_path, read_lock
from cutwater.local.jars import SPECS
from cutwater.local.machine.ports import free_ports


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


def test_a_copy_is_exact_only_with_all_records_once_and_in_order(part: Any) -> None:
    """Headers that the mirror puts on top do not count; a record twice, lost, moved or changed does."""
    copies, records = part("mirror.copies"), [Message(b"a", b"1", [("x", b"y")]), Message(b"b", None)]
    right = copies.contents_of(iter(records))
    assert (right.records, right.size, right.last) == (2, 5, None)
    ours = [("source-offset", b"7"), ("source-timestamp", b"9")]
    copied = [one._replace(some=[*(one.some or []), *ours]) for one in records]
    assert copies.difference("t", [copies.contents_of(iter(copied))], [right]) is None
    wrong = [
        records[:1],
        [*records, records[0]],
        records[::-1],
        [records[0], Message(b"b", b"")],
        [records[0]._replace(some=[]), records[1]],
        [Message(b"a1", b"", [("x", b"y")]), records[1]],
    ]
    for one in wrong:
        assert copies.difference("t", [copies.contents_of(iter(one))], [right]).startswith("t/0: ")


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
    b4, figures, contest = part("b4"), part("harness.figures"), part("mirror.contest")
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


def test_a_lag_ends_with_the_milestone_s_own_moment_or_a_later_one(part: Any) -> None:
    """A milestone without arrival waits for the next; one from before the measured time does not count."""
    steady = part("mirror.steady")
    written = [steady.Written(number, 10.0 + number, {}) for number in range(5)]
    seen = {0: 10.5, 1: 11.5, 3: 13.25}  # 2 has none of its own, 4 none at all
    assert steady.lags_ms(written, seen, 11.0) == [500.0, 1250.0, 250.0]


def test_percentiles_are_by_nearest_rank(part: Any) -> None:
    """Of a hundred values the 99th; of few the greatest."""
    percentiles = part("mirror.lag").percentiles
    assert percentiles([float(one) for one in range(100, 0, -1)]) == {
        "p50": 50.0, "p99": 99.0, "p99.9": 100.0, "max": 100.0
    }  # fmt: skip
    assert percentiles([1.0, 7.0])["p99"] == 7.0


def test_a_milestone_is_held_once_all_below_its_cuts_has_come(part: Any) -> None:
    """One record short in one partition is not held; milestones are held in their order."""
    steady = part("mirror.steady")
    stream = SimpleNamespace(written=[steady.Written(n, 0.0, {("t", 0): n, ("t", 1): 2 * n}) for n in (1, 2)])
    observer = steady.Observer(Cluster("here:2"), stream, {}, None)
    for place, held in ((("t", 0), []), (("t", 1), []), (("t", 1), [1]), (("t", 0), [1])):
        observer.seen.counts[place] += 1
        observer._look()
        assert list(observer.seen.held) == held
    observer.seen.counts["t", 1] += 2
    observer._look()
    assert list(observer.seen.held) == [1, 2]
    assert observer.done(2)


def test_the_link_hands_on_every_byte_in_order_and_the_end_of_a_side(part: Any) -> None:
    """Both directions, more than a piece; what comes back takes no less than the round trip."""
    link = part("mirror.link")

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(1_000):
            writer.write(piece)
            await writer.drain()
        writer.close()

    async def play() -> tuple[bytes, float]:
        near, far = free_ports(2)
        server = await asyncio.start_server(echo, "127.0.0.1", far)
        serving = asyncio.create_task(link.serve(near, far, 0.02))
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection("127.0.0.1", near)
        began = time.monotonic()
        writer.write(sent)
        writer.write_eof()
        got = await asyncio.wait_for(reader.read(-1), 30)
        serving.cancel()
        server.close()
        return got, time.monotonic() - began

    sent = bytes(range(256)) * 1_000
    got, took_s = asyncio.run(play())
    assert got == sent
    assert took_s >= 0.04


def test_the_lag_that_counts_is_until_it_is_said(part: Any) -> None:
    """Ours until the arrival, a peer's until all is there: half of the peer's p99 is 2."""
    b4, lag = part("b4"), part("mirror.lag")
    ours = {"held": {"p99": 100.0}, "arrived": {"p99": 200.0}}
    runs = [
        lag.LagRun("cutwater", 1, 50, ours, 1.0, exact=True),
        lag.LagRun("mirrormaker2", 1, 50, {"held": {"p99": 400.0}}, 1.0, exact=True),
    ]
    assert b4.lag_ratios(runs)["mirror-lag-p99/mirrormaker2"]["median"] == 2.0
