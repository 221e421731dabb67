"""The history of a row, against a model that writes, compacts, publishes and rolls back."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.past.row_accounts import OutputBatch, RowRecord, SpanLog, changelog_account, output_account
from cutwater.core.past.row_history import (
    Account,
    AccountRange,
    Base,
    EventKind,
    Gap,
    Known,
    LoggedValue,
    RowHistory,
    Unknown,
    VisibleSpan,
    row_history,
    undone_ranges,
)
from cutwater.core.protocol.generation import Generation

PANES = (0, 10)
FIRST = Generation(1, "local")
YOUNG_MS = 1_000


def merge(panes: Any) -> dict[str, int]:
    """The sum of the panes' numbers."""
    return {"count": sum(value[0] for value in panes.values())}


@dataclass
class Model:
    """One generation after the other. Offsets, sequences and times grow by one with each epoch's record."""

    spans: list[VisibleSpan] = field(default_factory=list)
    logs: list[SpanLog] = field(default_factory=list)
    truth: dict[int, dict[str, int] | None] = field(default_factory=dict)
    """The row by sequence."""
    writes: set[int] = field(default_factory=set)
    """The sequences of milestones that wrote the row."""

    def generation(self, epochs: list[dict[int, int]], rewinds_to: int, old_ms: int) -> None:
        """`epochs`: the panes that each milestone writes. `old_ms`: when the records before it were written."""
        number = len(self.spans) + 1
        first = self.spans[-1].last + 1 if self.spans else 1
        state = dict(self.states[rewinds_to or first - 1]) if self.spans else {}
        records, ends, offset = list[RowRecord](), list[int](), 0
        for at, epoch in enumerate(epochs):
            written = {**state, **epoch} if at == 0 else epoch
            for pane, value in written.items():
                records.append(RowRecord(offset, pane, bytes([value]), old_ms + offset))
                offset += 1
            offset += 1  # a record of another key
            state = {**state, **epoch}
            ends.append(offset)
            self.states[first + at] = dict(state)
            self.truth[first + at] = (
                merge({pane: bytes([value]) for pane, value in state.items()}) if state else None
            )
            if epoch:
                self.writes.add(first + at)
        generation = Generation(number, "local", f"{number - 1:08x}" if number > 1 else "00000000")
        span = VisibleSpan(generation, first, first + len(epochs) - 1, rewinds_to if self.spans else 0)
        self.spans.append(span)
        self.logs.append(SpanLog(span, f"changelog-{number}/0", ends, records, frozenset()))

    states: dict[int, dict[int, int]] = field(default_factory=dict)

    def accounts(self) -> list[Account]:
        return [changelog_account(one, PANES, YOUNG_MS, merge) for one in self.logs]

    def compacted(self, gone: list[dict[int, int]]) -> None:
        """Remove the first records of each pane, as compaction does: only records that a later one replaces, and
        only if that one is old enough. `gone`: by log, how many of each pane at most."""
        for at, (log, panes) in enumerate(zip(self.logs, gone, strict=False)):
            kept = list(log.records)
            for pane, count in panes.items():
                own = [one for one in kept if one.pane == pane]
                for one, later in list(pairwise(own))[:count]:
                    if later.written_ms > YOUNG_MS:
                        break
                    kept.remove(one)
            self.logs[at] = log._replace(records=kept)

    def published(self, sizes: list[int]) -> list[OutputBatch]:
        """The output's end markers: milestones of a span, some of them as one."""
        batches = []
        before: dict[str, int] | None = None
        for span in self.spans:
            left = list(range(span.first, span.last + 1))
            while left:
                size = sizes[len(batches) % len(sizes)]
                part, left = left[:size], left[size:]
                after = self.truth[part[-1]]
                wrote = self.writes & set(part)
                changed = wrote if part[0] > span.first or span.first == 1 else before != after
                row = LoggedValue(0, after, "output/0@1") if changed and (wrote or before != after) else None
                batches.append(OutputBatch(part[0], part[-1], row))
                before = after
        return batches


EPOCH = st.dictionaries(st.sampled_from(PANES), st.integers(1, 3), max_size=2)
GENERATION = st.tuples(
    st.lists(EPOCH, min_size=1, max_size=6), st.integers(0, 12), st.sampled_from([0, 998, 2_000])
)
GONE = st.lists(st.dictionaries(st.sampled_from(PANES), st.integers(0, 4)), min_size=4, max_size=4)
SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=6)


def model_of(generations: list[Any]) -> Model:
    model = Model()
    for epochs, back, old_ms in generations:
        last = model.spans[-1].last if model.spans else 0
        model.generation(epochs, back if 0 < back < last else 0, old_ms)
    return model


