"""The global view's merge: order and grouping of regions change nothing, and each lineage counts once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.core.errors import UsageError
from cutwater.core.job.measure_kinds import build
from cutwater.core.job.measures import FieldType, value
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.lineage import Lineage, Span
from cutwater.core.query.global_merge import LineageRows, Merged, merged, newest, require_mergeable, root_of


class Sets:
    """Sketches that forget nothing: the sorted bytes that were seen."""

    def union(self, one: bytes, other: bytes) -> bytes:
        return bytes(sorted({*one, *other}))

    def estimate(self, sketch: bytes) -> float:
        return float(len(sketch))


LONG, DOUBLE = FieldType("long"), FieldType("double")
MEASURES = [
    build("events", "count", None, None, Sets()),
    build("total", "sum", "f", LONG, Sets()),
    build("weight", "sum", "g", DOUBLE, Sets()),
    build("least", "min", "f", LONG, Sets()),
    build("most", "max", "f", LONG, Sets()),
    build("mean", "avg", "f", LONG, Sets()),
    build("opened", "first", "f", LONG, Sets()),
    build("closed", "last", "f", LONG, Sets()),
    build("kinds", "distinct", "f", LONG, Sets()),
]
REGIONS = ("ap", "eu", "us")
Place = tuple[str, int]
"""Key and window start; a window is 10 long."""
Events = list[tuple[str, int, int, int]]
"""Region, time, offset, value; the window is that of the time, the key that of the value."""


def end_ms(place: Place) -> int:
    return place[1] + 10


def place(event: tuple[str, int, int, int]) -> Place:
    return "ab"[event[3] % 2], event[1] // 10 * 10


def partials(events: Events) -> dict[str, Any]:
    """As a person would write them."""
    values = [one[3] for one in events]
    order = sorted(events, key=lambda one: (one[1], one[0], 0, one[2]))
    first, last = (
        {"event_time": at, "origin": region, "partition": 0, "offset": offset, "value": number}
        for region, at, offset, number in (order[0], order[-1])
    )
    total = Decimal(sum(values))
    return {
        "events": len(values),
        "total": total,
        "weight": float(sum(values)) / 4,
        "least": min(values),
        "most": max(values),
        "mean_sum": total,
        "mean_count": len(values),
        "opened": first,
        "closed": last,
        "kinds": bytes(sorted({*values})),
    }


def rows(events: Iterable[tuple[str, int, int, int]]) -> dict[Place, dict[str, Any]]:
    found: dict[Place, Events] = {}
    for event in events:
        found.setdefault(place(event), []).append(event)
    return {at: partials(theirs) for at, theirs in found.items()}


def part(
    region: str, events: Events, sequence: int = 5, horizon: int = 0, told: Place | None = None
) -> LineageRows[Place]:
    """What a region tells of its events: those that a page has room for, above its horizon."""
    held = {at: row for at, row in rows(events).items() if end_ms(at) > horizon and (told is None or at <= told)}
    return LineageRows(region, (1, sequence), horizon, held, told)


def merge(parts: Iterable[LineageRows[Place]], limit: int | None = None) -> Merged[Place]:
    return merged(MEASURES, parts, end_ms, limit)


@st.composite
def histories(draw: st.DrawFn) -> dict[str, Events]:
    """The events of each region, some of none."""
    given_ = draw(
        st.lists(st.tuples(st.sampled_from(REGIONS), st.integers(0, 39), st.integers(0, 255)), max_size=20)
    )
    return {
        region: [(region, at, offset, number) for offset, (of, at, number) in enumerate(given_) if of == region]
        for region in REGIONS
    }


def earlier(events: Events, at: int) -> Events:
    """Those that an older milestone had read."""
    return events[:at]


@settings(max_examples=60)
@given(histories())
def test_regions_merge_to_the_rows_of_all_their_events(history: dict[str, Events]) -> None:
    """Commutative: in any order of the regions the very same rows, those over the union of the events."""
    expected = rows(event for events in history.values() for event in events)
    for order in permutations(REGIONS):
        found = merge(part(region, history[region]) for region in order)
        assert dict(found.rows) == expected
        assert [at for at, _ in found.rows] == sorted(expected)
        assert (found.told, found.horizon_ms) == (None, 0)


@settings(max_examples=40)
@given(histories())
def test_grouping_changes_nothing(history: dict[str, Events]) -> None:
    """Associative: two regions merged before the third give what three merged at once give."""
    whole = merge(part(region, history[region]) for region in REGIONS)
    for apart in REGIONS:
        two = merge(part(region, history[region]) for region in REGIONS if region != apart)
        joined = LineageRows("two", (1, 1), two.horizon_ms, dict(two.rows))
        assert merge([joined, part(apart, history[apart])]).rows == whole.rows


@settings(max_examples=40)
@given(histories(), st.integers(0, 20), st.lists(st.integers(0, 5), max_size=6), st.randoms())
def test_a_lineage_counts_once_by_its_newest_milestone(
    history: dict[str, Events], read: int, again: list[int], random: Any
) -> None:
    """Idempotent: the same part told twice, or an older one beside the newer, changes nothing."""
    newer = [part(region, history[region]) for region in REGIONS]
    older = [part(region, earlier(history[region], read), sequence=4) for region in REGIONS]
    told = [*newer, *((newer + older)[number] for number in again)]
    random.shuffle(told)
    assert merge(told) == merge(newer)
    assert newest(told) == newer


def test_what_a_rollback_took_back_is_not_merged_in_from_before() -> None:
    """The newest milestone of a lineage counts as a whole: a row that it has no more is not there."""
    before = LineageRows("us", (1, 9), 0, rows([("us", 1, 0, 2)]))
    after = LineageRows("us", (2, 3), 0, {})
    assert merge([before, after]).rows == merge([after, before]).rows == []


@settings(max_examples=60)
@given(histories(), st.lists(st.integers(0, 40), min_size=3, max_size=3))
def test_below_the_highest_horizon_nothing_is_told(history: dict[str, Events], horizons: list[int]) -> None:
    """A window that one region has forgotten is left out, and every one that is told is whole."""
    parts = [part(region, history[region], horizon=at) for region, at in zip(REGIONS, horizons, strict=True)]
    expected = rows(event for events in history.values() for event in events)
    found = merge(parts)
    assert found.horizon_ms == max(horizons)
    assert dict(found.rows) == {at: row for at, row in expected.items() if end_ms(at) > max(horizons)}


@settings(max_examples=60)
@given(histories(), st.integers(1, 4), st.data())
def test_pages_hold_every_row_once_and_whole(history: dict[str, Events], limit: int, data: st.DataObject) -> None:
    """Whatever each region's page has room for, the pages together are the rows of all, in order."""
    expected = rows(event for events in history.values() for event in events)
    every, found, behind = sorted(expected), [], None
    while True:
        parts = []
        for region in REGIONS:
            left = [at for at in sorted(rows(history[region])) if behind is None or at > behind]
            room = data.draw(st.integers(1, 3))
            told = left[room - 1] if len(left) > room else None
            one = part(region, history[region], told=told)
            parts.append(LineageRows(region, one.at, 0, {at: one.rows[at] for at in left if at in one.rows}, told))
        page = merge(parts, limit)
        assert len(page.rows) <= limit
        found += page.rows
        if page.told is None:
            break
        assert behind is None or page.told > behind, "each page gets on"
        behind = page.told
    assert [at for at, _ in found] == every
    assert dict(found) == expected


