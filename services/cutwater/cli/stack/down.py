"""`down`: stops the local stack, and deletes what Cutwater added."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka import admin
from cutwater.cli.options import BootstrapOption, DataDirOption, JsonOption, settings_for
from cutwater.cli.report import err, out, print_json, report_errors
from cutwater.core.errors import UsageError
from cutwater.local import added_topics, running_file
from cutwater.local.added_topics import Added


@report_errors
def down(
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the data folder too, and the topics added to your cluster.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete topics without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be deleted.")] = False,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop the stack that runs on the data folder.

    With --delete on your own cluster, the topics that Cutwater created there are deleted, never the source topic
    or a topic that existed before. The command asks first, unless --yes is given.

    Examples:  cutwater down  ·  cutwater down --delete --dry-run  ·  cutwater down --delete --yes
    """
    settings = settings_for(data_dir)
    folder = settings.data_dir
    found = running_file.find(folder)
    left = _left_over(settings, bootstrap_servers) if delete else None
    if dry_run:
        _show(left, folder, delete, as_json)
        return
    if left and left.created:
        _confirm(left, yes, as_json)
    if found:
        with err.status("stopping the stack"):
            found.stop()
    gone = []
    if left:
        gone = admin.delete_topics(_settings_of(settings, left, bootstrap_servers).cluster, left.created)
    if delete:
        _delete(folder)
    if as_json:
        print_json({"stopped": found is not None, "deleted": delete, "topics": gone})
    else:
        out.print("stopped" if found else f"no stack runs on {folder}")
        for name in gone:
            out.print(f"deleted topic {name}")


def _left_over(settings: Settings, bootstrap: str | None) -> Added | None:
    kept = added_topics.read(settings.data_dir)
    return added_topics.left_over(_settings_of(settings, kept, bootstrap).cluster, kept) if kept else None


def _settings_of(settings: Settings, kept: Added, bootstrap: str | None) -> Settings:
    """Return the settings for the cluster that the topics were added to, at `bootstrap` if given."""
    return settings.model_copy(update={"bootstrap_servers": bootstrap or kept.bootstrap_servers})


def _confirm(left: Added, yes: bool, as_json: bool) -> None:
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise UsageError(
            f"this deletes {', '.join(left.created)} at {left.bootstrap_servers}: give --yes; nothing was deleted"
        )
    err.print(f"topics of job {left.job} at {left.bootstrap_servers}, with all their records:")
    for name in left.created:
        err.print(f"  {name}")
    if not typer.confirm("Delete them?", err=True):
        raise UsageError("nothing was deleted, and nothing was stopped")


def _show(left: Added | None, folder: Path, delete: bool, as_json: bool) -> None:
    topics = list(left.created) if left else []
    if as_json:
        kept = [left.source, *left.found] if left else []
        print_json({"would_delete": {"folder": str(folder) if delete else None, "topics": topics}, "kept": kept})
        return
    for name in topics:
        out.print(f"would delete topic {name}")
    for name in left.found if left else ():
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
