"""A replay from start to end: the job's states, the copy of the events, the sandbox, the comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.commit_stream import milestones_in
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.past.milestone_point import MilestonePoint
from cutwater.core.past.replay_range import SourceRange, require_one_line, require_source_kept, source_ranges
from cutwater.core.past.replay_reasons import Explainer, LateWindows
from cutwater.core.past.replayed_rows import SourceOffsets, keeps_places, merging
from cutwater.core.past.state_difference import SharedMeasures
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Milestone
from cutwater.local.machine.extras import require
from cutwater.past.diff import DiffRequest
from cutwater.past.milestone_lookup import find_milestone
from cutwater.replay.comparison import (
    Compared,
    Expectation,
    OnDifference,
    State,
    compare_rows,
    comparer_of,
    live_states,
    replayed_state,
)
from cutwater.replay.excluded_events import ExcludedEvents, exclude_events
from cutwater.replay.files import WrittenFile, difference_file, require_folder, write_states
from cutwater.replay.sandbox import Sandbox
from cutwater.replay.source_copy import Copied, CopyRequest, copy_source
from cutwater.views.store.working_folder import working_folder

FOLDER = "replay"
Progress = Callable[[str, int, int | None], None]
"""Called with what is done, how much of it is done, and of how much; None if that is not known."""


@dataclass(frozen=True)
class ReplayRequest:
    cluster: Cluster
    settings: Settings
    """Its data folder is where the sandbox is."""
    job: Job
    """The running job."""
    by: Job
    """The job that counts in the sandbox."""
    by_file: Path
    another: bool
    """Whether that is another job file than the running one."""
    before: MilestonePoint | None
    """None for the start of the source."""
    after: MilestonePoint
    snapshots: str
    """The store of snapshots; empty for none."""
    bytes_per_s: int
    count_late: bool
    limit: int
    """The most differences that are kept."""
    tolerance: float
    """Relative, for floating-point numbers."""
    records_max: int
    """The most records of a changelog to read for one milestone."""
    out: Path | None
    """The folder for Parquet files."""
    say: Callable[[str], None]


@dataclass(frozen=True)
class ReplayResult:
    before: Milestone | None
    after: Milestone
    ranges: tuple[SourceRange, ...]
    left_out: ExcludedEvents
    copied: Copied
    rejected: int
    """Events that the sandbox could not use."""
    compared: Compared
    files: list[WrittenFile] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        return not self.compared.summary.differences.rows


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # other replays work there
        folder.rmdir()


def run_replay(request: ReplayRequest, progress: Progress) -> ReplayResult:
    """Replay and compare. Everything is removed at the end, whatever ends it.

    Raises UsageError for milestones that cannot be replayed, or jobs that cannot be compared; UnavailableError if
    brokers or the sandbox do not get on; MachineError if this machine has no room, Java or jars for a sandbox.
    """
    _require_comparable(request)
    if request.out:
        require_folder(request.out)
    before, after = _milestones(request)
    ranges = source_ranges(request.job.topic, before, after)
    _require_source(request, ranges, after)
    own = exclude_events(request.cluster, request.job, after.generation, ranges, count_late=request.count_late)
    with ExitStack() as stack:
        parent = request.settings.data_dir.resolve() / FOLDER
        stack.callback(_remove_empty, parent)
        folder = stack.enter_context(working_folder(parent))
        made = _Replaying(request, progress, folder, stack)
        old, live = made.live(before, after)
        comparer = comparer_of(live.job, request.by, old.job if old else None, request.tolerance)
        replayed = made.counted(ranges, own, live)
        expected = Expectation(request.by, old, replayed, live, made.offsets)
        explainer = Explainer(merging(live.job, request.by), LateWindows(own.windows), request.another)
        with _differences(request.out) as tell:
            compared = compare_rows(expected, comparer, explainer, request.limit, tell, made.report)
        files = write_states(expected, request.out, made.report) if request.out else []
    return ReplayResult(before, after, ranges, own, made.copied, made.rejected, compared, files)


class _Replaying:
    """Builds the states to compare below one folder; `stack` ends what runs."""

    def __init__(self, request: ReplayRequest, progress: Progress, folder: Path, stack: ExitStack) -> None:
        self._request, self._progress, self._folder, self._stack = request, progress, folder, stack
        self.offsets = SourceOffsets() if keeps_places(request.by) else None
        self.copied = Copied()
        self.rejected = 0
        """Events that the sandbox could not use."""

    def report(self, doing: str, count: int) -> None:
        self._progress(doing, count, None)

    def live(self, before: Milestone | None, after: Milestone) -> tuple[State | None, State]:
        """Return the job's states at the milestones."""
        request = self._request
        asked = self._diff_request(request.cluster, (request.job, request.by), before or after, after)
        asked = replace(asked, snapshots=request.snapshots)
        return live_states(asked, before is not None, self._folder, self._stack, self.report)

    def counted(self, ranges: tuple[SourceRange, ...], own: ExcludedEvents, live: State) -> State | None:
        """Return the state that the sandbox has counted; None if there was no event."""
        if not any(one.offsets for one in ranges):
            return None
        request = self._request
        region = live.milestone.generation.region
        sandbox = Sandbox(request.by_file, region, self._folder, request.settings, request.say)
        self._stack.callback(sandbox.stop)
        sandbox.start_broker(max(one.partition for one in ranges) + 1)
        self.copied = self._copy(sandbox, ranges, own)
        events = self.copied.events
        if not events:
            return None
        last = sandbox.count(events, lambda done: self._progress("counting in the sandbox", done, events))
        self.rejected = sandbox.rejected()
        asked = self._diff_request(sandbox.cluster, (request.by,), last, last)
        return replayed_state(asked, live, self._folder, self._stack, self.report)

    def _copy(self, sandbox: Sandbox, ranges: tuple[SourceRange, ...], own: ExcludedEvents) -> Copied:
        total = sum(one.offsets for one in ranges)
        wanted = CopyRequest(
            source=self._request.cluster,
            target=sandbox.cluster,
            topic=self._request.job.topic,
            ranges=ranges,
            left_out=own.offsets,
            bytes_per_s=self._request.bytes_per_s,
            folder=self._folder,
            offsets=self.offsets,
        )
        return copy_source(wanted, lambda passed, _size: self._progress("copying the events", passed, total))

    def _diff_request(
        self, cluster: Cluster, jobs: tuple[Job, ...], before: Milestone, after: Milestone
    ) -> DiffRequest:
        return DiffRequest(
            cluster=cluster,
            settings=self._request.settings,
            jobs=jobs,
            before=MilestonePoint(token=before.token),  # `latest` may be another one by now
            after=MilestonePoint(token=after.token),
            records_max=self._request.records_max,
        )


