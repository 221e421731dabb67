"""A replay from start to end: the job's states, the copy of the events, the sandbox, the comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.client import bounds, make_consumer, partition_count
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.commit_stream import milestones_in
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.past.milestone_point import MilestonePoint
from cutwater.core.past.replay_range import SourceRange, require_kept, require_one_line, source_ranges
from cutwater.core.past.replay_reasons import Explainer, LateWindows
from cutwater.core.past.replayed_rows import SourceOffsets, keeps_places
from cutwater.core.past.state_difference import SharedMeasures
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Milestone
from cutwater.local.machine.extras import require
from cutwater.past.diff import DiffRequest
from cutwater.past.milestone_lookup import NamedMilestone, find_milestone
from cutwater.replay.comparison import (
    Compared,
    Expectation,
    OnDifference,
    State,
    compare,
    comparer_of,
    live_states,
    replayed_state,
)
from cutwater.replay.files import WrittenFile, difference_file, require_folder, write_states
from cutwater.replay.folders import working_folder
from cutwater.replay.left_out import LeftOut, left_out
from cutwater.replay.sandbox import Sandbox
from cutwater.replay.source_copy import Copied, CopyRequest, copy_source

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
class Replay:
    before: Milestone | None
    after: Milestone
    ranges: tuple[SourceRange, ...]
    left_out: LeftOut
    copied: Copied
    rejected: int
    """Events that the sandbox could not use."""
    compared: Compared
    files: list[WrittenFile] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        return not self.compared.summary.differences.rows


def run_replay(request: ReplayRequest, progress: Progress) -> Replay:
    """Replay and compare. Everything is removed at the end, whatever ends it.

    Raises UsageError for milestones that cannot be replayed, or jobs that cannot be compared; UnavailableError if
    brokers or the sandbox do not get on; MachineError if this machine has no room, Java or jars for a sandbox.
    """
    _require_comparable(request)
    if request.out:
        require_folder(request.out)
    before, after = _named(request)
    ranges = source_ranges(request.job.topic, before and before.milestone, after.milestone)
    _require_kept(request, ranges, before, after)
    own = left_out(request.cluster, request.job, after.milestone.generation, ranges, count_late=request.count_late)
    with ExitStack() as stack:
        folder = stack.enter_context(working_folder(request.settings.data_dir))
        report = _reading(progress)
        wanted = _diff_request(request, request.cluster, (request.job, request.by))
        old, live = live_states(wanted, before is not None, folder, stack, report)
        comparer = comparer_of(live.job, request.by, old.job if old else None, request.tolerance)
        offsets = SourceOffsets() if keeps_places(request.by) else None
        replayed, copied, rejected = _counted(request, ranges, own, offsets, live, folder, stack, progress)
        expected = Expectation(request.by, old, replayed, live, offsets)
        explainer = Explainer(request.by.measures, LateWindows(own.windows), request.another)
        with _differences(request.out) as tell:
            compared = compare(expected, comparer, explainer, request.limit, tell, report)
        files = write_states(expected, request.out, report) if request.out else []
    return Replay(before and before.milestone, after.milestone, ranges, own, copied, rejected, compared, files)


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


def _named(request: ReplayRequest) -> tuple[NamedMilestone | None, NamedMilestone]:
    after = find_milestone(request.cluster, request.job.name, request.after)
    if request.before is None:
        return None, after
    before = find_milestone(request.cluster, request.job.name, request.before)
    if not before.is_candidates and not after.is_candidates:
        if before.milestone.sequence > after.milestone.sequence:
            raise UsageError(
                f"{before.milestone.token} is later than {after.milestone.token}: exchange --from and --to"
            )
        require_one_line(before.milestone, after.milestone, _stream(request))
    return before, after


def _stream(request: ReplayRequest) -> Iterator[Milestone]:
    return (one for one, _ in milestones_in(request.cluster, topics.milestones(request.job.name)))


def _require_kept(
    request: ReplayRequest, ranges: tuple[SourceRange, ...], before: NamedMilestone | None, after: NamedMilestone
) -> None:
    topic = request.job.topic
    count = partition_count(request.cluster, topic)
    with closing(make_consumer(request.cluster)) as consumer:
        found = {number: bounds(consumer, topic, number) for number in range(count)}
    for one in ranges:
        if one.partition not in found or found[one.partition][1] < one.end:
            raise UsageError(
                f"{topic}/{one.partition} ends before offset {one.end}, which {after.milestone.token} has read: "
                "the topic was created again, and its events are gone"
            )
    lows = {number: low for number, (low, _) in found.items()}
    require_kept(topic, ranges, lows, after.milestone, _stream(request))


def _diff_request(
    request: ReplayRequest, cluster: Cluster, jobs: tuple[Job, ...], snapshots: bool = True
) -> DiffRequest:
    return DiffRequest(
        cluster=cluster,
        settings=request.settings,
        jobs=jobs,
        before=request.before or request.after,
        after=request.after,
        snapshots=request.snapshots if snapshots else "",
        records_max=request.records_max,
    )


def _reading(progress: Progress) -> Callable[[str, int], None]:
    return lambda doing, count: progress(doing, count, None)


def _counted(
    request: ReplayRequest,
    ranges: tuple[SourceRange, ...],
    own: LeftOut,
    offsets: SourceOffsets | None,
    live: State,
    folder: Path,
    stack: ExitStack,
    progress: Progress,
) -> tuple[State | None, Copied, int]:
    """Return the state that the sandbox has counted, what was copied, and how many events it has rejected."""
    total = sum(one.offsets for one in ranges)
    if not total:
        return None, Copied(), 0
    sandbox = Sandbox(request.by_file, live.milestone.generation.region, folder, request.settings, request.say)
    stack.callback(sandbox.stop)
    sandbox.start_broker(max(one.partition for one in ranges) + 1)
    wanted = CopyRequest(
        source=request.cluster,
        target=sandbox.cluster,
        topic=request.job.topic,
        ranges=ranges,
        left_out=own.offsets,
        bytes_per_s=request.bytes_per_s,
        folder=folder,
        offsets=offsets,
    )
    copied = copy_source(wanted, lambda passed, _size: progress("copying the events", passed, total))
    if not copied.events:
        return None, copied, 0
    sandbox.count(copied.events, lambda done: progress("counting in the sandbox", done, copied.events))
    asked = _diff_request(request, sandbox.cluster, (request.by,), snapshots=False)
    state = replayed_state(asked, live, folder, stack, _reading(progress))
    return state, copied, sandbox.rejected()


@contextmanager
def _differences(out: Path | None) -> Iterator[OnDifference]:
    if out is None:
        yield lambda _change, _reason: None
        return
    with difference_file(out) as file:
        yield file.add
