"""Garbage collection: only windows below the horizon are cleared, none is passed over, and twice is harmless."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.driver.row_proof import ChangelogRow, foreign_rows, strays
from cutwater.core.driver.tombstone_gc import Collector, ScanPosition, due, is_garbage, places, sift
from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Barrier
from support.protocol_samples import GENERATION, OTHER, barrier

ME = Writer(GENERATION, 2, 7)


@st.composite
def logs(draw: st.DrawFn) -> list[ChangelogRow]:
    """A partition with gaps: keys named by their window, tombstones, and records that are no rows."""
    offsets = sorted(draw(st.sets(st.integers(0, 200), max_size=40)))
    rows = []
    for offset in offsets:
        end = draw(st.one_of(st.none(), st.integers(0, 50)))
        key = None if end is None else f"{draw(st.integers(0, 3))}-{end}".encode()
        rows.append(ChangelogRow(0, offset, key, draw(st.sampled_from([b"v", b"v", None])), ME, end))
    return rows


@given(logs(), st.lists(st.tuples(st.integers(0, 60), st.integers(1, 10)), max_size=12))
def test_slice_by_slice_all_below_the_horizon_is_cleared_and_nothing_above(
    log: list[ChangelogRow], steps: list[tuple[int, int]]
) -> None:
    """However horizon and slices move: what lies below the place is cleared, all of it."""
    place, horizon, cleared = ScanPosition(0), 0, set[bytes]()
    for forward, records_max in steps:
        horizon += forward
        found = sift((one for one in log if one.offset >= place.position), 201, horizon, records_max)
        assert found.place.position >= place.position
        cleared.update(found.keys)
        place = found.place
        passed = [one for one in log if one.offset < place.position and one.key and one.value is not None]
        assert {one.key for one in passed} == cleared
        assert all(one.end_ms is not None and one.end_ms <= horizon for one in passed)


@given(logs(), st.integers(0, 60), st.integers(0, 5))
def test_a_look_is_bounded(log: list[ChangelogRow], horizon: int, records_max: int) -> None:
    """No more keys than records that may be looked at; where the look stopped at a row, its age is known."""
    keys, place = sift(log, 201, horizon, records_max)
    assert len(keys) <= records_max
    at = [one for one in log if one.offset == place.position]
    assert (place.oldest_ms == at[0].end_ms) if at else place == ScanPosition(201)


@pytest.mark.parametrize(
    ("oldest", "share", "is_due"),
    [
        (0, 0.5, True),
        (9_000, 0.5, False),
        (8_000, 0.5, True),
        (10_000, 0.0, True),
        (10_001, 0.0, False),
        (None, 0.0, False),
    ],
)
def test_clearing_waits_until_a_share_is_below_the_horizon(oldest: int | None, share: float, is_due: bool) -> None:
    """Horizon at 10 s, watermark at 12 s: the share is that of the time which the changelog covers."""
    assert due(ScanPosition(0, oldest), 10_000, 12_000, share) is is_due


def test_an_attempt_goes_on_where_the_barrier_says() -> None:
    """A partition that the barrier does not name begins at the beginning."""
    assert places(3, (7, 9)) == [ScanPosition(7), ScanPosition(9), ScanPosition(0)]


def tombstone(end_ms: int | None, writer: Writer | None, key: bytes = b"old") -> ChangelogRow:
    return ChangelogRow(0, 5, key, None, writer, end_ms)


@pytest.mark.parametrize(
    ("record", "harmless"),
    [
        (tombstone(100, ME), True),
        (tombstone(100, ME._replace(attempt=9, epoch=1)), True),
        (tombstone(101, ME), False),
        (tombstone(None, ME), False),
        (tombstone(100, None), False),
        (tombstone(100, ME._replace(generation=OTHER)), False),
        (tombstone(100, ME)._replace(value=b"row"), False),
    ],
    ids=["own", "a zombie's", "above the horizon", "no key", "no writer", "another generation", "a row"],
)
def test_only_a_tombstone_below_the_horizon_is_garbage(record: ChangelogRow, harmless: bool) -> None:
    """It changes nothing, whoever of this generation wrote it; every other record is for the proof to judge."""
    assert is_garbage(record, GENERATION, 100) is harmless


def test_a_tombstone_above_the_horizon_is_foreign() -> None:
    """A live row's tombstone, a zombie's or this attempt's own, is never taken for garbage, row or repeat."""
    row = ChangelogRow(0, 6, b"a", b"1", ME, 200)
    zombie = tombstone(200, ME._replace(attempt=1), b"b")
    assert foreign_rows([zombie, row], ME, 1) == [zombie]
    assert foreign_rows([tombstone(200, ME, b"b"), row], ME, 1) == [tombstone(200, ME, b"b")]
    assert strays([zombie._replace(writer=ME)], GENERATION, 8, 3) == [zombie._replace(writer=ME)]


class Changelog:
    """Two partitions, each with a row of every window end from 1 to 4, in this order; and what is buried."""

    def __init__(self) -> None:
        self.buried: list[tuple[int, list[bytes]]] = []

    def records(self, partition: int, first: int, end: int) -> Iterable[ChangelogRow]:
        rows = (ChangelogRow(partition, at, f"k{at}".encode(), b"v", ME, at + 1) for at in range(4))
        return [one for one in rows if first <= one.offset < end]

    def bury(self, partition: int, keys: Sequence[bytes], _me: Writer) -> None:
        self.buried.append((partition, list(keys)))

    def collector(self, share: float = 0.0, last: Barrier | None = None) -> Collector:
        return Collector(self, 2, self.bury, share, last)


def at(horizon_ms: int, *ends: int) -> Barrier:
    """A barrier whose changelog cut has these ends, of the first partitions."""
    return barrier(3, horizon_ms=horizon_ms, watermark_ms=4, changelog_cut=Cut.of_topic("rows", ends))


def test_what_the_horizon_has_passed_is_buried_once() -> None:
    """The epoch's number chooses the partition; the next look goes on where this one has stopped."""
    log = Changelog()
    clears = log.collector()
    assert clears.collect(ME._replace(epoch=4), at(1, 4, 4)) == {0: 1}
    assert (log.buried, clears.collected) == ([(0, [b"k0"])], (1, 0))
    assert clears.collect(ME._replace(epoch=5), at(2, 4, 4)) == {1: 2}
    assert clears.collect(ME._replace(epoch=6), at(1, 4, 4)) == {}
    assert clears.collect(ME._replace(epoch=6), at(4, 4, 4)) == {0: 3}
    assert (log.buried[1:], clears.collected) == ([(1, [b"k0", b"k1"]), (0, [b"k1", b"k2", b"k3"])], (4, 2))


def test_an_attempt_clears_from_where_the_barrier_says() -> None:
    log = Changelog()
    last = barrier(3, collected=(2, 0))
    assert log.collector(last=last).collect(ME._replace(epoch=4), at(4, 4, 4)) == {0: 2}
    assert log.buried == [(0, [b"k2", b"k3"])]


@pytest.mark.parametrize(
    ("before", "share"), [(None, 0.0), (at(0, 4, 4), 0.0), (at(4, 4, 4), 1.0), (at(4, 0, 4), 0.0), (at(4), 0.0)]
)
def test_nothing_is_cleared_without_a_reason(before: Barrier | None, share: float) -> None:
    """No barrier or horizon yet, a share that means never, and a partition without rows, or in no cut yet."""
    log = Changelog()
    clears = log.collector(share)
    assert clears.collect(ME._replace(epoch=4), before) == {}
    assert (log.buried, clears.collected) == ([], (0, 0))