def told(history: RowHistory) -> dict[int, Any]:
    """The row by sequence, where it is known."""
    return {
        at: one.values
        for one in history.stretches
        if isinstance(one, Known)
        for at in range(one.first, one.last + 1)
    }


def require_whole(history: RowHistory, model: Model) -> None:
    """The stretches cover every milestone once."""
    covered = [at for one in history.stretches for at in range(one.first, one.last + 1)]
    assert covered == list(range(1, model.spans[-1].last + 1))


@given(st.lists(GENERATION, min_size=1, max_size=3))
def test_without_compaction_the_history_is_whole(generations: list[Any]) -> None:
    """Every milestone that changed the row is named, with what the row was before and after."""
    model = model_of([(epochs, back, 2 * YOUNG_MS) for epochs, back, _ in generations])
    history = row_history(model.spans, model.accounts(), begins_empty=True)
    assert history.gaps == ()
    assert told(history) == model.truth
    before: Any = None
    for event in history.events:
        assert (event.before_known, event.before, event.after) == (
            True,
            model.truth.get(event.sequence - 1),
            model.truth[event.sequence],
        )
        assert (event.kind is EventKind.REWRITTEN) == (event.before == event.after)
        assert event.before == before
        before = event.after
    changed = {at for at, row in model.truth.items() if row != model.truth.get(at - 1)}
    assert changed <= {one.sequence for one in history.events}


@given(st.lists(GENERATION, min_size=1, max_size=3), GONE, SIZES, st.integers(0, 5), st.booleans())
def test_whatever_is_lost_what_is_told_is_true(
    generations: list[Any], gone: list[Any], sizes: list[int], cut: int, with_output: bool
) -> None:
    """After compaction and the output's retention: no milestone is told wrongly, and gaps say what is missing."""
    model = model_of(generations)
    model.compacted(gone)
    accounts = model.accounts()
    if with_output:
        batches = model.published(sizes)
        accounts.append(
            output_account(batches[cut:], cut > 0, [one.first for one in model.spans[1:]])
            if cut < len(batches)
            else Account("o", (), ())
        )
    history = row_history(model.spans, accounts, begins_empty=True)
    require_whole(history, model)
    for at, row in told(history).items():
        assert row == model.truth[at], at
    inside = {at for gap in history.gaps for at in range(gap.first, gap.last + 1)}
    named = {one.sequence for one in history.events}
    merged = {at for one in history.events if one.since for at in range(one.since, one.sequence)}
    changed = {at for at, row in model.truth.items() if row != model.truth.get(at - 1)}
    assert changed <= named | inside | merged
    for event in history.events:
        assert event.after == model.truth[event.sequence]
        if event.before_known and not event.since:
            assert event.before == model.truth.get(event.sequence - 1)


@given(st.lists(GENERATION, min_size=1, max_size=3), GONE, st.sets(st.integers(1, 18)))
def test_snapshots_show_the_row_within_gaps(generations: list[Any], gone: list[Any], at: set[int]) -> None:
    """A snapshot in a gap is shown as it is; one elsewhere adds nothing."""
    model = model_of(generations)
    model.compacted(gone)
    snapshots = [LoggedValue(one, model.truth[one], "s3://x") for one in sorted(at) if one in model.truth]
    without = row_history(model.spans, model.accounts(), begins_empty=True)
    history = row_history(model.spans, model.accounts(), snapshots, begins_empty=True)
    require_whole(history, model)
    assert history.gaps == without.gaps
    inside = {one.sequence for one in snapshots if any(g.first <= one.sequence <= g.last for g in without.gaps)}
    assert {one.sequence for one in history.events if one.source == "snapshot"} <= inside
    known = told(history)
    assert inside <= known.keys()
    assert all(row == model.truth[at] for at, row in known.items())


@given(st.lists(GENERATION, min_size=1, max_size=3), st.integers(1, 18))
def test_a_window_that_has_passed_the_horizon_is_gone(generations: list[Any], at: int) -> None:
    """Nothing is told after that milestone, whatever the logs hold."""
    model = model_of(generations)
    if at > model.spans[-1].last:
        return
    history = row_history(model.spans, model.accounts(), expired_at=at, begins_empty=True)
    require_whole(history, model)
    assert all(one.sequence < at or one.kind is EventKind.EXPIRED for one in history.events)
    assert all(row is None for sequence, row in told(history).items() if sequence >= at)


@given(st.lists(GENERATION, min_size=1, max_size=4))
def test_undone_is_what_no_parent_of_the_newest_holds(generations: list[Any]) -> None:
    """Against a walk from each milestone to its parent."""
    model = model_of(generations)
    line, at = set[int](), model.spans[-1].last
    while at:
        span = next(one for one in model.spans if one.first <= at <= one.last)
        line |= set(range(span.first, at + 1))
        at = span.rewinds_to or span.first - 1
    undone = {at for gap in undone_ranges(model.spans) for at in range(gap.first, gap.last + 1)}
    assert undone == set(range(1, model.spans[-1].last + 1)) - line