def _require_comparable(request: ReplayRequest) -> None:
    """Raise UsageError before anything is read."""
    job, by = request.job, request.by
    if job.attached or by.attached:
        raise UsageError(
            f"job {(job if job.attached else by).name} is attached to a query of your own, which only your own "
            "program runs: a replay needs a job file with a source"
        )
    if by.topic != job.topic:
        raise UsageError(
            f"{request.by_file} counts {by.topic}, and the running job {job.topic}: no event is in both"
        )
    SharedMeasures.of(job, by)
    require("local", "pyspark", "jgo")


def _milestones(request: ReplayRequest) -> tuple[Milestone | None, Milestone]:
    after = find_milestone(request.cluster, request.job.name, request.after)
    if request.before is None:
        return None, after.milestone
    before = find_milestone(request.cluster, request.job.name, request.before)
    if not before.is_candidates and not after.is_candidates:
        if before.milestone.sequence > after.milestone.sequence:
            raise UsageError(
                f"{before.milestone.token} is later than {after.milestone.token}: exchange --from and --to"
            )
        require_one_line(before.milestone, after.milestone, _stream(request))
    return before.milestone, after.milestone


def _stream(request: ReplayRequest) -> Iterator[Milestone]:
    return (one for one, _ in milestones_in(request.cluster, topics.milestones(request.job.name)))


def _require_source(request: ReplayRequest, ranges: tuple[SourceRange, ...], after: Milestone) -> None:
    topic = request.job.topic
    count = partition_count(request.cluster, topic)
    with closing(make_consumer(request.cluster)) as consumer:
        found = {number: bounds(consumer, topic, number) for number in range(count)}
    for one in ranges:
        if one.partition not in found or found[one.partition][1] < one.end:
            raise UsageError(
                f"{topic}/{one.partition} ends before offset {one.end}, which {after.token} has read: the topic "
                "was created again, and its events are gone"
            )
    lows = {number: low for number, (low, _) in found.items()}
    require_source_kept(topic, ranges, lows, after, _stream(request))


@contextmanager
def _differences(out: Path | None) -> Iterator[OnDifference]:
    if out is None:
        yield lambda _change, _reason: None
        return
    with difference_file(out) as file:
        yield file.add
