"""Rows gathered for a bulk restore: in Python, which is the reference, and by the optional module, the same."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from aiokafka.record._crc32c import crc as crc32c
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.fetch.record_batches import Chunk, chunk, split
from cutwater.adapters.hashing import rows_hash
from cutwater.core.errors import DivergenceError
from cutwater.core.job.job import WINDOW_KEY_SCHEMA
from cutwater.core.state.bulk_load import Slice, Task
from cutwater.views.bulk.newest_rows import NewestRows, NewestRowsPort
from cutwater.views.bulk.newest_rows_native import NativeNewestRows
from cutwater.views.store.key_layout import Window, storage_key

HOUR_MS = 3_600_000
SEGMENT_MS = 4 * HOUR_MS
FLOOR_MS = 472_222 * HOUR_MS
KEY = Codec(WINDOW_KEY_SCHEMA)
VALUE_HEADER = bytes.fromhex("c301") + b"schema__"
WRITERS, OWN = b"g1-local-00000000/", b"g1-local-00000000/1/7"
TASK = Task(
    "changes", [Slice(0, 0, 1)], "", SEGMENT_MS, FLOOR_MS, FLOOR_MS, OWN.decode(),
    KEY.header.hex(), VALUE_HEADER.hex(), 400, 40_000, 5.0,
)  # fmt: skip
NATIVE = pytest.param(NativeNewestRows, marks=pytest.mark.needs("native"))
both = pytest.mark.parametrize("made_by", [NewestRows, NATIVE])
native_too = pytest.mark.needs("native")


class Put(NamedTuple):
    """A record, as it comes to the log."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = (("writer", OWN),)
    gap: int = 0
    """So many offsets before it are not there any more."""


def key(text: str = "shop", hour: int = 3) -> bytes:
    """Of a window that ends so many hours above the floor."""
    end = FLOOR_MS + hour * HOUR_MS
    return zigzags(text.encode(), end - HOUR_MS, end)


def zigzags(text: bytes, *times: int) -> bytes:
    return KEY.header + b"".join([varint(len(text)), text, *map(varint, times)])


def varint(number: int) -> bytes:
    left, found = number << 1 if number >= 0 else -number * 2 - 1, bytearray()
    while left >= 0x80:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def raw(puts: Sequence[Put], first: int = 0, codec: int = 3) -> bytes:
    """One batch, as a broker keeps it."""
    made, at = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 24), 0
    for put in puts:
        at += put.gap
        assert made.append(at, 1_700_000_000_000 + at, put.key, put.value, list(put.headers)) is not None
        at += 1
    return struct.pack(">q", first) + bytes(made.build())[8:]


Pieces = Callable[[], Iterable[tuple[Chunk, int]]]
"""Of one log, each with the end of what is wanted. A batch can be read once, so they are made each time."""
FAR = 1 << 40


def log(batches: Sequence[Sequence[Put]], codec: int = 3, first: int = 0) -> Chunk:
    """What a broker answers who is asked for `first`."""
    found, at = b"", 0
    for puts in batches:
        found += raw(puts, at, codec)
        at += sum(one.gap + 1 for one in puts)
    return chunk("changes/0", found, first)


def whole(*batches: Sequence[Put], codec: int = 3) -> Pieces:
    """A log in one piece."""
    return lambda: [(log(batches, codec), FAR)]


class Outcome(NamedTuple):
    """All that can be told of a gathering; or why it refused."""

    pieces: list[list[tuple[bytes, bytes]]]
    counted: tuple[int, int, int, int]
    refused: str = ""


def outcome(
    made_by: Callable[[Task], NewestRowsPort], pieces: Sequence[tuple[Chunk, int]], task: Task = TASK
) -> Outcome:
    """Of pieces of one log, each with the end of what is wanted; written at the end."""
    gathering = made_by(task)
    try:
        for piece, end in pieces():
            gathering.take(0, piece, end)
        rows = written(gathering)
    except Exception as error:
        return Outcome([], (0, 0, 0, 0), f"{type(error).__name__}: {error}")
    counted = (gathering.rows, gathering.digest, gathering.records, gathering.bytes)
    return Outcome([rows], counted)


