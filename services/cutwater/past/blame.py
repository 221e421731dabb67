"""The history of one row: the milestones that changed it, and since which of them it is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.client import partition_count
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.past.row_accounts import SpanLog, changelog_account, output_account
from cutwater.core.past.row_condition import Condition
from cutwater.core.past.row_history import (
    Account,
    Gap,
    Known,
    LoggedValue,
    RowEvent,
    RowHistory,
    Values,
    VisibleSpan,
    row_history,
)
from cutwater.core.past.wrong_since import WrongSince, wrong_since
from cutwater.core.protocol import topics
from cutwater.core.protocol.chain import FIRST_SEQUENCE
from cutwater.core.protocol.cuts import NOWHERE, Cut
from cutwater.past.row_logs import RECORDS_MAX, ChangelogPart, Count, RowLogs, RowOfKey
from cutwater.past.snapshot_rows import SnapshotRows
from cutwater.past.visible_milestones import (
    MILESTONES_MAX,
    VisibleMilestone,
    by_span,
    expired_at,
    visible_milestones,
)
from cutwater.views.query.presenter import Presenter, plain
from cutwater.views.store.window_rows import MergedValue, ValueMerge

GONE = "the changelog {topic} does not exist any more"
COMPACTED = "compaction may have removed older records of the row from {topic}"
TRUNCATED = "records were deleted at the start of {topic}"
FOREIGN = "the rows of {topic} are not those of the job file: {error}"
PRUNED = f"milestones before it were pruned, or are more than the newest {MILESTONES_MAX:,}"


@dataclass(frozen=True)
class BlameRequest:
    cluster: Cluster
    settings: Settings
    job: Job
    row: RowOfKey
    now_ms: Callable[[], int]
    wrong: Condition | None = None
    """The condition of a wrong row; None: only the history is asked for."""
    snapshots: str = ""
    """The store of snapshots; empty for none but those beside a view here."""
    snapshots_max: int = 5
    """The most snapshots that are downloaded."""
    records_max: int = RECORDS_MAX
    count: Count = lambda _topic, _records: None


class GapReason(NamedTuple):
    gap: Gap
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Blame:
    milestones: Mapping[int, VisibleMilestone]
    """By sequence: those that events, gaps and the answer name, and the newest one."""
    newest: VisibleMilestone
    events: tuple[RowEvent, ...]
    sources_before: Mapping[int, Cut]
    """By the sequence of an event: the source cut of the state that it went on from."""
    gaps: tuple[GapReason, ...]
    wrong: WrongSince | None
    snapshots_read: int


@dataclass
class _Logs:
    """What the logs tell, and why they do not tell more."""

    accounts: list[Account] = field(default_factory=list)
    reasons: list[tuple[VisibleSpan, str]] = field(default_factory=list)


def blame(request: BlameRequest) -> Blame:
    """Return the row's history. Raises UsageError for a job without milestones, or logs with too many records;
    UnavailableError if brokers or a store of snapshots do not answer."""
    found = visible_milestones(request.cluster, request.job, request.row)
    if not found:
        raise UsageError(f"the commit stream of {request.job.name} holds no milestone yet")
    spans = by_span(found)
    logs = _read_logs(request, spans)
    begins_empty = found[0].sequence == FIRST_SEQUENCE
    passed = expired_at(found, request.job, request.row)
    history_with = partial(
        row_history,
        [span for span, _ in spans],
        logs.accounts,
        expired_at=passed,
        begins_empty=begins_empty,
    )
    history = history_with()
    by_sequence = {one.sequence: one for one in found}
    rows = SnapshotRows(request.cluster, request.settings, request.job, request.row, request.snapshots)
    wanted = rows.sequences(by_sequence.values(), history.gaps)
    wrong: WrongSince | None = None
    if request.wrong is None:
        history = history_with(_seen(rows, wanted, request.snapshots_max))
    else:
        wrong = _wrong_since(request.wrong, history, rows, wanted, request.snapshots_max)
    gaps = [GapReason(one, _reasons(one, logs)) for one in history.gaps]
    if found[0].sequence > FIRST_SEQUENCE:
        gaps.insert(0, GapReason(Gap(FIRST_SEQUENCE, found[0].sequence - 1), (PRUNED,)))
    named = {one.sequence for one in history.events} | _bounds(history.gaps, wrong)
    return Blame(
        {sequence: by_sequence[sequence] for sequence in named if sequence in by_sequence},
        found[-1],
        history.events,
        {one.sequence: _source_before(one, by_sequence) for one in history.events},
        tuple(gaps),
        wrong,
        rows.read,
    )


def _read_logs(request: BlameRequest, spans: Sequence[tuple[VisibleSpan, list[VisibleMilestone]]]) -> _Logs:
    reader = RowLogs(request.cluster, request.job, request.row, request.now_ms, request.records_max, request.count)
    merge, logs = _Merge(request.job), _Logs()
    for span, milestones in spans:
        part = reader.changelog(span.generation, milestones[-1].partitions)
        topic = topics.changelog(request.job.name, span.generation)
        if part is None:
            logs.reasons.append((span, GONE.format(topic=topic)))
            continue
        log = _span_log(request, span, milestones, part)
        try:
            account = changelog_account(log, request.row.panes, part.young_ms, merge)
        except UsageError as error:
            logs.reasons.append((span, FOREIGN.format(topic=part.topic, error=error)))
            continue
        logs.accounts.append(account)
        if not account.ranges or account.ranges[0].first > span.first:
            logs.reasons.append((span, (COMPACTED if part.complete else TRUNCATED).format(topic=part.topic)))
    if logs.reasons and request.job.output.mode == "updates":
        partitions = partition_count(request.cluster, topics.output(request.job.name))
        hand_overs = [span.first for span, _ in spans[1:]]
        logs.accounts.append(output_account(*reader.output(partitions), hand_overs))
    return logs


def _span_log(
    request: BlameRequest, span: VisibleSpan, milestones: list[VisibleMilestone], part: ChangelogPart
) -> SpanLog:
    pane_ms, horizon_ms = request.job.row_windows.size_ms, milestones[-1].horizon_ms
    cleared = frozenset(one for one in request.row.panes if one + pane_ms <= horizon_ms)
    ends = [one.end for one in milestones]
    return SpanLog(span, part.topic, ends, part.records, cleared, part.complete)


class _Merge:
    """Shows the row of its panes."""

    def __init__(self, job: Job) -> None:
        self._presenter, self._values = Presenter(job), ValueMerge(job)

    def __call__(self, panes: Mapping[int, bytes]) -> Values:
        first, *others = (MergedValue(panes[at]) for at in sorted(panes))
        for other in others:
            first = self._values.merge(first, other)
        shown = self._presenter.values(self._values.encode(first))
        return {name: plain(value) for name, value in shown.items()}


def _seen(rows: SnapshotRows, wanted: Sequence[int], most: int) -> list[LoggedValue]:
    """Return the row in the newest snapshots within the gaps."""
    seen = (rows.row(one) for one in sorted(wanted, reverse=True)[:most])
    return [one for one in seen if one is not None]


def _wrong_since(
    condition: Condition, history: RowHistory, rows: SnapshotRows, wanted: Sequence[int], most: int
) -> WrongSince:
    def probe(sequence: int) -> Known | None:
        if rows.read >= most:
            return None
        seen = rows.row(sequence)
        return None if seen is None else Known(sequence, sequence, seen.values)

    return wrong_since(history.stretches, lambda values: condition(values or {}), wanted, probe)


def _reasons(gap: Gap, logs: _Logs) -> tuple[str, ...]:
    return tuple(why for span, why in logs.reasons if span.first <= gap.last and gap.first <= span.last)


def _bounds(gaps: Iterable[Gap], wrong: WrongSince | None) -> set[int]:
    found = {at for gap in gaps for at in gap}
    named: tuple[Any, ...] = (wrong.first_wrong, wrong.last_right) if wrong else ()
    return found | {one for one in named if one is not None}


def _source_before(event: RowEvent, milestones: Mapping[int, VisibleMilestone]) -> Cut:
    own = milestones[event.sequence]
    before = milestones.get(own.rewinds_to or (event.since or event.sequence) - 1)
    return before.source_cut if before else NOWHERE
