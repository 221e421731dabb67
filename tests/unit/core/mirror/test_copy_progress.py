"""What a position says of its copy: where each cut lies, and which cuts hold every value, against a model."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.core.errors import DivergenceError
from cutwater.core.mirror.copy_progress import (
    NEVER_MS,
    OriginPartition,
    Piece,
    RecordMeta,
    advance_position,
    initial_position,
    is_worth_writing,
    require_alone,
    runs_of,
    translated,
)
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.mirror_records import SLOTS, Mirrored, slot_of, target, transactional_ids

HOUR_MS = 3_600_000
LAG_MS = 24 * HOUR_MS
FIRST = initial_position("job", "us", OriginPartition("t", 0, "id", 1), 0, 0, 0)


class Row(NamedTuple):
    offset: int
    key: int
    at_ms: int


class Model:
    """A log of the origin with a cleaner that takes all it may, and the copy of it."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.end = 0
        self.rows: list[Row] = []
        self.kept: list[Row] = []
        self.position = FIRST
        self.copied: list[tuple[Row, int]] = []
        """With its offset here."""
        self.here = 0
        self.history: list[Mirrored] = [FIRST]

    def write(self, keys: list[int]) -> None:
        for key in keys:
            row = Row(self.end, key, self.now_ms)
            self.rows.append(row)
            self.kept.append(row)
            self.end += 1

    def marker(self) -> None:
        self.end += 1

    def clean(self) -> None:
        old = [one for one in self.rows if self.now_ms - one.at_ms >= LAG_MS]
        newest = {one.key: one.offset for one in old}
        self.kept = [one for one in self.kept if one.offset >= newest.get(one.key, 0)]

    def copy(self, most: int) -> None:
        """A transaction of the mirror: at most so many records."""
        ahead = [one for one in self.kept if one.offset >= self.position.next]
        taken = ahead[:most]
        following = taken[-1].offset + 1 if len(ahead) > most else self.end
        read = [RecordMeta(one.offset, one.at_ms, 1) for one in taken]
        piece = Piece(self.position.next, following, self.end, read)
        self.position = advance_position(self.position, piece, self.here, self.now_ms, LAG_MS)
        self.history.append(self.position)
        for row in taken:
            self.copied.append((row, self.here))
            self.here += 1
        self.here += bool(taken)  # the transaction's marker


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.lists(st.integers(0, 2), min_size=1, max_size=5)),
        st.tuples(st.just("wait"), st.sampled_from([1, 12, 22, 30])),
        st.tuples(st.just("clean"), st.none()),
        st.tuples(st.just("marker"), st.none()),
        st.tuples(st.just("copy"), st.integers(1, 4)),
    ),
    min_size=8,
    max_size=40,
)
THOROUGH = settings(max_examples=600)


def run(steps: list[tuple[str, object]]) -> Model:
    model = Model()
    for what, how in steps:
        if what == "wait":
            model.now_ms += int(str(how)) * HOUR_MS
        elif what == "write":
            model.write(how)  # type: ignore[arg-type]
        elif what == "copy":
            model.copy(int(str(how)))
        else:
            getattr(model, what)()
    return model


def holds(model: Model, cut: int) -> bool:
    """Does the copy have the newest value of each key below a cut?"""
    wanted = {one.key: one.offset for one in model.rows if one.offset < cut}
    found = {row.key: row.offset for row, _ in model.copied if row.offset < cut}
    return wanted == found


@given(STEPS)
@THOROUGH
def test_a_cut_that_is_called_whole_holds_every_value(steps: list[tuple[str, object]]) -> None:
    """I5 in a model: whatever is written, compacted and read in whatever order; never a value less."""
    model = run(steps)
    for at in model.history:
        for cut in range(at.whole_from, at.whole_to + 1):
            assert holds(model, cut), f"{cut} is called whole"
        assert at.ended == -1 or holds(model, at.ended)


@given(STEPS)
def test_reading_to_the_end_is_whole_in_the_end(steps: list[tuple[str, object]]) -> None:
    """However late it was, a mirror that has read everything holds the newest cut."""
    model = run(steps)
    model.copy(10_000)
    assert model.position.ended == model.end
    assert model.position.whole_from <= model.end == model.position.whole_to


@given(STEPS)
def test_a_cut_is_translated_exactly(steps: list[tuple[str, object]]) -> None:
    """Never by interpolation: below it lies what lay below it in the origin, above it the rest, markers or not."""
    model = run(steps)
    at, before = model.position, model.history[-2] if len(model.history) > 1 else FIRST
    runs = runs_of(at)
    for cut in range(max(before.next, at.whole_from), at.next + 1):
        local = translated(cut, runs, at.local)
        for row, here in model.copied:
            assert (row.offset < cut) == (here < local)


@given(st.lists(st.integers(1, 3), max_size=30), st.integers(0, 50))
def test_events_are_translated_within_a_batch(steps: list[int], base: int) -> None:
    """Spark cuts a source where it likes; every offset between two records has its place."""
    offsets = [sum(steps[: number + 1]) for number in range(len(steps))]
    piece = Piece(0, offsets[-1] + 1 if offsets else 0, -1, [RecordMeta(one, 0, 1) for one in offsets])
    at = advance_position(FIRST, piece, base, 10**15, NEVER_MS)
    for cut in range(at.next + 1):
        below = sum(1 for one in offsets if one < cut)
        assert translated(cut, runs_of(at), at.local) == (base + below if offsets else 0)


