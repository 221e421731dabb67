"""`down`: stops the local stack, and deletes what Cutwater added."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.cli.action_audit import audit_action
from cutwater.cli.options import BootstrapOption, DataDirOption, JsonOption, settings_for
from cutwater.cli.report import err, out, print_json, report_errors
from cutwater.core.access.actions import DELETE, DOWN, Action
from cutwater.core.errors import UsageError
from cutwater.local import added_topics, running_file
from cutwater.local.added_topics import Added
from cutwater.local.running_file import RunningStack

BROKER = "broker"
"""The log of a stack that runs its own broker."""


@report_errors
def down(
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the data folder too, and the topics added to your cluster.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete topics without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be deleted.")] = False,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: Annotated[
        str | None, typer.Option("--job", help="Stop only this one of several jobs; the others continue.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Stop the stack that runs on the data folder, with all its jobs.

    With --delete on your own cluster, the topics that Cutwater created there are deleted, never the source topic
    or a topic that existed before. The command asks first, unless --yes is given.

    Examples:  cutwater down  ·  cutwater down --job flights  ·  cutwater down --delete --dry-run
    ·  cutwater down --delete --yes
    """
    settings = settings_for(data_dir)
    folder = settings.data_dir
    if job_name is not None:
        _stop_job(folder, job_name, delete, dry_run, as_json)
        return
    _require_whole(folder)
    found = running_file.stacks(folder)
    left = _left_over(settings, bootstrap_servers) if delete else []
    if dry_run:
        _show(left, folder, delete, as_json)
        return
    created = [one for one in left if one.created]
    if created:
        _confirm(created, yes, as_json)
    if found:
        _stop(found, DELETE if delete else DOWN)
    gone: list[str] = []
    for one in left:
        gone += admin.delete_topics(_settings_of(settings, one, bootstrap_servers).cluster, one.created)
    if delete:
        _delete(folder)
    if as_json:
        print_json({"stopped": bool(found), "deleted": delete, "topics": gone})
    else:
        out.print("stopped" if found else f"no stack runs on {folder}")
        for name in gone:
            out.print(f"deleted topic {name}")


def _stop(found: Sequence[RunningStack], action: Action) -> None:
    """Stop the stack of these jobs."""
    with ExitStack() as ends:
        for one in found:
            block = audit_action(action, settings_for(None), _cluster(one), one.job)
            if BROKER in one.logs:
                block.begin()  # the brokers end with the stack, and could not take an outcome
            else:
                ends.enter_context(block)
        with err.status("stopping the stack"):
            found[0].stop()


def _cluster(stack: RunningStack) -> Cluster | None:
    """Return the stack's brokers; None if this environment lacks their credentials. A stack ends without them."""
    try:
        return stack.cluster
    except UsageError:
        return None


def _stop_job(folder: Path, job: str, delete: bool, dry_run: bool, as_json: bool) -> None:
    if delete:
        raise UsageError("--delete deletes the data of all jobs: it cannot be combined with --job")
    stack = running_file.require(folder, job)
    if len(running_file.stacks(folder)) == 1:
        raise UsageError(f"{job} is the only job on {folder}: leave out --job, and the stack ends")
    if dry_run:
        _show([], folder, False, as_json)
        return
    with err.status(f"stopping {job}"), audit_action(DOWN, settings_for(None), _cluster(stack), job):
        stack.stop_job()
    if as_json:
        print_json({"stopped": True, "deleted": False, "topics": []})
    else:
        out.print(f"stopped {job}")


def _require_whole(folder: Path) -> None:
    """Raise UsageError for the folder of one of several jobs: its process is that of all."""
    whole = folder.resolve().parent
    if whole.name == running_file.JOBS and running_file.stacks(folder):
        raise UsageError(
            f"{folder} is the folder of one of several jobs: 'cutwater down --data-dir {whole.parent}' ends all, "
            f"and with --job {folder.name} only this one"
        )


def _left_over(settings: Settings, bootstrap: str | None) -> list[Added]:
    """Return what was added to the user's cluster, of each job that ran on the folder."""
    folders = [settings.data_dir, *sorted((settings.data_dir / running_file.JOBS).glob("*"))]
    kept = [one for one in map(added_topics.read, folders) if one]
    return [added_topics.left_over(_settings_of(settings, one, bootstrap).cluster, one) for one in kept]


def _settings_of(settings: Settings, kept: Added, bootstrap: str | None) -> Settings:
    """Return the settings for the cluster that the topics were added to, at `bootstrap` if given."""
    return settings.model_copy(update={"bootstrap_servers": bootstrap or kept.bootstrap_servers})


def _confirm(created: Sequence[Added], yes: bool, as_json: bool) -> None:
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        names = ", ".join(name for one in created for name in one.created)
        raise UsageError(
            f"this deletes {names} at {created[0].bootstrap_servers}: give --yes; nothing was deleted"
        )
    for left in created:
        err.print(f"topics of job {left.job} at {left.bootstrap_servers}, with all their records:")
        for name in left.created:
            err.print(f"  {name}")
    if not typer.confirm("Delete them?", err=True):
        raise UsageError("nothing was deleted, and nothing was stopped")


def _show(left: Sequence[Added], folder: Path, delete: bool, as_json: bool) -> None:
    topics = [name for one in left for name in one.created]
    if as_json:
        kept = [name for one in left for name in (one.source, *one.found)]
        print_json({"would_delete": {"folder": str(folder) if delete else None, "topics": topics}, "kept": kept})
        return
    for name in topics:
        out.print(f"would delete topic {name}")
    for name in (name for one in left for name in one.found):
        out.print(f"would keep topic {name}: it existed before")
    out.print(f"would delete folder {folder}" if delete else "would delete nothing: --delete is not given")


def _delete(folder: Path) -> None:
    """Delete the folder if a stack has created it, so that a mistyped path deletes nothing."""
    if folder.exists():
        if not (folder / "logs").is_dir() and not (folder / added_topics.FILE).is_file():
            raise UsageError(f"{folder} is not the data folder of a stack; nothing was deleted")
        shutil.rmtree(folder)


def register(app: typer.Typer) -> None:
    app.command()(down)