def test_a_rollback_is_an_event_of_its_own() -> None:
    """Readers saw the row go back; what came between is marked."""
    model = Model()
    model.generation([{0: 1}, {0: 2}, {0: 3}], 0, 2_000)
    model.generation([{}, {0: 5}], 1, 2_000)
    events = row_history(model.spans, model.accounts(), begins_empty=True).events
    assert [(one.sequence, one.kind.value, one.undone) for one in events] == [
        (1, "added", False),
        (2, "changed", True),
        (3, "changed", True),
        (4, "changed", False),
        (5, "changed", False),
    ]
    assert (events[3].before, events[3].after) == ({"count": 3}, {"count": 1})


def test_a_gap_is_named_if_nothing_holds_the_older_records() -> None:
    """An old first record may have had one before it: what it replaced is not known."""
    model = Model()
    model.generation([{0: 1}, {0: 2}, {0: 3}, {}], 0, 0)
    model.compacted([{0: 2}])
    history = row_history(model.spans, model.accounts(), begins_empty=True)
    assert history.gaps == (Gap(1, 2),)
    assert [(one.sequence, one.kind.value, one.before_known) for one in history.events] == [(3, "changed", False)]


def test_of_milestones_that_were_published_as_one_only_the_last_is_known() -> None:
    """Where another log begins in the middle of them, the row before it is not known."""
    spans = [VisibleSpan(FIRST, 1, 4)]
    values = [LoggedValue(1, {"count": 1}, "o"), LoggedValue(4, {"count": 4}, "o", since=2)]
    output = Account("output", (AccountRange(1, 4, Base.UNKNOWN),), tuple(values))
    history = row_history(spans, [output], begins_empty=True)
    assert history.stretches == (Known(1, 1, {"count": 1}), Unknown(2, 3), Known(4, 4, {"count": 4}))
    assert [(one.sequence, one.since, one.before) for one in history.events] == [
        (1, 0, None),
        (4, 2, {"count": 1}),
    ]
    later = Account("changelog", (AccountRange(3, 4, Base.UNKNOWN),), (LoggedValue(3, {"count": 3}, "c"),))
    history = row_history(spans, [later, output], begins_empty=True)
    assert history.stretches == (Known(1, 1, {"count": 1}), Unknown(2, 2), Known(3, 4, {"count": 3}))
    assert history.gaps == (Gap(2, 2),)
    assert history.events[-1].before_known is False


def test_a_hand_over_that_was_published_with_later_milestones_leaves_a_gap() -> None:
    """Only the difference to its last milestone is published: the row may have changed, and changed back."""
    batches = [OutputBatch(1, 2, None), OutputBatch(3, 5, None), OutputBatch(6, 6, None)]
    bounds = [one[:2] for one in output_account(batches, False, [4]).ranges]
    assert bounds == [(1, 2), (5, 6)]
    assert [one[:2] for one in output_account(batches, False, [6]).ranges] == [(1, 6)]


def test_records_that_were_deleted_make_the_start_unknown() -> None:
    """Young records prove nothing if the start of the log is gone."""
    model = Model()
    model.generation([{}, {0: 2}, {}], 0, 2_000)
    log = model.logs[0]._replace(complete=False, records=[one for one in model.logs[0].records if one.pane == 0])
    assert changelog_account(log, (0,), YOUNG_MS, merge).ranges == (AccountRange(2, 3, Base.UNKNOWN),)
    assert changelog_account(log._replace(records=[]), (0,), YOUNG_MS, merge).ranges == ()


def test_a_row_that_may_have_been_cleared_is_not_taken_for_one_that_never_was() -> None:
    """Below the horizon tombstones remove the records of a row."""
    span = VisibleSpan(FIRST, 1, 3)
    log = SpanLog(span, "changelog/0", [1, 2, 3], [], frozenset({0}))
    assert changelog_account(log, (0,), YOUNG_MS, merge).ranges == ()
    kept = log._replace(cleared=frozenset())
    assert changelog_account(kept, (0,), YOUNG_MS, merge).ranges == (AccountRange(1, 3, Base.STATE),)


def test_an_output_that_lost_its_start_tells_from_its_first_whole_milestone_on() -> None:
    batches = [
        OutputBatch(1, 4, None),
        OutputBatch(5, 5, LoggedValue(0, {"count": 1}, "o")),
        OutputBatch(6, 8, None),
    ]
    assert output_account(batches, True).ranges == (AccountRange(5, 8, Base.UNKNOWN),)
    assert output_account(batches[:1], True) == Account("output", (), ())
    assert [one.sequence for one in output_account(batches, True).logged] == [5]
