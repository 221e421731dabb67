"""Bulk reads through aiokafka's parser, against confluent-kafka's reading of the same topic."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c
from confluent_kafka import Message, Producer

from cutwater.adapters.fetch import record_batches
from cutwater.adapters.fetch.fetch_v13 import FetchById
from cutwater.adapters.fetch.fetcher import Fetcher
from cutwater.adapters.fetch.partition_cursor import PartitionCursor
from cutwater.adapters.fetch.record_batches import Chunk, Record, chunk, records, sections, split
from cutwater.adapters.kafka.admin import create_topics, delete_topics
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.topic_ids import TopicIds
from cutwater.core.errors import CutwaterError, ProtocolError, UnavailableError, UsageError
from cutwater.core.protocol.leader_epochs import LeaderStart
from cutwater.core.protocol.topics import TopicSpec
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.java import find_java
from cutwater.local.processes.supervisor import Supervisor

Plain = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


@pytest.fixture
def topic(broker: Any, unique: Callable[[str], str]) -> str:
    name = unique("fetched")
    create_topics(broker.cluster, [TopicSpec(name, 2, ())])
    return name


def producer(cluster: Cluster, **settings: Any) -> Producer:
    return Producer(
        {**cluster.librdkafka(), "linger.ms": 5, **{k.replace("_", "."): v for k, v in settings.items()}}
    )


def fetched(
    cluster: Cluster, topic: str, ends: dict[int, int], firsts: dict[int, int], **options: Any
) -> dict[int, list[Plain]]:
    """Everything below the ends."""
    found: dict[int, list[Plain]] = {at: [] for at in ends}
    following = dict(firsts)
    deadline = time.monotonic() + 60
    with closing(cluster.reader(Fetcher, topic, **options)) as fetcher:
        fetcher.assign(firsts)
        while any(following[at] < end for at, end in ends.items()):
            assert time.monotonic() < deadline, f"at {following} of {ends}"
            for at, one in fetcher.take(1.0).items():
                assert one.first == following[at]
                found[at] += [plain(record) for record in records(one)]
                following[at] = one.following
    return found


def plain(record: Record) -> Plain:
    return record.offset, record.key, record.value, list(record.headers)


def read(cluster: Cluster, topic: str, first: int = 0) -> dict[int, list[Plain]]:
    """The same by confluent-kafka."""
    consumer = make_consumer(cluster)
    try:
        return {at: [told(one) for one in read_range(consumer, topic, at, first)] for at in range(2)}
    finally:
        consumer.close()


def told(message: Message) -> Plain:
    return message.offset(), message.key(), message.value(), message.headers() or []


def ends(cluster: Cluster, topic: str) -> dict[int, int]:
    consumer = make_consumer(cluster)
    try:
        return {at: bounds(consumer, topic, at)[1] for at in range(2)}
    finally:
        consumer.close()


def test_every_record_comes_whatever_its_form(broker: Any, topic: str) -> None:
    """All codecs, nothing and empty things, headers, large ones; from the start, and from inside a batch."""
    luck = random.Random(5)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        writing = producer(broker.cluster, compression_type=codec)
        for number in range(400):
            key = luck.choice((None, b"", b"k%d" % number))
            value = luck.choice(
                (None, b"", luck.randbytes(luck.randint(1, 400)), b"x" * luck.choice((10, 200_000)))
            )
            headers = [("h", luck.choice((None, b"", b"v"))) for _ in range(luck.randint(0, 2))]
            writing.produce(topic, key=key, value=value, headers=headers, partition=number % 2)
            writing.poll(0)
        assert writing.flush(30) == 0
    last = ends(broker.cluster, topic)
    assert fetched(broker.cluster, topic, last, {0: 0, 1: 0}) == read(broker.cluster, topic)
    assert fetched(broker.cluster, topic, last, {0: 333, 1: 333}) == read(broker.cluster, topic, 333)
    topic_id = identity(broker.cluster, topic)
    assert fetched(broker.cluster, topic, last, {0: 0, 1: 0}, topic_id=topic_id) == read(broker.cluster, topic)


def identity(cluster: Cluster, topic: str) -> str:
    return TopicIds(cluster).read([topic])[topic].topic_id


def test_nothing_comes_of_another_topic_of_the_name(broker: Any, topic: str) -> None:
    """Deleted and made anew, by who reads the old one: its offsets are there again, with other records."""
    old = identity(broker.cluster, topic)
    delete_topics(broker.cluster, [topic])
    create_topics(broker.cluster, [TopicSpec(topic, 2, ())])
    writing = producer(broker.cluster)
    writing.produce(topic, b"new", partition=0)
    assert writing.flush(10) == 0
    with closing(broker.cluster.reader(Fetcher, topic, topic_id=old)) as fetcher:
        fetcher.assign({0: 0, 1: 0})
        new = identity(broker.cluster, topic)
        assert new != old
        for topic_id in ("", new):
            assert len(fetched(broker.cluster, topic, {0: 1}, {0: 0}, topic_id=topic_id)[0]) == 1
        assert fetcher.take(0.5) == {}


@pytest.mark.parametrize(("position", "epoch"), [(8, 0), (5, 7)], ids=["grown-less", "a-leader-of-its-own"])
def test_a_log_that_has_lost_what_was_read_says_so(broker: Any, topic: str, position: int, epoch: int) -> None:
    """As a broker answers who has read more of a leader than it holds, or of a leader that it does not know."""
    writing = producer(broker.cluster)
    for number in range(5):
        writing.produce(topic, b"%d" % number, partition=0)
    assert writing.flush(10) == 0
    topic_id = identity(broker.cluster, topic)
    with closing(broker.cluster.reader(Fetcher, topic, topic_id=topic_id)) as fetcher:
        fetcher.assign({0: 3}, {0: 0})
        came = {}
        while not came:
            came = fetcher.take(5.0)
        assert (came[0].following, came[0].leaders) == (5, (LeaderStart(0, came[0].leaders[0].first),))
        fetcher.assign({0: position}, {0: epoch})
        with pytest.raises(ProtocolError, match=f"{topic}/0(: the position is outside the log| has lost its end)"):
            fetcher.take(20.0)


def test_brokers_that_know_no_identities_are_told_from_others() -> None:
    """Before Kafka 3.1."""
    asked = FetchById(50, 1, 1_000, 1, "AAAAAAAAAAX/////////+Q", [(0, 5, -1, 100)])
    assert asked.prepare({1: (4, 17)}).API_VERSION == 13
    with pytest.raises(UsageError, match="since Kafka"):
        asked.prepare({1: (0, 12)})


def test_only_committed_records_come(broker: Any, topic: str, unique: Callable[[str], str]) -> None:
    """Aborted transactions are left out, their markers too; an open one holds back what follows until it ends."""
    writing = producer(broker.cluster, transactional_id=unique("tx"))
    writing.init_transactions(30)
    for number in range(30):
        writing.begin_transaction()
        for at in range(2):
            writing.produce(topic, value=b"%d" % number, partition=at)
        writing.flush(10)
        (writing.abort_transaction if number % 3 else writing.commit_transaction)(30)
    whole = ends(broker.cluster, topic)
    found = fetched(broker.cluster, topic, whole, {0: 0, 1: 0})
    assert [value for _, _, value, _ in found[0]] == [b"%d" % number for number in range(0, 30, 3)]
    assert found == read(broker.cluster, topic)
    writing.begin_transaction()
    writing.produce(topic, value=b"open", partition=0)
    writing.flush(10)
    plain_writing = producer(broker.cluster)
    plain_writing.produce(topic, value=b"behind", partition=0)
    plain_writing.flush(10)
    with closing(broker.cluster.reader(Fetcher, topic)) as fetcher:
        fetcher.assign({0: whole[0]})
        seen = fetcher.take(1.0)
        assert not any(records(one) for one in seen.values())
        writing.commit_transaction(30)
        values: list[bytes | None] = []
        deadline = time.monotonic() + 30
        while len(values) < 2 and time.monotonic() < deadline:
            values += [record.value for one in fetcher.take(1.0).values() for record in records(one)]
    assert values == [b"open", b"behind"]


EAGER = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "50",
    "delete.retention.ms": "0",
}
"""The cleaner takes what it may at once, markers too."""


@pytest.mark.slow
def test_a_marker_that_compaction_has_taken_out_is_passed(
    broker: Any, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its batch stays, without a record, where it is all of its producer's epoch: of a writer that was fenced."""
    name, real, emptied = unique("emptied"), record_batches.chunk, threading.Event()
    create_topics(broker.cluster, [TopicSpec(name, 2, tuple(EAGER.items()))])
    transactional, writing = unique("tx"), producer(broker.cluster)
    fenced = producer(broker.cluster, transactional_id=transactional)
    fenced.init_transactions(30)
    fenced.begin_transaction()
    fenced.produce(name, b"value", b"key", partition=0)
    fenced.flush(10)
    producer(broker.cluster, transactional_id=transactional).init_transactions(30)

    def watched(place: str, raw: bytes, *more: Any) -> Chunk:
        if raw and int.from_bytes(raw[21:23]) & 0x20 and raw[57:61] == bytes(4):
            emptied.set()
        return real(place, raw, *more)

    monkeypatch.setattr(record_batches, "chunk", watched)
    deadline = time.monotonic() + 240  # the cleaner rests 15 s between two rounds
    while not emptied.is_set():
        assert time.monotonic() < deadline
        writing.produce(name, b"%d" % time.monotonic_ns(), b"key", partition=0)
        assert writing.flush(10) == 0
        last = ends(broker.cluster, name)
        found = fetched(broker.cluster, name, last, {0: 0, 1: 0})
    assert found[0][-1] == read(broker.cluster, name)[0][-1]