def written(gathering: NewestRowsPort) -> list[tuple[bytes, bytes]]:
    found: dict[bytes, bytes] = {}
    count = gathering.write(found)
    assert count == len(found)
    assert list(found) == sorted(found), "RocksDB takes them in order only"
    return list(found.items())


def stored(text: str, hour: int) -> bytes:
    end = FLOOR_MS + hour * HOUR_MS
    return storage_key(Window(text, end - HOUR_MS, end), SEGMENT_MS)


def value(number: int = 0, size: int = 4) -> bytes:
    return VALUE_HEADER + number.to_bytes(size, "big")


@both
def test_the_newest_row_of_each_key_in_the_order_of_the_store(made_by: Any) -> None:
    """Whatever the sizes; rows below the floor are counted and not kept, and only the milestone's own proved."""
    earlier = [("writer", b"g1-local-00000000/1/6")]
    puts = [
        Put(key("b"), value(1), earlier), Put(key("a"), value(2)), Put(key("b"), value(3, 9)),
        Put(key("b", 9), value(4)), Put(key("c", 0), value(5)), Put(key("a" * 63), value(6)),
    ]  # fmt: skip
    got = outcome(made_by, whole(puts[:3], puts[3:]))
    kept = [
        (stored("a", 3), puts[1]),
        (stored("b", 3), puts[2]),
        (stored("b", 9), puts[3]),
        (stored("a" * 63, 3), puts[5]),
    ]
    assert got.pieces == [sorted((at, one.value) for at, one in kept)]
    own = [(one.key or b"", one.value or b"") for one in puts[1:]]
    digest = rows_hash([at for at, _ in own], [one for _, one in own])
    size = sum(len(one.key or b"") + len(one.value or b"") for one in puts)
    assert got.counted == (5, digest, 6, size)


@both
def test_odd_keys_among_plain_ones(made_by: Any) -> None:
    """Long, with a zero byte, not ASCII, of 1970: the newest row of each wins, whatever came with it."""
    texts = ["", "x" * 64, "x" * 9_000, "zero\0inside", "ü", "plain"]
    puts = [Put(key(text, hour), value(hour)) for hour in (1, 2) for text in texts]
    again = [Put(one.key, value(9)) for one in puts[:6]]
    got = outcome(made_by, lambda: [(log([puts]), FAR), (log([again]), FAR)])
    assert dict(got.pieces[0]) == {
        stored(text, hour): value(9 if hour == 1 else 2) for text in texts for hour in (1, 2)
    }
    early = replace(TASK, floor_ms=-1 << 50, horizon_ms=-1 << 50)
    times = [(0, HOUR_MS), (-HOUR_MS, 0), (-1 << 40, 1 << 40)]
    got = outcome(made_by, whole([Put(zigzags(b"k", *one), value()) for one in times]), early)
    assert [at for at, _ in got.pieces[0]] == sorted(storage_key(Window("k", *one), SEGMENT_MS) for one in times)


@both
@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_compressions(made_by: Any, codec: int) -> None:
    puts = [Put(key(f"s{at}"), value(at)) for at in range(300)]
    assert len(outcome(made_by, whole(puts, codec=codec)).pieces[0]) == 300


@both
def test_what_lies_outside_of_the_slice_is_not_looked_at(made_by: Any) -> None:
    """A batch begins below what was asked for, and goes on beyond the cut; offsets have gaps."""
    foreign = [("writer", b"g9-x/1/1")]
    puts = [Put(key("a"), value(), foreign, gap=1), Put(key("b"), value(), gap=3), Put(key("c"), value(), foreign)]
    got = outcome(made_by, lambda: [(log([puts], first=2), 6)])
    assert [at for at, _ in got.pieces[0]] == [stored("b", 3)]
    assert "@6 was written by g9-x" in outcome(made_by, lambda: [(log([puts], first=2), 7)]).refused
    assert "@1 was written by g9-x" in outcome(made_by, lambda: [(log([puts], first=1), 6)]).refused


