"""`generation prune`: removes earlier generations that nothing needs any more."""

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
from cutwater.core.access.actions import PRUNE_GENERATIONS
from cutwater.core.util.text_tables import Column
from cutwater.operations.generations.prune import Earlier, GenerationPruning


@report_errors
def prune(
    job_file: JobOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")] = False,
    with_snapshots: Annotated[bool, typer.Option("--with-snapshots", help="Remove their snapshots too.")] = False,
    with_forks: Annotated[
        bool,
        typer.Option("--with-forks", help="Remove a possible fork too: 'cutwater forks' there is decided."),
    ] = False,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Remove changelog, checkpoint and seed of old generations that nothing needs any more.

    A generation is old CUTWATER_KEEP_GENERATIONS_HOURS after another one was promoted, or after it was given up.

    A generation that is still needed is kept, with the reason: the parent of the promoted generation or of a
    candidate, one that the output has not passed, one with snapshots, one whose changelog a mirror has announced,
    or one that may hold a fork, since a later generation came back from another region. A checkpoint that
    CUTWATER_CHECKPOINT names is not removed. A removed generation cannot be a rollback target. A claim or another
    prune that starts meanwhile ends this command.

    Exit 2: nothing is promoted yet. 3: a folder cannot be removed. 4: the brokers do not answer. 6: another
    process claims or prunes meanwhile: run it again.

    Examples:  cutwater generation prune --dry-run  ·  cutwater generation prune
    ·  cutwater generation prune job.yaml --bootstrap-servers kafka-1:9092 --with-snapshots --json
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    retiring = GenerationPruning(place.cluster, place.job, place.settings, _store(place), now_ms)
    with err.status("reading earlier generations"):
        if dry_run:
            found = retiring.list_earlier(with_snapshots, with_forks)
        else:
            found = _remove(place, retiring, with_snapshots, with_forks)
    told = [_pruned_json(one, dry_run) for one in found]
    columns = (
        Column("generation"),
        Column("what"),
        Column("changelog", below=True),
        Column("checkpoint", below=True),
    )
    print_records(f"earlier generations of {place.job.name}", columns, told, as_json)


def _remove(
    place: JobContext, retiring: GenerationPruning, with_snapshots: bool, with_forks: bool
) -> list[Earlier]:
    """Remove what nothing needs, and return all earlier generations."""
    told = {"with snapshots": with_snapshots, "with forks": with_forks}
    with audit_action(PRUNE_GENERATIONS, place.settings, place.cluster, place.job.name, given=told) as action:
        retiring.fence_others()
        found = retiring.list_earlier(with_snapshots, with_forks)
        gone = [one for one in found if one.why_kept is None]
        for one in gone:
            retiring.remove(one)
        action.record_result(f"removed: {', '.join(str(one.generation) for one in gone) or 'nothing'}")
    return found


def _store(place: JobContext) -> str:
    return place.stack.snapshots if place.stack else place.settings.snapshots


def _pruned_json(one: Earlier, dry_run: bool) -> dict[str, Any]:
    done = "would be removed" if dry_run else "removed"
    return {
        "generation": str(one.generation),
        "changelog": one.changelog,
        "checkpoint": str(one.checkpoint) if one.checkpoint else None,
        "kept": one.why_kept,
        "what": f"kept: {one.why_kept}" if one.why_kept else done,
    }
