"""`milestones`: lists and checks the commit stream."""

from __future__ import annotations

from typing import Annotated

import typer

from cutwater.adapters.topics import commit_stream
from cutwater.adapters.topics.provable_milestones import provable
from cutwater.cli.options import DataDirOption, JobNameOption, JsonOption, WideOption, settings_for
from cutwater.cli.report import err, iso, milestone_json, out, print_json, print_note, report_errors, table
from cutwater.core.protocol.chain import find_chain_faults, link
from cutwater.core.protocol.stream_audit import check as check_stream
from cutwater.core.util.text_tables import Column
from cutwater.local import running_file


@report_errors
def milestones(
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of newest milestones to list.")] = 20,
    check: Annotated[
        bool, typer.Option("--check", help="Check the whole stream and its barriers; exit 1 if it is broken.")
    ] = False,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """List the newest milestones, or check all: hash chain, plausibility, agreement with their barriers.

    --check covers sequences and hashes; that epochs, attempts, cuts, watermarks and positions never go back; that
    rows and events fit their cuts; the barriers that are still kept; and that source and changelog have lost
    nothing below the cuts of the newest milestone. --limit sets how many milestones are listed.

    Exit 1: something is broken or lost, which is printed with the newest milestone that can still be proved. 2: no
    stack runs. 4: no broker answers.

    Examples:  cutwater milestones --limit 5  ·  cutwater milestones --check  ·  cutwater milestones --json
    """
    stack = running_file.require(settings_for(data_dir).data_dir, job_name)
    with err.status("reading the commit stream"):
        found = commit_stream.milestones(stack.cluster, stack.job, None if check else limit)
        # Barriers last: the barrier of each milestone that was read is then written, or already pruned.
        broken = (
            check_stream(found, commit_stream.barriers(stack.cluster, stack.job))
            if check
            else list(find_chain_faults(found))
        )
        proved = provable(stack.cluster, [one for one, _ in found]) if check else None
    shown = found[-limit:]
    if as_json:
        print_json([{**milestone_json(one), "hash": link(value).hex()} for one, value in shown])
    else:
        columns = (
            *(
                "token",
                Column("epoch", 3),
                Column("attempt", 5),
                Column("rows", 4),
                Column("events", 2),
                Column("late", 3),
            ),
            *(Column("watermark", 6), Column("committed", 1), Column("hash", 7), Column("parent", 8)),
        )
        rows = (
            (
                *(one.token, one.epoch, one.attempt, one.rows, one.events, one.late),
                *(iso(one.watermark_ms), iso(one.committed_ms), link(value).hex()[:8], one.parent_hash.hex()[:8]),
            )
            for one, value in shown
        )
        out.table(table(f"commit stream of {stack.job}", columns, rows))
    for one in broken:
        print_note(f"broken at sequence {one.sequence}: {one.reason}")
    lost = proved.lost if proved else []
    for what in lost:
        print_note(f"lost below the cuts of {found[-1][0].token}: {what}")
    if proved and lost:
        print_note(proved.advise(attached=bool(stack.program)))
    if check and not broken and not lost and not as_json:
        out.print(f"{len(found)} milestones: contiguous, chained, equal to their barriers, and nothing is lost")
    return 1 if broken or lost else 0


def register(app: typer.Typer) -> None:
    app.command()(milestones)