@both
@pytest.mark.parametrize(
    ("put", "reason"),
    [
        (Put(key(), value(), ()), "without the header 'writer'"),
        (Put(key(), value(), (("other", OWN),)), "without the header 'writer'"),
        (Put(key(), value(), (("writer", None),)), "without the header 'writer'"),
        (Put(key(), value(), (("writer", b"g2-local-00000000/1/7"),)), "written by g2-local"),
        (Put(key(), value(), (("writer", WRITERS),)), "written by g1-local"),
        (Put(key(), value(), (("writer", WRITERS + b"1/8"),)), "the log has lost its end"),
        (Put(key(), value(), (("writer", WRITERS + b"2/7"),)), "the log has lost its end"),
        (Put(key(hour=0), None, (("writer", WRITERS + b"1/10"),)), "the log has lost its end"),
        (Put(key(), VALUE_HEADER[:-1] + b"?"), "has a value of schema"),
        (Put(key(), b""), "has a value of schema"),
        (Put(None, value()), "is no row of the changelog"),
        (Put(b"", value()), "is no row of the changelog"),
        (Put(b"x" + key(), value()), "is no row of the changelog"),
        (Put(b"\xc3\x01no_key__" + key()[10:], value()), "is no row of the changelog"),
        (Put(key()[:-1], value()), "no key of the changelog"),
        (Put(KEY.header + b"\x80", value()), "no key of the changelog"),
        (Put(KEY.header + b"\x7f", value()), "no key of the changelog"),
        (Put(KEY.header + b"\x08abc", value()), "no key of the changelog"),
        (Put(zigzags(b"caf\xe9", FLOOR_MS, FLOOR_MS + HOUR_MS), value()), "no key of the changelog"),
        (Put(zigzags(b"\xc3", FLOOR_MS, FLOOR_MS + HOUR_MS), value()), "no key of the changelog"),
        (Put(key(), None), "tombstone above the horizon"),
        (Put(b"no key", None), "is no row of the changelog"),
        (Put(None, None), "is no row of the changelog"),
    ],
)
def test_what_is_refused(made_by: Any, put: Put, reason: str) -> None:
    """In the same words by both, with the place of the record where it is known."""
    good = [Put(key(f"s{at}"), value(at)) for at in range(5)]
    pieces = whole(good, [*good, put, *good])
    got = outcome(made_by, pieces)
    assert reason in got.refused
    assert got.refused.startswith(DivergenceError.__name__)
    assert got == outcome(NewestRows, pieces)


@both
@pytest.mark.parametrize("writer", [b"1/6", b"9/6", b"0/7", b"1/007"])
def test_whoever_came_before_the_milestone_may_stand_below_its_cut(made_by: Any, writer: bytes) -> None:
    """An earlier epoch of whatever attempt, and what a snapshot brought, which is of attempt 0."""
    puts = [Put(key("a"), value(), (("writer", WRITERS + writer),))]
    assert len(outcome(made_by, whole(puts)).pieces[0]) == 1


@both
def test_tombstones_below_the_horizon_are_garbage(made_by: Any) -> None:
    """Counted as records; the values that they follow are as they were."""
    puts = [Put(key("a"), value(1)), Put(key("b", 0), value(2)), Put(key("b", 0), None)]
    got = outcome(made_by, whole(puts))
    assert [at for at, _ in got.pieces[0]] == [stored("a", 3)]
    assert got.counted[2] == 3


