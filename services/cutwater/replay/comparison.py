"""The job's rows beside those that the replay expects: streamed, so memory does not depend on their number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cutwater.adapters.avro.codec import Codec
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.job.measures import Partials
from cutwater.core.output.state_diff import Rows
from cutwater.core.past.replay_reasons import Explainer, Reason, ReplaySummary
from cutwater.core.past.replayed_rows import ReplayMerge, SourceOffsets, side_by_side
from cutwater.core.past.state_difference import DifferenceSummary, RowChange, RowComparer, SharedMeasures
from cutwater.core.protocol.records import Milestone
from cutwater.past.diff import (
    DiffRequest,
    PlannedState,
    Report,
    RowReader,
    Side,
    StateViews,
    planned_state,
    row_name,
    same_row,
    window_pieces,
    with_carried_jobs,
)
from cutwater.views.query.presenter import Presenter
from cutwater.views.query.view import View

PIECE_ROWS = 1_000
OnDifference = Callable[[RowChange, Reason], None]


@dataclass(frozen=True)
class State:
    """A view at one milestone, and the job of its rows."""

    view: View
    job: Job
    milestone: Milestone

    @property
    def complete_above_ms(self) -> int:
        return self.view.complete_above_ms(self.milestone)

    def pieces(self, above_ms: int, report: Report) -> Iterator[Rows]:
        """Yield the windows that end above the bound, in pieces."""
        return window_pieces(self.view, Side(self.milestone), above_ms, report)


def live_states(
    request: DiffRequest, has_before: bool, folder: Path, stack: ExitStack, report: Report
) -> tuple[State | None, State]:
    """Build the job's states at the two milestones; the first one only if the replay starts with a milestone.
    `stack` closes them. Raises as `planned_state`, and as `StateViews`."""
    request = with_carried_jobs(request)
    views = StateViews(request, report, folder, stack)
    after = planned_state(request, request.after)
    if not has_before:
        return None, _state(after, views.built(after, "live"))
    before = planned_state(request, request.before)
    both = views.of([before, after])
    return _state(before, both[0]), _state(after, both[1])


def replayed_state(request: DiffRequest, beside: State, folder: Path, stack: ExitStack, report: Report) -> State:
    """Build the state that the sandbox has counted, in the layout of the job's own."""
    planned = planned_state(request, request.after)
    views = StateViews(request, report, folder, stack)
    return _state(planned, views.built(planned, "replayed", segment=beside.view.segment_ms))


def _state(planned: PlannedState, view: View) -> State:
    return State(view, planned.job, planned.named.milestone)


@dataclass(frozen=True)
class Expectation:
    """What the job's rows should be. `job`: the one that has counted in the sandbox."""

    job: Job
    before: State | None
    replayed: State | None
    """None if there was no event to count."""
    live: State
    offsets: SourceOffsets | None

    @property
    def above_ms(self) -> int:
        """Windows that end at or below it are not in all states."""
        states = (self.before, self.replayed, self.live)
        return max(one.complete_above_ms for one in states if one is not None)

    def merge(self) -> ReplayMerge:
        return ReplayMerge(self.job, self.before.job if self.before else None, self.offsets)

    def rows(self, report: Report, with_live: bool) -> list[Iterator[Rows]]:
        """Return the rows before, the replayed ones, and the job's own ones if wanted."""
        states = (self.before, self.replayed, *((self.live,) if with_live else ()))
        return [iter(()) if one is None else one.pieces(self.above_ms, report) for one in states]

    def partials(self) -> Callable[[bytes | None, bytes | None], tuple[Partials | None, Partials | None]]:
        """Return what reads a row before and a replayed one."""
        before = Presenter(self.before.job if self.before else self.job).partials
        replayed = Presenter(self.job).partials
        return lambda old, new: (None if old is None else before(old), None if new is None else replayed(new))

    def expected_rows(self, report: Report) -> Iterator[Rows]:
        """Yield the expected rows, in the form of the job that has counted in the sandbox."""
        merge, codec = self.merge(), Codec(self.job.state_schema)
        columns = [one["name"] for one in self.job.state_schema["fields"]]
        partials = self.partials()
        piece: list[tuple[bytes, bytes]] = []
        for name, (old, new) in side_by_side(self.rows(report, with_live=False)):
            if old is None and new is not None and merge.keeps_bytes:
                value = new
            else:
                told = merge.partials(*partials(old, new))
                value = codec.header + codec.encode_body({one: told.get(one) for one in columns})
            piece.append((name, value))
            if len(piece) == PIECE_ROWS:
                yield piece
                piece = []
        if piece:
            yield piece


