"""`blame`: the milestones that changed one row, and since which of them it is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cutwater.adapters.runtime.clock import now_ms
from cutwater.cli.key_argument import KeyCommand
from cutwater.cli.options import (
    BootstrapOption,
    DataDirOption,
    JobNameOption,
    JsonOption,
    WideOption,
    find_job,
)
from cutwater.cli.past.diff import JobFileOption
from cutwater.cli.report import err, iso, out, print_json, print_note, report_errors, table
from cutwater.core.errors import UsageError
from cutwater.core.events.key_columns import key_text
from cutwater.core.job.job import Job
from cutwater.core.past.row_condition import row_condition
from cutwater.core.past.row_history import RowEvent
from cutwater.core.past.wrong_since import WrongSince
from cutwater.core.protocol.cuts import Cut
from cutwater.core.util.text_tables import Column, Lines
from cutwater.core.util.timestamps import moment_ms
from cutwater.operations.service_main import interrupt_on_signals, keep_private
from cutwater.past.blame import Blame, BlameRequest, GapReason
from cutwater.past.blame import blame as run_blame
from cutwater.past.row_logs import RECORDS_MAX, RowOfKey

SNAPSHOTS = 5
_COLUMNS = (
    *("milestone", Column("committed", 1), "what", Column("measures", below=True)),
    *(Column("writer", 3), Column("source offsets", below=True), Column("from", 2)),
)


@report_errors
def blame(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY... WINDOW",
            help="The key, or a word for each of its columns; last the window's start: ISO 8601 or ms since 1970.",
        ),
    ],
    wrong_since: Annotated[
        str | None,
        typer.Option(
            help="A condition of a wrong row, such as 'flights > 5 and mean is null': say since when it holds."
        ),
    ] = None,
    snapshots: Annotated[
        int, typer.Option(min=0, max=100, help="The most snapshots to download where no log tells the row.")
    ] = SNAPSHOTS,
    records_max: Annotated[
        int, typer.Option(min=1, max=10**12, help="Limit of records to read of one partition of a log.")
    ] = RECORDS_MAX,
    job_file: JobFileOption = None,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """Show the milestones that changed one row, with before and after, writer and source offsets.

    The row's records are read from the changelogs of all generations on the commit stream; of a sliding window,
    those of its panes. Compaction removes old records. What it may have removed is read from the output
    (output.mode: updates), as far back as that is kept. Where neither tells it, snapshots show the row at single
    milestones. What nothing tells any more is listed as a gap, with the reason.

    With --wrong-since the milestone is named since which the condition holds, up to now. Where no log tells the
    row, snapshots are searched by bisection. A condition compares measures, numbers and texts in quotes by
    = != < <= > >= and 'is null', joined by and, or, not. A row that is not there has nulls only.

    Exit 0: the history is shown; with --wrong-since, the row is right at the newest milestone. 1: with
    --wrong-since, it is wrong, or not known; otherwise, nothing is known of such a row. 2: no such window, a wrong
    condition, or too many records. 4: brokers do not answer.

    Examples:  cutwater blame JFK 2013-01-02T11:00:00Z  ·  cutwater blame JFK UA 1357124400000 --json
    ·  cutwater blame JFK 2013-01-02T11:00:00Z --wrong-since 'flights > 30 or mean_delay is null'
    ·  cutwater blame JFK 2013-01-02T11:00:00Z --job-file job.yaml --bootstrap-servers kafka-1:9092 --snapshots 0
    """
    keep_private()
    interrupt_on_signals()
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    row = row_of(place.job, words)
    condition = row_condition(wrong_since, place.job) if wrong_since is not None else None
    with err.task("reading the row's history", "records") as progress:
        found = run_blame(
            BlameRequest(
                cluster=place.cluster,
                settings=place.settings,
                job=place.job,
                row=row,
                now_ms=now_ms,
                wrong=condition,
                snapshots=place.stack.snapshots if place.stack else place.settings.snapshots,
                snapshots_max=snapshots,
                records_max=records_max,
                count=lambda topic, records: progress(records, f"reading {topic}"),
            )
        )
    if as_json:
        print_json(blame_json(row, found))
    else:
        print_blame(row, found)
    if found.wrong is not None:
        return 0 if found.wrong.newest_known and found.wrong.first_wrong is None else 1
    return 0 if found.events else 1


def row_of(job: Job, words: list[str]) -> RowOfKey:
    """Return the row that the words name. Raises UsageError if they name none."""
    *key, window = words
    try:
        start_ms = moment_ms(window)
    except ValueError:
        raise UsageError(
            f"{window[:60]!r} is no window's start: write the key, then 2026-01-31T08:00:00Z or milliseconds"
        ) from None
    if job.key_columns is None and len(key) != 1:
        raise UsageError(
            "the job's key is one column: write one key and a window, as in: JFK 2026-01-31T08:00:00Z"
        )
    columns = job.key_columns
    if columns is None or (len(key) == 1 != len(columns) and key[0].startswith("[")):
        return RowOfKey.of(job, job.stored_key(key[0]), start_ms)
    if len(key) != len(columns):
        names = ", ".join(one.name for one in columns) or "none"
        raise UsageError(f"the key's columns are {names}: write {len(columns)} words, then the window's start")
    return RowOfKey.of(job, job.stored_key(key_text(key)), start_ms)


def blame_json(row: RowOfKey, found: Blame) -> dict[str, Any]:
    window = row.window
    return {
        "key": window.key,
        "window_start": iso(window.start_ms),
        "window_end": iso(window.end_ms),
        "newest": found.newest.token,
        "events": [_event_json(one, found) for one in found.events],
        "gaps": [_gap_json(one, found) for one in found.gaps],
        "wrong_since": _wrong_json(found.wrong, found) if found.wrong else None,
        "snapshots_read": found.snapshots_read,
    }


def _event_json(one: RowEvent, found: Blame) -> dict[str, Any]:
    milestone, writer = found.milestones[one.sequence], one.writer
    return {
        "token": milestone.token,
        "first_sequence": one.since or one.sequence,
        "committed": iso(milestone.committed_ms),
        "kind": one.kind.value,
        "before_known": one.before_known,
        "before": one.before,
        "after": one.after,
        "undone": one.undone,
        "from": one.source,
        "record": one.place or None,
        "writer": {**writer._asdict(), "generation": str(writer.generation)} if writer else None,
        "source": _source_json(found.sources_before[one.sequence], milestone.source_cut),
    }


def _source_json(before: Cut, cut: Cut) -> dict[str, list[int]]:
    """Return first offset and end of what was read between two cuts, of partitions that have any."""
    was = before.as_dict()
    return {
        f"{place.topic}/{place.partition}": [was.get(place, 0), end]
        for place, end in cut
        if end != was.get(place, 0)
    }


def _gap_json(one: GapReason, found: Blame) -> dict[str, Any]:
    first, last = one.gap
    return {
        "first_sequence": first,
        "last_sequence": last,
        "from": _committed(first, found.milestones),
        "to": _committed(last, found.milestones),
        "reasons": list(one.reasons),
    }


def _committed(sequence: int, milestones: Mapping[int, Any]) -> str | None:
    one = milestones.get(sequence)
    return iso(one.committed_ms) if one else None


def _wrong_json(wrong: WrongSince, found: Blame) -> dict[str, Any]:
    return {
        "newest_known": wrong.newest_known,
        "first_wrong": _token(wrong.first_wrong, found),
        "last_right": _token(wrong.last_right, found),
        "exact": wrong.exact,
        "assumed": [list(one) for one in wrong.assumed],
    }


def _token(sequence: int | None, found: Blame) -> str | None:
    one = found.milestones.get(sequence) if sequence is not None else None
    return str(one.token) if one else None


def print_blame(row: RowOfKey, found: Blame) -> None:
    window = row.window
    title = f"{window.key}, {iso(window.start_ms)} to {iso(window.end_ms)}, up to {found.newest.token}"
    if found.events:
        out.table(table(title, _COLUMNS, (_row(one, found) for one in found.events)))
    else:
        out.print(f"{title}: no change is known")
    for gap in found.gaps:
        print_note(_gap_text(gap, found))
    if found.wrong is not None:
        out.print(_wrong_text(found.wrong, found))


def _row(one: RowEvent, found: Blame) -> tuple[str | Lines, ...]:
    milestone = found.milestones[one.sequence]
    source = _source_json(found.sources_before[one.sequence], milestone.source_cut)
    writer = one.writer
    what = f"{one.kind.value}, undone later" if one.undone else one.kind.value
    if one.since:
        what += f" since {one.since}"
    return (
        *(str(milestone.token), iso(milestone.committed_ms), what, Lines(_measures(one))),
        f"{writer.generation} attempt {writer.attempt} epoch {writer.epoch}" if writer else "",
        Lines(tuple(f"{place} {first} to {end - 1}" for place, (first, end) in source.items())),
        one.place or one.source,
    )


def _measures(one: RowEvent) -> tuple[str, ...]:
    before, after = one.before or {}, one.after or {}
    unknown = "none" if one.before_known else "?"
    lines = []
    for name in dict.fromkeys((*before, *after)):
        old = before.get(name) if one.before else None
        new = after.get(name)
        if old != new or not one.before_known:
            lines.append(f"{name}: {unknown if old is None else old} → {'none' if new is None else new}")
    return tuple(lines)


def _gap_text(one: GapReason, found: Blame) -> str:
    first, last = one.gap
    times = [_committed(at, found.milestones) for at in one.gap]
    when = f" ({times[0]} to {times[1]})" if all(times) else ""
    why = "; ".join(one.reasons) or "no log holds it"
    return f"changes in milestones {first} to {last}{when} cannot be told any more: {why}"


def _wrong_text(wrong: WrongSince, found: Blame) -> str:
    if not wrong.newest_known:
        return f"the row at {found.newest.token} is not known, so it is not known either since when it is wrong"
    if wrong.first_wrong is None:
        return f"the condition does not hold at {found.newest.token}"
    since = f"wrong since {_token(wrong.first_wrong, found)} ({_committed(wrong.first_wrong, found.milestones)})"
    if wrong.exact:
        return f"{since}; right at {_token(wrong.last_right, found)}"
    if wrong.last_right is None:
        return f"{since} at the latest; of no earlier milestone it is known"
    return f"{since} at the latest; right at {_token(wrong.last_right, found)}; between them it is not known"


def register(app: typer.Typer) -> None:
    app.command(cls=KeyCommand)(blame)