@both
def test_values_in_confluent_framing(made_by: Any) -> None:
    """Known by the milestone's fingerprint alone; any number will do."""
    puts = [Put(key("a"), b"\0\0\0\0\x07body"), Put(key("b"), b"\0\0\0\0\x08")]
    assert len(outcome(made_by, whole(puts)).pieces[0]) == 2
    assert "schema" in outcome(made_by, whole([Put(key("a"), b"\0\0\0\0")])).refused


@both
def test_when_it_is_full(made_by: Any) -> None:
    """By rows or by bytes; what was written is not held any more, and the next rows are."""
    many, large = [Put(key(f"s{at}"), value()) for at in range(400)], [Put(key(), value(size=39_990))] * 2
    for puts in (many, large, [Put(key(f"s{at}"), value(size=14_000)) for at in range(3)]):
        gathering = made_by(TASK)
        assert not gathering.full()
        gathering.take(0, log([puts]), FAR)
        full = gathering.full()
        assert full or (len(puts) == 2 and made_by is NativeNewestRows), "older rows of one key take no room"
        written(gathering)
        assert not gathering.full()
        assert written(gathering) == []
        gathering.take(0, log([puts[:1]]), FAR)
        assert len(written(gathering)) == 1


@native_too
def test_updates_of_few_keys_never_fill_the_module() -> None:
    """Older rows go as soon as they are too many, and the newest stay; then it goes on as before."""
    gathering, one = NativeNewestRows(replace(TASK, bytes_max=200_000)), random.Random(5)
    newest: dict[bytes, bytes] = {}
    for _ in range(80):
        puts = [
            Put(key(f"s{one.randrange(60)}"), value(one.randrange(1 << 16), one.randrange(2, 9)))
            for _ in range(90)
        ]
        newest |= {put.key or b"": put.value or b"" for put in puts}
        gathering.take(0, log([puts]), FAR)
        assert not gathering.full()
    assert sorted(found for _, found in written(gathering)) == sorted(newest.values())


@native_too
def test_rows_that_are_not_kept_are_how_a_restore_comes_on_too() -> None:
    """Of windows below the floor nothing is held: a file, an empty one, says how far it has read."""
    gathering, read = NativeNewestRows(TASK), 0
    while not gathering.full():
        gathering.take(0, log([[Put(key("a", 0), value(read, 8))] * 100]), FAR)
        read += 100
        assert read < 100_000
    assert (written(gathering), gathering.full()) == ([], False)


@native_too
def test_more_windows_than_the_module_remembers() -> None:
    """They are asked for again; every row has its place."""
    hours = 100_050
    puts = [Put(key("a", hour + 1), value()) for hour in range(hours)]
    parts = [puts[at : at + 20_010] for at in range(0, hours, 20_010)]
    task = replace(TASK, rows_max=10**6, bytes_max=10**9)

    def pieces() -> list[tuple[Chunk, int]]:
        return [(log([part]), FAR) for part in [*parts, *parts]]

    assert outcome(NativeNewestRows, pieces, task) == outcome(NewestRows, pieces, task)


texts = st.one_of(
    st.sampled_from(["a", "b", "shop-000123", "shop-000124", "x" * 63, "x" * 64, "z\0z", "ü"]),
    st.text(max_size=20),
)
keys = st.one_of(
    st.builds(key, texts, st.integers(-2, 12)),
    st.builds(
        lambda one, length: one[:10] + bytes([length]) + one[11:], st.builds(key, texts), st.integers(0, 255)
    ),
    st.builds(zigzags, st.binary(max_size=70), st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 1 << 50)),
    st.binary(max_size=30),
    st.binary(max_size=20).map(lambda rest: KEY.header + rest),
    st.none(),
)
values = st.one_of(
    st.builds(value, st.integers(0, 1 << 30), st.integers(4, 12)),
    st.binary(max_size=12),
    st.binary(max_size=9).map(lambda rest: b"\0\0\0\0\1" + rest),
    st.none(),
)
writers = st.one_of(st.none(), st.sampled_from([OWN, b"g2/1/1", b"\xff"]))
headers = st.one_of(
    st.sampled_from([(("writer", OWN),), (("writer", WRITERS + b"1/6"),), (("writer", WRITERS),)]),
    st.lists(st.tuples(st.sampled_from(["writer", "x", "ü"]), writers), max_size=3),
)
plain = st.builds(Put, st.builds(key, texts, st.integers(-2, 12)), st.builds(value), gap=st.integers(0, 3))
anything = st.builds(Put, keys, values, headers, st.integers(0, 3))