@dataclass
class Compared:
    measures: SharedMeasures
    not_merged: tuple[str, ...]
    """Shared measures whose rows at the first milestone do not merge with replayed ones: not compared."""
    above_ms: int
    summary: ReplaySummary
    live_rows: int = 0
    expected_rows: int = 0


def comparer_of(live: Job, replayed: Job, before: Job | None, tolerance: float) -> RowComparer:
    """Return what compares the measures that can be. Raises UsageError if no row of one job is one of the
    other's, or no measure can be compared."""
    comparer = RowComparer(live, replayed, tolerance)
    told = ReplayMerge(replayed, before, None).names
    shared = tuple(one for one in comparer.measures.shared if one in told)
    if not shared:
        both = (", ".join(one.name for one in job.measures) for job in (live, replayed))
        raise UsageError(f"no measure can be compared: the job has {next(both)}, and the replay {next(both)}")
    comparer.measures = comparer.measures._replace(shared=shared)
    return comparer


def compare_rows(
    wanted: Expectation,
    comparer: RowComparer,
    explainer: Explainer,
    limit: int,
    tell: OnDifference,
    report: Report,
) -> Compared:
    """Compare every row. `tell`: called with each difference."""
    every = SharedMeasures.of(wanted.live.job, wanted.job)
    left = tuple(one for one in every.shared if one not in comparer.measures.shared)
    summary = ReplaySummary(DifferenceSummary(limit))
    found = Compared(comparer.measures, left, wanted.above_ms, summary)
    for change, reason in _differences(wanted, comparer, explainer, found, report):
        summary.add(change, reason)
        tell(change, reason)
    return found


def _differences(
    wanted: Expectation, comparer: RowComparer, explainer: Explainer, found: Compared, report: Report
) -> Iterator[tuple[RowChange, Reason]]:
    merge, live = wanted.merge(), RowReader(wanted.live.job)
    partials = wanted.partials()
    is_equal = partial(_have_equal_bytes, wanted, merge)
    for storage, (old, new, own) in side_by_side(wanted.rows(report, with_live=True)):
        is_expected = old is not None or new is not None
        found.live_rows += own is not None
        found.expected_rows += is_expected
        if own is not None and is_equal(old, new, own):
            continue
        shown = live.row(own)
        expected = merge.shown(merge.partials(*partials(old, new))) if is_expected else None
        change = comparer.change(row_name(storage), shown, expected)
        if change is not None and shown is not None and expected is not None:
            change, errors = explainer.without_errors(change, shown, expected)
            found.summary.within_error.update(errors)
        if change is not None:
            yield change, explainer.reason(change)


def _have_equal_bytes(
    wanted: Expectation, merge: ReplayMerge, old: bytes | None, new: bytes | None, own: bytes
) -> bool:
    """Return whether the expected row is the job's own, if its bytes tell."""
    form = wanted.live.job.state_schema
    if old is None and new is not None:
        return merge.keeps_bytes and wanted.job.state_schema == form and same_row(new, own)
    if new is None and old is not None and wanted.before is not None:
        return wanted.before.job.state_schema == form and same_row(old, own)
    return False
