"""The difference of the states at two milestones, each built in a folder of its own and read side by side.

Memory does not depend on the size of the states: both are RocksDB folders, and their rows come in pieces. If both
milestones are of one generation, the second view is a copy of the first one by links, which reads only the
changelog between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cutwater.adapters.avro.codec import HEADER_BYTES
from cutwater.adapters.config.held_part import HeldPart
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.fetch.native_rows import usable
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.generation_jobs import carried_jobs
from cutwater.core.checks.state_comparison import RowName
from cutwater.core.errors import UsageError
from cutwater.core.events.formats import CONFLUENT_HEADER_BYTES, is_confluent
from cutwater.core.job.job import Job
from cutwater.core.output.state_diff import Rows, unequal_rows
from cutwater.core.past.milestone_point import MilestonePoint
from cutwater.core.past.state_difference import (
    DifferenceSummary,
    RowComparer,
    SharedMeasures,
    ShownRow,
    summary_of,
)
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.records import Milestone
from cutwater.core.state.bulk_load import Done
from cutwater.core.state.point_in_time_restore import RestorePlan, RestoreSources, Target, plan
from cutwater.past.milestone_lookup import NamedMilestone, find_milestone, job_of, restore_sources
from cutwater.past.snapshot_tiers import restorer_of, tiers_of
from cutwater.views.query.presenter import Presenter
from cutwater.views.query.view import View
from cutwater.views.snapshots.point_in_time import Rebuild
from cutwater.views.snapshots.restore import Tier
from cutwater.views.store import key_layout
from cutwater.views.store.working_folder import working_folder

RECORDS_MAX = 100_000_000
FOLDER = "diff"
Report = Callable[[str, int], None]
"""Called with what is done, and how many records or rows it has done so far."""


@dataclass(frozen=True)
class DiffRequest:
    cluster: Cluster
    settings: Settings
    """Its data folder is where the two views are built."""
    jobs: tuple[Job, ...]
    """The jobs whose rows the milestones may have, beside those that claims carry; usually one."""
    before: MilestonePoint
    after: MilestonePoint
    snapshots: str = ""
    """The store of snapshots; empty for none."""
    part: Callable[[Job], HeldPart] = lambda _job: HeldPart()
    """Returns the part of a job's state to compare."""
    limit: int = 20
    """The most differences that are kept."""
    tolerance: float = 0.0
    """Relative, for floating-point numbers."""
    workers: int = 1
    records_max: int = RECORDS_MAX
    """The most records of a changelog to read for one side."""


@dataclass
class Side:
    milestone: Milestone
    rows: int = 0
    """The windows that were compared."""


@dataclass
class StateDifference:
    before: Side
    after: Side
    above_ms: int
    """Windows that end at or below it are not compared: they are not in both states."""
    measures: SharedMeasures
    summary: DifferenceSummary = field(default_factory=lambda: DifferenceSummary(0))

    @property
    def events_only_before(self) -> int:
        """Events that only the state before has read, by the offsets of the source."""
        return _events_beyond(self.before.milestone.source_cut, self.after.milestone.source_cut)

    @property
    def events_only_after(self) -> int:
        return _events_beyond(self.after.milestone.source_cut, self.before.milestone.source_cut)


class PlannedState(NamedTuple):
    job: Job
    named: NamedMilestone
    part: HeldPart
    known: RestoreSources
    restore: RestorePlan
    tiers: tuple[Tier, ...]

    @property
    def target(self) -> Target:
        return Target(token=self.named.milestone.token)


def diff_states_at(request: DiffRequest, report: Report = lambda _doing, _count: None) -> StateDifference:
    """Compare two milestones.

    Raises UsageError for a milestone that is not known or not kept any more, or for jobs without a common row;
    UnavailableError if brokers or store do not answer; DivergenceError for rows that a milestone does not prove.
    """
    request = with_carried_jobs(request)
    plans = [planned_state(request, point) for point in (request.before, request.after)]
    comparer = RowComparer(plans[0].job, plans[1].job, request.tolerance)
    with working_folder(request.settings.data_dir / FOLDER) as folder, ExitStack() as stack:
        views = StateViews(request, report, folder, stack).of(plans)
        return _compared(request, comparer, plans, views, report)


def with_carried_jobs(request: DiffRequest) -> DiffRequest:
    """Return the request with the jobs that claims carry, too, so that they are read once for both milestones."""
    try:
        carried = carried_jobs(request.cluster, request.jobs[0].name)
    except UsageError:
        return request  # no claim yet, or no right to read them
    return replace(request, jobs=(*request.jobs, *carried))


def planned_state(request: DiffRequest, point: MilestonePoint) -> PlannedState:
    """Return how the state at a milestone is built. Raises as `diff_states_at`."""
    named = find_milestone(request.cluster, request.jobs[0].name, point)
    milestone = named.milestone
    job = job_of(request.jobs, milestone)
    part = request.part(job)
    settings = request.settings.model_copy(
        update={"generation": milestone.generation, "snapshots": request.snapshots}
    )
    tiers = () if part.selection else tiers_of(settings, job, part.partitions)
    known = restore_sources(request.cluster, job, named, part.partitions, tiers)
    chosen = plan(Target(token=milestone.token), known)
    if chosen.records_max > request.records_max:
        raise UsageError(
            f"up to {milestone.token} there are up to {chosen.records_max:,} records to read: compare fewer keys "
            "with --keys or --prefix, or give a larger --records-max"
        )
    return PlannedState(job, named, part, known, chosen, tiers)


