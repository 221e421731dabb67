"""The difference of two milestones as a table and as JSON, for `diff` and `rollback --diff`."""

from __future__ import annotations

from typing import Any

from cutwater.cli.options import JobContext
from cutwater.cli.report import err, iso, out, print_note, table
from cutwater.core.job.job import Job
from cutwater.core.past.milestone_point import MilestonePoint
from cutwater.core.past.state_difference import DifferenceSummary, RowChange, RowKind
from cutwater.core.util.text_tables import Column, Lines
from cutwater.operations.service_main import interrupt_on_signals
from cutwater.past.diff import RECORDS_MAX, DiffRequest, Side, StateDifference, diff_states_at
from cutwater.views.bulk.loader import workers_by_default
from cutwater.views.query.presenter import plain

LIMIT, LIMIT_MAX = 20, 100_000
COLUMNS = ("key", "window from", Column("to", 1), "what", Column("measures", below=True))


def request_of(
    place: JobContext, before: MilestonePoint, after: MilestonePoint, others: tuple[Job, ...] = (), **more: Any
) -> DiffRequest:
    """Return the request for two milestones of a job. `others`: the jobs of generations with other rows, beside
    those that claims carry. `more`: further fields of the request."""
    settings = place.settings
    return DiffRequest(
        cluster=place.cluster,
        settings=settings,
        jobs=(place.job, *others),
        before=before,
        after=after,
        snapshots=place.stack.snapshots if place.stack else settings.snapshots,
        workers=settings.restore_workers or workers_by_default(),
        **{"records_max": RECORDS_MAX, **more},
    )


def compared(request: DiffRequest) -> StateDifference:
    """Return the difference, and show how far the comparison is."""
    interrupt_on_signals()
    with err.task("comparing two milestones", "rows") as progress:
        return diff_states_at(request, lambda doing, count: progress(count, doing))


def exit_code_of(found: StateDifference) -> int:
    """Return 0 if the milestones are equal and 1 if they are not, as diff does."""
    return 1 if found.summary.rows else 0


def difference_json(found: StateDifference) -> dict[str, Any]:
    summary = found.summary
    return {
        "before": _side_json(found.before),
        "after": _side_json(found.after),
        "equal": not summary.rows,
        "compared_above": iso(found.above_ms),
        "events_only_before": found.events_only_before,
        "events_only_after": found.events_only_after,
        "measures": {name: list(names) for name, names in found.measures._asdict().items()},
        "differing_rows": summary.rows,
        **{kind.value: summary.kinds[kind] for kind in RowKind},
        "differing_measures": dict(summary.measures),
        "hidden_measures": dict(summary.hidden),
        "differences": [change_json(one) for one in summary.first],
    }


def _side_json(side: Side) -> dict[str, Any]:
    one = side.milestone
    times = {"committed": iso(one.committed_ms), "watermark": iso(one.watermark_ms)}
    return {"token": one.token, **times, "rows": side.rows}


def change_json(one: RowChange) -> dict[str, Any]:
    before = {change.name: plain(change.before) for change in one.measures}
    after = {change.name: plain(change.after) for change in one.measures}
    return {
        "key": one.name.key,
        "window_start": iso(one.name.start_ms),
        "window_end": iso(one.name.end_ms),
        "kind": one.kind.value,
        "before": None if one.kind is RowKind.ADDED else before,
        "after": None if one.kind is RowKind.REMOVED else after,
        "hidden": list(one.hidden),
    }


def print_difference(found: StateDifference) -> None:
    summary, tokens = found.summary, f"{found.before.milestone.token} and {found.after.milestone.token}"
    if summary.rows:
        title = f"windows that differ between {tokens}: {len(summary.first):,} of {summary.rows:,}"
        out.table(table(title, COLUMNS, map(change_row, summary.first)))
        kinds = ", ".join(f"{summary.kinds[one]:,} {one.value}" for one in RowKind if summary.kinds[one])
        out.print(f"{kinds}{changed_text(summary)}")
    else:
        out.print(f"{tokens} are equal: {found.after.rows:,} windows")
    for note in _notes(found):
        print_note(note)


def changed_text(summary: DifferenceSummary) -> str:
    """Return in how many windows each measure changed, behind a semicolon; nothing if none did."""
    by_measure = ", ".join(f"{name} in {count:,}" for name, count in summary.measures.most_common())
    return f"; changed: {by_measure}" if by_measure else ""


def change_row(one: RowChange) -> tuple[str | Lines, ...]:
    """Return a difference's row below COLUMNS."""
    name = one.name
    lines = [f"{each.name}: {_text(each.before)} → {_text(each.after)}" for each in one.measures]
    lines += [f"{measure}: the same, of other partials" for measure in one.hidden]
    return name.key, iso(name.start_ms), iso(name.end_ms), one.kind.value, Lines(tuple(lines))


def _text(value: Any) -> str:
    return "none" if value is None else str(plain(value))


def _notes(found: StateDifference) -> list[str]:
    """Return what else to know about the comparison."""
    one, two = found.before.milestone.token, found.after.milestone.token
    notes = [f"{found.before.rows:,} windows of {one} and {found.after.rows:,} of {two} were compared"]
    if found.above_ms:
        notes.append(f"windows that end by {iso(found.above_ms)} were not compared: not both milestones hold them")
    apart = [
        f"{count:,} events that {token} has not"
        for count, token in ((found.events_only_before, two), (found.events_only_after, one))
        if count
    ]
    if apart:
        notes.append(f"the milestones have not read the same events: there are {' and '.join(apart)}")
    for token, names in ((one, found.measures.only_before), (two, found.measures.only_after)):
        if names:
            notes.append(f"only {token} has {', '.join(names)}: not compared")
    return notes