def test_a_pause_holds_a_partition_until_the_next_assignment(broker: Any, topic: str) -> None:
    writing = producer(broker.cluster)
    for number in range(10):
        writing.produce(topic, value=b"%d" % number, partition=number % 2)
    assert writing.flush(10) == 0
    with closing(broker.cluster.reader(Fetcher, topic)) as fetcher:
        fetcher.assign({0: 0, 1: 0})
        fetcher.pause([1])
        assert until_all(fetcher, {0: 5}) == {0: 5}
        assert fetcher.take(0.5).keys() <= {0}
        fetcher.assign({0: 0, 1: 0})
        assert until_all(fetcher, {0: 5, 1: 5}) == {0: 5, 1: 5}


def until_all(fetcher: Fetcher, wanted: dict[int, int]) -> dict[int, int]:
    """How far the reading of each partition has come, once all of these have."""
    found: dict[int, int] = {}
    deadline = time.monotonic() + 30
    while not wanted.items() <= found.items():
        assert time.monotonic() < deadline
        found |= {at: one.following for at, one in fetcher.take(1.0).items()}
    return found


def test_an_offset_that_is_not_kept_is_an_error(broker: Any, topic: str) -> None:
    with closing(broker.cluster.reader(Fetcher, topic)) as fetcher:
        fetcher.assign({0: 77})
        with pytest.raises(ProtocolError, match=f"{topic}/0"):
            read_until_error(fetcher)


