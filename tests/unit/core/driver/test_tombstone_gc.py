"""Garbage collection: only windows below the horizon are cleared, none is passed over, and twice is harmless."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.driver.row_proof import ChangelogRow, foreign_rows, strays
from cutwater.core.driver.tombstone_gc import ScanPosition, due, is_garbage, places, sift
from cutwater.core.protocol.changelog_rows import Writer
from support.protocol_samples import GENERATION, OTHER

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
