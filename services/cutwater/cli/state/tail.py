"""`tail`: prints complete milestones from the output or the changelog."""

from __future__ import annotations

import os
import sys
from itertools import islice
from typing import Annotated, Any, Literal

import typer

from cutwater.cli.options import BootstrapOption, DataDirOption, JobNameOption, JobOption, WideOption, find_job
from cutwater.cli.report import iso, out, print_json_line, report_errors, table
from cutwater.client import CommittedMilestone, committed
from cutwater.core.events.key_columns import values_plain
from cutwater.core.util.text_tables import Column, ranked
from cutwater.local.processes.supervisor import stop_on_signals
from cutwater.views.query.presenter import plain


@report_errors
def tail(
    job_file: JobOption = None,
    after: Annotated[
        str | None, typer.Option(help="Start after this token. Default: at the oldest milestone kept.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after this number of milestones.")] = None,
    idle: Annotated[
        float | None, typer.Option(min=0.1, help="Stop after this many seconds without a new milestone.")
    ] = None,
    changelog: Annotated[
        bool, typer.Option("--changelog", help="Read changelog and commit stream, which needs no publisher.")
    ] = False,
    rows: Annotated[int, typer.Option(min=0, max=1_000_000, help="Rows to show per milestone.")] = 20,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON per milestone, with all rows.")
    ] = False,
    wide: WideOption = False,
) -> None:
    """Show each milestone when it is complete, with the rows that it changed, until Ctrl-C.

    A milestone is complete when every partition holds its end. To continue later, give the last token to --after.

    Exit 2: no stack runs, or the token is not kept. 4: no broker answers. 6: with --changelog, another generation
    was promoted; start again without --after. 7: records of the output are missing.

    Examples:  cutwater tail --limit 3  ·  cutwater tail --after g1-local-00000000:42 --json
    ·  cutwater tail job.yaml --bootstrap-servers kafka-1:9092 --changelog
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    source: Literal["output", "changelog"] = "changelog" if changelog else "output"
    with stop_on_signals() as stop:
        found = committed(place.job, place.cluster, source=source, after=after, stop=stop.is_set, idle_s=idle)
        try:
            for milestone in islice(found, limit):
                if as_json:
                    print_json_line(committed_json(milestone), ascii_only=False)
                else:
                    _show(milestone, rows)
        except BrokenPipeError:  # `| head` has closed the pipe: discard what Python flushes at its exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def committed_json(milestone: CommittedMilestone) -> dict[str, Any]:
    return {
        "token": str(milestone.token),
        "first_sequence": milestone.first_sequence,
        "sequence": milestone.token.sequence,
        "watermark": iso(milestone.watermark_ms),
        "committed_ms": milestone.committed_ms,
        "rewinds_to": milestone.rewinds_to,
        "changes": [
            {
                "key": change.key,
                **({"key_columns": values_plain(change.key_columns)} if change.key_columns else {}),
                "window_start": iso(change.window_start_ms),
                "window_end": iso(change.window_end_ms),
                "kind": change.kind,
                "values": {name: plain(value) for name, value in change.values.items()},
            }
            for change in milestone.changes
        ],
    }


def _show(milestone: CommittedMilestone, most: int) -> None:
    token, changes = milestone.token, milestone.changes
    several = f" (from sequence {milestone.first_sequence})" if milestone.first_sequence < token.sequence else ""
    back = f" (goes back to {milestone.rewinds_to})" if milestone.rewinds_to else ""
    title = f"{token}{several}{back}: {len(changes):,} rows, watermark {iso(milestone.watermark_ms)}"
    if not changes or not most:
        out.print(title)
        return
    columns = ranked(("key", "window from"), *changes[0].values)
    columns += [Column("kind", len(columns)), Column("to", len(columns) + 1)]
    shown = (
        (
            *(one.key, iso(one.window_start_ms)),
            *(plain(value) for value in one.values.values()),
            *(one.kind, iso(one.window_end_ms)),
        )
        for one in changes[:most]
    )
    out.table(table(title, columns, shown))
    if len(changes) > most:
        out.print(f"… and {len(changes) - most:,} more rows (--rows N shows more, --json all)")


def register(app: typer.Typer) -> None:
    app.command()(tail)