def read_until_error(fetcher: Fetcher) -> None:
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        fetcher.take(1.0)


@pytest.mark.slow
def test_a_topic_that_is_not_there_is_told(broker: Any, unique: Callable[[str], str]) -> None:
    """Not at once: a broker that is just back knows no topic either."""
    with closing(broker.cluster.reader(Fetcher, unique("none"))) as fetcher:
        fetcher.assign({0: 0})
        with pytest.raises(CutwaterError, match="none"):
            read_until_error(fetcher)


def test_a_damaged_answer_loses_nothing_and_holds_up_no_other_partition(
    broker: Any, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody assigns anew: what has come stays, and what failed is asked for again from where it stood."""
    damaged, real = threading.Event(), record_batches.chunk

    def damaging(place: str, raw: bytes, *more: Any) -> Chunk:
        wrong = damaged.is_set() and raw and place == f"{topic}/1"
        return real(place, raw[:-1] + bytes([raw[-1] ^ 1]) if wrong else raw, *more)

    monkeypatch.setattr(record_batches, "chunk", damaging)
    writing = producer(broker.cluster)
    found: dict[int, list[Plain]] = {0: [], 1: []}
    errors: list[str] = []

    def produce() -> None:
        for number in range(100):
            writing.produce(topic, value=b"%d" % number, partition=number % 2)
        assert writing.flush(10) == 0

    def read_on(fetcher: Fetcher, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not done():
            assert time.monotonic() < deadline, f"{errors}, { {at: len(some) for at, some in found.items()} }"
            try:
                for at, one in fetcher.take(1.0).items():
                    found[at] += [plain(record) for record in records(one)]
            except UnavailableError as error:
                errors.append(str(error))

    with closing(broker.cluster.reader(Fetcher, topic)) as fetcher:
        produce()
        fetcher.assign({0: 0, 1: 0})
        read_on(fetcher, lambda: len(found[1]) == 50)
        damaged.set()
        produce()
        read_on(fetcher, lambda: len(errors) > 2)
        produce()
        read_on(fetcher, lambda: len(found[0]) == 150)
        assert len(found[1]) == 50
        damaged.clear()
        read_on(fetcher, lambda: len(found[1]) == 150)
    assert all(f"{topic}/1: the checksum" in one for one in errors)
    assert found == read(broker.cluster, topic)


def test_answers_without_records_lengthen_what_waits_before_them() -> None:
    """Else each that is handed out would not begin where the one before ended."""
    way = PartitionCursor(0)
    way.put(chunk("t/0", _batch(b"a"), 0))
    way.put(Chunk(1, 5, [], 70, "t/0", 9))
    way.put(chunk("t/0", _batch(b"b", base=5), 5))
    taken = [way.take(), way.take()]
    assert [(one.first, one.following, one.end) for one in taken] == [(0, 5, 9), (5, 6, -1)]
    assert (list(way.chunks), way.size, way.position) == ([], 0, 6)


_PAYLOAD_AT = 61


def _batch(*values: bytes, base: int = 0, codec: int = 0) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
    for offset, value in enumerate(values):
        builder.append(offset, 1, None, value, [])
    made = bytearray(builder.build())
    made[:8] = base.to_bytes(8, "big")  # the checksum does not cover it
    return bytes(made)


def test_a_damaged_batch_is_never_handed_out() -> None:
    """Whichever byte behind the length is another: a checksum, or a refusal; never other records."""
    sound = _batch(b"one", b"two")
    assert [one.value for one in records(chunk("t/0", sound, 0))] == [b"one", b"two"]
    for at in range(21, len(sound)):
        damaged = bytearray(sound)
        damaged[at] ^= 0x10
        with pytest.raises(UnavailableError, match="checksum of the batch at offset 0 is wrong"):
            chunk("t/0", bytes(damaged), 0)


def _what_comes_of(raw: bytes, first: int) -> list[tuple[int, bytes | None]] | None:
    """Offsets and values; None where the answer is refused. Anything else that is raised would end a mirror."""
    try:
        return [(one.offset, one.value) for one in records(chunk("t/0", raw, first))]
    except UnavailableError:
        return None


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("salt", range(5))
def test_a_damaged_header_has_nothing_handed_out_twice_or_otherwise(number: int, salt: int) -> None:
    """The checksum covers neither the first offset, nor the length, nor the format."""
    sound = [_batch(b"%d" % salt, b"two", base=base) for base in (4, 6, 8)]
    wanted = _what_comes_of(b"".join(sound), 4)
    assert wanted is not None
    assert [offset for offset, _ in wanted] == [4, 5, 6, 7, 8, 9]
    refused = 0
    for at, bit in ((at, bit) for at in range(17) for bit in range(8)):
        damaged = bytearray(sound[number])
        damaged[at] ^= 1 << bit
        if at < 8 and damaged[:8] > sound[number][:8]:
            continue  # a gap like one of compaction: nothing in an answer tells
        found = _what_comes_of(b"".join([*sound[:number], bytes(damaged), *sound[number + 1 :]]), 4)
        refused += found is None
        assert found in (None, wanted[: 2 * number], wanted), f"byte {at}, bit {bit}"
    assert refused > 8


def test_a_first_batch_below_what_was_asked_for_is_refused() -> None:
    """It would be handed out again, and what is behind it, or that would be left out."""
    inside = chunk("t/0", _batch(b"one", b"two", base=7), 8)
    assert [one.offset for one in records(inside)] == [8]
    for base in (0, 6, (1 << 63) + 8):
        with pytest.raises(UnavailableError, match="does not follow offset 8"):
            chunk("t/0", _batch(b"one", b"two", base=base), 8)


def test_an_answer_without_a_whole_batch_is_told() -> None:
    """With a length that is too large it would be asked for for ever. Behind a whole one it was cut off."""
    sound = _batch(b"one", b"two")
    with pytest.raises(UnavailableError, match=f"an answer of {len(sound) - 1} bytes holds no whole batch"):
        chunk("t/0", sound[:-1], 0)
    cut_off = chunk("t/0", sound + _batch(b"three", base=2)[:-1], 0)
    assert (cut_off.following, len(cut_off.batches)) == (2, 1)
    assert chunk("t/0", b"", 5).following == 5


def test_an_older_message_format_is_named() -> None:
    older = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    older.append(0, 1, None, b"value")
    with pytest.raises(UnavailableError, match="the batch at offset 0 is of format 1, not 2"):
        chunk("t/0", bytes(older.build()), 0)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_what_cannot_be_decompressed_is_named(codec: int) -> None:
    """Its checksum is right, so nobody's asking again mends it; each codec has errors of its own."""
    sound = _batch(*[b"value"] * 50, base=70, codec=codec)
    assert len(sections(chunk("t/0", sound, 0))[0].data) > 50 * len(b"value")
    assert len(records(chunk("t/0", sound, 0))) == 50
    damaged = bytearray(sound)
    damaged[_PAYLOAD_AT:] = b"\xff" * (len(sound) - _PAYLOAD_AT)
    damaged[17:21] = calc_crc32c(bytes(damaged[21:])).to_bytes(4, "big")
    for read in (records, sections):
        with pytest.raises(ProtocolError, match="t/0: the batch at offset 70 cannot be decompressed"):
            read(chunk("t/0", bytes(damaged), 0))


def test_batches_are_made_records_a_piece_at_a_time() -> None:
    raw = b"".join(_batch(*[b"v"] * 10, base=10 * number) for number in range(7))
    whole = chunk("t/0", raw, 5)
    assert whole.following == 70
    pieces, rest = [], whole
    while rest is not None:
        piece, rest = split(rest, 20)
        pieces.append(piece)
    assert [piece.following for piece in pieces] == [30, 50, 70]
    assert [one.offset for piece in pieces for one in records(piece)] == list(range(5, 70))


@pytest.fixture
def own_broker(kafka_jars: list[Path], tmp_path: Path) -> Broker:
    return Broker(tmp_path / "broker", find_java(), kafka_jars)


@pytest.mark.slow
def test_a_broker_that_goes_and_comes_back(own_broker: Broker, unique: Callable[[str], str]) -> None:
    """Nothing is raised and nothing is lost: reading goes on where it was."""
    name = unique("away")
    with Supervisor([own_broker.supervised()]) as supervisor:
        supervisor.start(threading.Event())
        create_topics(own_broker.cluster, [TopicSpec(name, 1, ())])
        writing = producer(own_broker.cluster)
        writing.produce(name, value=b"before")
        assert writing.flush(20) == 0
        with closing(own_broker.cluster.reader(Fetcher, name)) as fetcher:
            fetcher.assign({0: 0})
            assert until_values(fetcher, 1) == [b"before"]
            supervisor.stop()
            fetcher.take(2.0)
            with Supervisor([own_broker.supervised()]) as again:
                again.start(threading.Event())
                writing.produce(name, value=b"after")
                assert writing.flush(30) == 0
                assert until_values(fetcher, 1) == [b"after"]


def until_values(fetcher: Fetcher, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    deadline = time.monotonic() + 60
    while len(values) < count:
        assert time.monotonic() < deadline
        values += [record.value for one in fetcher.take(1.0).values() for record in records(one)]
    return values