class StateViews:
    """Builds the two views below one folder; `stack` closes them."""

    def __init__(self, request: DiffRequest, report: Report, folder: Path, stack: ExitStack) -> None:
        self._request, self._report, self._folder, self._stack = request, report, folder, stack

    def of(self, plans: list[PlannedState]) -> list[View]:
        first, second = sorted(range(2), key=lambda at: plans[at].named.milestone.sequence)
        older, newer = plans[first], plans[second]
        if self._continues(older, newer):
            folder = self._folder / "newer"
            views = {first: self.built(older, "older", copy=folder)}
            newer = newer._replace(restore=plan(newer.target, newer.known, older.named.milestone))
            views[second] = self.built(newer, "newer")
        else:
            views = {first: self.built(older, "older")}
            layout = views[first].segment_ms
            views[second] = self.built(newer, "newer", segment=layout)
            if views[second].segment_ms != layout:  # a snapshot brings its own layout
                views[second] = self._again(newer, layout)
        return [views[0], views[1]]

    @staticmethod
    def _continues(older: PlannedState, newer: PlannedState) -> bool:
        one, two = older.named, newer.named
        same = one.is_candidates == two.is_candidates and one.milestone.generation == two.milestone.generation
        return same and newer.restore.held

    def _again(self, newer: PlannedState, layout: int) -> View:
        if not newer.restore.held:
            raise UsageError(
                f"{newer.named.milestone.token} is in a snapshot only, whose rows are in another order than those "
                "of the other milestone, as after a change of retention: compare it with one of its own time"
            )
        again = plan(newer.target, replace(newer.known, snapshots=()))
        return self.built(newer._replace(restore=again), "newer-again", segment=layout)

    def built(self, one: PlannedState, name: str, copy: Path | None = None, segment: int | None = None) -> View:
        """Build the state in the folder's `name`. `copy`: a folder for a copy. `segment`: as of `Rebuild`."""
        milestone = one.named.milestone
        said = f"reading {milestone.token}"
        request = self._request
        rebuild = Rebuild(
            request.cluster,
            one.job,
            milestone.generation,
            self._folder / name,
            one.part.partitions,
            now_ms,
            _Loading(partial(self._report, said)),
            request.workers,
            restorer=restorer_of(request.cluster, one.job, milestone.generation, one.part.partitions, one.tiers)
            if one.tiers and one.restore.snapshot
            else None,
            native=request.settings.native and usable(),
            selection=one.part.selection,
            segment=segment,
        )
        self._stack.enter_context(closing(rebuild))
        if not rebuild.shows(milestone):
            rebuild.run(one.restore)
        if copy is not None:
            rebuild.copy_to(copy)
        return rebuild.view()


class _Loading:
    """Passes on how much is loaded."""

    def __init__(self, report: Callable[[int], None]) -> None:
        self._report = report

    def loaded(self, done: Done, _records_max: int) -> None:
        self._report(done.records)


def _compared(
    request: DiffRequest, comparer: RowComparer, plans: list[PlannedState], views: list[View], report: Report
) -> StateDifference:
    sides = [Side(one.named.milestone) for one in plans]
    above_ms = max(view.complete_above_ms(side.milestone) for view, side in zip(views, sides, strict=True))
    found = StateDifference(sides[0], sides[1], above_ms, comparer.measures)
    pieces = [window_pieces(*one, above_ms, report) for one in zip(views, sides, strict=True)]
    one_form = plans[0].job.state_schema == plans[1].job.state_schema
    unequal = unequal_rows(pieces[0], pieces[1], same_row if one_form else _never)
    shown = [RowReader(one.job) for one in plans]
    changes = (
        change
        for storage, before, after in unequal
        if (change := comparer.change(row_name(storage), shown[0].row(before), shown[1].row(after)))
    )
    found.summary = summary_of(changes, request.limit)
    return found


def window_pieces(view: View, side: Side, above_ms: int, report: Report) -> Iterator[Rows]:
    """Yield the windows that end above the bound, in pieces, and count them."""
    above, end_bytes = key_layout.end_suffix(above_ms), key_layout.END_BYTES
    for piece in view.pieces()[1]:
        rows = [row for row in piece if row[0][-end_bytes:] > above]
        if rows:
            side.rows += len(rows)
            report("comparing", side.rows)
            yield rows


class RowReader:
    """Shows the rows of one job."""

    def __init__(self, job: Job) -> None:
        self._presenter, self._measures = Presenter(job), job.measures

    def row(self, value: bytes | None) -> ShownRow | None:
        if value is None:
            return None
        partials = self._presenter.partials(value)
        return ShownRow({one.name: one.present(partials) for one in self._measures}, partials)


def row_name(storage: bytes) -> RowName:
    return RowName(*key_layout.parse(storage))


def same_row(one: bytes, two: bytes) -> bool:
    """Return whether two rows are equal except for their framing."""
    return _body(one) == _body(two)


def _body(value: bytes) -> bytes:
    return value[CONFLUENT_HEADER_BYTES if is_confluent(value) else HEADER_BYTES :]


def _never(_one: bytes, _two: bytes) -> bool:
    return False


def _events_beyond(cut: Cut, other: Cut) -> int:
    before = other.as_dict()
    return sum(max(0, offset - before.get(place, 0)) for place, offset in cut)
