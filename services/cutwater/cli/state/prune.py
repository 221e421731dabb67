"""`prune`: deletes the oldest records of commit stream and barriers."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cutwater.adapters.runtime.clock import now_ms
from cutwater.cli.action_audit import audit_action
from cutwater.cli.options import (
    BootstrapOption,
    DataDirOption,
    JobContext,
    JobNameOption,
    JobOption,
    JsonOption,
    WideOption,
    find_job,
)
from cutwater.cli.report import err, print_records, report_errors
from cutwater.core.access.actions import PRUNE
from cutwater.core.util.text_tables import Column
from cutwater.operations.generations.prune import ExclusiveWriter
from cutwater.operations.stream_retention import Cut, Pruning


@report_errors
def prune(
    job_file: JobOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")] = False,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Delete the oldest milestones and barriers that nothing needs any more.

    CUTWATER_KEEP_STREAMS_HOURS sets how long records are kept. Kept longer are the newest 100 milestones, and all
    from the oldest one that is needed: by the output, a snapshot, a generation whose changelog exists, a
    candidate, a rollback that is still on the stream, or the region of CUTWATER_ORIGIN_REGION, which must answer.
    Nothing is deleted of a job that is idle or was released.

    Views, publishers and clients that are further behind start again from a later milestone. A mirror that is
    further behind stops and requires 'cutwater mirror resync'. Older dead letters and late events are not listed
    any more. A deleted milestone cannot be a rollback target.

    Exit 2: there is no milestone. 4: the brokers, or those of the other region, do not answer. 6: another process
    claims or prunes meanwhile: run it again.

    Examples:  cutwater prune --dry-run  ·  cutwater prune
    ·  cutwater prune job.yaml --bootstrap-servers kafka-1:9092 --json
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    store = place.stack.snapshots if place.stack else place.settings.snapshots
    pruning = Pruning(place.cluster, place.job, place.settings, store, now_ms)
    with err.status("reading the commit stream"):
        cuts = pruning.look() if dry_run else _remove(place, pruning)
    told = [_pruned_json(one, dry_run) for one in cuts]
    columns = (Column("topic"), Column("offsets", 1), Column("what"), Column("kept", below=True))
    print_records(f"the oldest records of {place.job.name}", columns, told, as_json)


def _remove(place: JobContext, pruning: Pruning) -> list[Cut]:
    with audit_action(PRUNE, place.settings, place.cluster, place.job.name) as action:
        alone = ExclusiveWriter(place.cluster, place.job.name)
        cuts = pruning.look()
        pruning.remove(cuts, alone)
        action.record_result(", ".join(f"{one.topic}: {one.offsets:,} offsets" for one in cuts))
    return cuts


def _pruned_json(one: Cut, dry_run: bool) -> dict[str, Any]:
    done = ("would be deleted" if dry_run else "deleted") if one.offsets else "nothing to delete"
    return {"topic": one.topic, "offsets": one.offsets, "first": one.first, "what": done, "kept": one.why}


def register(app: typer.Typer) -> None:
    app.command()(prune)