plain_batch = st.lists(plain, min_size=1, max_size=12)
any_batch = st.lists(plain | plain | anything, min_size=1, max_size=6)


@native_too
@settings(max_examples=int(os.environ.get("EXAMPLES", "400")), deadline=None)
@given(
    st.lists(plain_batch | plain_batch | any_batch, min_size=1, max_size=6),
    st.just(0) | st.integers(0, 9), st.just(FAR) | st.integers(0, 60), st.integers(1, 30),
)  # fmt: skip
def test_the_module_gathers_and_refuses_as_the_reference(
    batches: list[list[Put]], first: int, end: int, offsets: int
) -> None:
    """Whatever stands on the log, from where and to where it is read, and in what pieces.

    But for one thing: in Python alone the text of a key is only looked at when rows are written, so a log that has
    more than one fault may be refused for another one.
    """

    def pieces() -> Iterator[tuple[Chunk, int]]:
        rest: Chunk | None = log(batches, first=first)
        while rest is not None:
            piece, rest = split(rest, offsets)
            yield piece, end

    by_module, by_reference = outcome(NativeNewestRows, pieces), outcome(NewestRows, pieces)
    if "is no key of the changelog" in by_module.refused:
        assert by_reference.refused
    else:
        assert by_module == by_reference


@native_too
@settings(max_examples=int(os.environ.get("EXAMPLES", "400")), deadline=None)
@given(
    st.lists(plain, min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 1 << 12), st.integers(0, 255)), min_size=1, max_size=4),
    st.one_of(st.just(0), st.integers(0, 400)),
    st.integers(-2, 2),
)
def test_the_module_refuses_damage_as_the_reference(
    puts: list[Put], flips: list[tuple[int, int]], cut: int, more: int
) -> None:
    """Bytes of records that are not what they should be, as from a broken producer: their checksum is right."""
    data = bytearray(raw(puts, codec=0))
    for at, to in flips:
        data[61 + at % (len(data) - 61)] = to
    del data[max(62, len(data) - cut) :]
    pieces = of_records(bytes(data[61:]), max(0, len(puts) + more))
    assert outcome(NativeNewestRows, pieces) == outcome(NewestRows, pieces)


def of_records(records: bytes, count: int) -> Pieces:
    """One batch of these, whatever they are."""
    data = bytearray(raw([Put(key(), value())], codec=0)[:61] + records)
    data[57:61] = struct.pack(">i", count)
    data[8:12] = struct.pack(">i", len(data) - 12)
    data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    return lambda: [(chunk("changes/0", bytes(data), 0), FAR)]


@both
def test_a_record_that_is_not_as_long_as_it_says(made_by: Any) -> None:
    """A byte more in it, or behind it, or one less."""
    one = raw([Put(key("a"), value())], codec=0)[61:]
    body = one[2:]  # the length takes two bytes
    assert outcome(made_by, of_records(varint(len(body)) + body, 1)).refused == ""
    longer, shorter = varint(len(body) + 1) + body + b"\0", varint(len(body) - 1) + body[:-1]
    for wrong in (longer, shorter, one + b"\0", one[:-1], b""):
        assert "CorruptRecord" in outcome(made_by, of_records(wrong, 1)).refused
    assert "CorruptRecord" in outcome(made_by, of_records(one + one, 1)).refused
    assert "CorruptRecord" in outcome(made_by, of_records(one, 2)).refused