def test_a_position_without_news_costs_no_transaction() -> None:
    at = advance_position(FIRST, Piece(0, 0, 0, []), 0, 5, LAG_MS)
    assert is_worth_writing(at, FIRST), "an empty partition ends at 0, which a milestone waits for"
    assert not is_worth_writing(advance_position(at, Piece(0, 0, 0, []), 0, 9, LAG_MS), at)


def piece_of(first: int, following: int, *offsets: int) -> Piece:
    return Piece(first, following, -1, [RecordMeta(one, 0, 1) for one in offsets])


@pytest.mark.parametrize(
    ("piece", "why"),
    [
        (piece_of(100, 200, *range(100, 200)), "read from offset 100, but the position is 200"),
        (piece_of(100, 200), "read from offset 100, but the position is 200"),
        (piece_of(201, 210, 201), "read from offset 201, but the position is 200"),
        (piece_of(200, 210, 199, 200), "continues at offset 199 after 199"),
        (piece_of(200, 210, *range(200, 205), *range(200, 205)), "continues at offset 200 after 204"),
        (piece_of(200, 204, 200, 204), "continues at offset 204 after 204"),
        (piece_of(200, 199), "continues at offset 199 after 199"),
    ],
    ids=["again", "again, empty", "left out", "from below", "twice", "ends inside", "goes back"],
)
def test_a_piece_that_does_not_go_on_from_the_position_is_refused(piece: Piece, why: str) -> None:
    """Written, its records were twice in the copy or not at all, and nobody behind it could tell."""
    at = advance_position(FIRST, piece_of(0, 200, *range(200)), 0, 0, NEVER_MS)
    with pytest.raises(DivergenceError, match=rf"t/0 .*{why}.*Nothing was written"):
        advance_position(at, piece, 201, 0, NEVER_MS)


def test_a_piece_may_leave_out_what_the_origin_has_not() -> None:
    """Markers, aborted transactions and what compaction took: in front, in between and behind."""
    at = advance_position(FIRST, piece_of(0, 200, *range(200)), 0, 0, NEVER_MS)
    assert advance_position(at, piece_of(200, 220, 203, 204, 209), 201, 0, NEVER_MS).next == 220


def test_somebody_else_s_records_are_a_divergence() -> None:
    require_alone("t", 0, 5, 5)
    for end in (4, 6):
        with pytest.raises(DivergenceError, match=rf"t/0 ends at offset {end}.* must end at 5"):
            require_alone("t", 0, 5, end)


def test_every_mirror_counts_slots_alike() -> None:
    """Frozen: a partition in another slot would not be fenced from an older mirror."""
    assert SLOTS == 4
    assert [slot_of("flights.events", number) for number in range(6)] == [3, 1, 3, 1, 2, 0]
    assert len(set(transactional_ids("flights", "us"))) == SLOTS + 1


def test_a_changelog_keeps_its_name_and_nothing_else_does() -> None:
    """Loops between two mirrors with identity names: only names that hold a region are kept."""
    assert target("j", "j.changelog.g1-us-00000000", "us") == "j.changelog.g1-us-00000000"
    assert target("j", "j.events", "us") == "j.events.from-us"
    assert target("j", "j.milestones", "us") == "j.milestones.from-us"
    assert Cut.of({TopicPartition("a", 0): 1})  # a cut names topics, so its copy names those here


@pytest.mark.parametrize(("age_ms", "whole_from"), [(23 * HOUR_MS - 1, 0), (23 * HOUR_MS, 1)])
def test_a_record_as_old_as_the_lag_may_hide_one_that_was_compacted(age_ms: int, whole_from: int) -> None:
    """Less an hour for clocks that differ; younger ones do not."""
    now_ms = 100 * HOUR_MS
    at = advance_position(
        FIRST, Piece(0, 2, 2, [RecordMeta(0, now_ms - age_ms, 1), RecordMeta(1, now_ms, 1)]), 0, now_ms, LAG_MS
    )
    assert at.whole_from == whole_from


def test_before_anything_is_copied_nothing_is_whole() -> None:
    """From the start of the log on; up to the offset before it."""
    at = initial_position("job", "us", OriginPartition("t", 0, "id", 1), 5, 9, 0)
    assert (at.first, at.before, at.next, at.local) == (5, 5, 5, 9)
    assert (at.whole_from, at.whole_to, at.ended) == (5, 4, -1)


def test_records_are_counted_since_the_first() -> None:
    """Over all pieces; one without records adds none."""
    at = FIRST
    for first, following in ((0, 3), (3, 3), (3, 5)):
        read = [RecordMeta(offset, 0, 10) for offset in range(first, following)]
        at = advance_position(at, Piece(first, following, following, read), at.local, 0, LAG_MS)
    assert (at.records, at.size) == (5, 50)