@given(st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=3))
def test_sums_of_doubles_do_not_depend_on_the_order_of_regions(weights: list[float]) -> None:
    """They are folded by name: whoever asks, and in whatever order answers come, the last bit is the same."""
    weight = [MEASURES[2]]
    parts = [
        LineageRows(name, (1, 1), 0, {("a", 0): {"weight": one}})
        for name, one in zip(REGIONS, weights, strict=True)
    ]
    ((_, row),) = merged(weight, parts, end_ms).rows
    for order in permutations(parts):
        assert merged(weight, order, end_ms).rows == [(("a", 0), row)]
    assert math.isclose(row["weight"], math.fsum(weights), rel_tol=1e-9, abs_tol=1e-3)


def test_no_region_at_all_has_no_rows() -> None:
    """Nothing is merged to nothing."""
    assert merge([]) == Merged([], None, 0)
    assert merge([LineageRows("us", (1, 1), 7)]) == Merged([], None, 7)


def test_values_of_a_query_of_the_users_own_are_refused() -> None:
    """How they merge is not known: a clear error that names the column, and no guess."""
    own = [*MEASURES, value("score", DOUBLE)]
    require_mergeable(MEASURES)
    for refused in (lambda: require_mergeable(own), lambda: merged(own, [], end_ms)):
        with pytest.raises(UsageError, match=r"'score' comes from a query of your own.*global view"):
            refused()


FIRST, SECOND = Generation(1, "us"), Generation(2, "us", "0123abcd")


@pytest.mark.parametrize(
    ("generation", "spans", "root"),
    [
        (FIRST, [], FIRST),
        (SECOND, [(1, FIRST), (7, SECOND)], FIRST),
        (SECOND, [], None),
        (SECOND, [(1, SECOND)], None),
        (SECOND, [(7, SECOND)], None),
        (Generation(3, "eu", "0123abcd"), [(1, FIRST), (7, SECOND)], None),
    ],
    ids=["a first one", "one that took over", "unread", "of a stream begun anew", "of elsewhere", "not on it"],
)
def test_the_root_of_a_lineage(
    generation: Generation, spans: list[tuple[int, Generation]], root: Generation | None
) -> None:
    """Known by the commit stream, or not: events of another region are never counted twice by a guess."""
    lineage = Lineage(tuple(Span(first, of, 0) for first, of in spans))
    assert root_of(generation, lineage) == root
