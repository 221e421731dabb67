"""`export`: writes a view at one milestone as Parquet."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from cutwater.adapters.columnar.arrow import pyarrow
from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.cli.options import JsonOption, WideOption, settings_for
from cutwater.cli.report import err, out, print_json, report_errors, table
from cutwater.client.export.parquet import Report, Written, in_folder, open_rehydrators, write
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.query.peer_placement import Shares, shares_of
from cutwater.core.util.text_tables import Column, Styled
from cutwater.local import running_file
from cutwater.views.store.folders import folder_of, generations_in


@report_errors
def export(
    job_file: Annotated[Path, typer.Argument(help="The job file.")],
    to: Annotated[Path, typer.Option("--out", help="The Parquet file, or an existing folder for it.")],
    url: Annotated[
        list[str] | None,
        typer.Option(
            help="A rehydrator, with its standbys after bars; repeat for peers. Default: CUTWATER_PEERS, else the "
            "running stack's."
        ),
    ] = None,
    at_least: Annotated[str | None, typer.Option(help="Wait until the view has reached this token.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="A folder of 'cutwater restore', instead of a rehydrator.")
    ] = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Write a view at one milestone as Parquet: key, window_start, window_end, one column per measure.

    The file's metadata name the milestone. An existing file is replaced when the new one is complete. Peers that
    share the partitions must show the same milestone; if --out is a folder, each peer writes its own file. If a
    rehydrator is down or behind, its standbys are read (http://a:8321|http://a2:8321), which is reported. For an
    older milestone run 'cutwater restore --to TOKEN --data-dir look', then 'cutwater export --data-dir look'.
    Needs pyarrow: pip install 'cutwater[arrow]'.

    Exit 2: the folder, file or token does not exist. 3: pyarrow is missing, or the disk is too small for the file.
    4: a rehydrator does not answer or broke the connection; trying again may work.

    Examples:  cutwater export job.yaml --out state.parquet
    ·  cutwater export job.yaml --out exports --url http://view-1:8321 --url http://view-2:8321
    ·  cutwater export job.yaml --out now.parquet --at-least g1-local-00000000:42 --json
    ·  cutwater export job.yaml --out then.parquet --data-dir look
    """
    settings, job = settings_for(None), load_job(job_file)
    pyarrow()  # fail before rows are requested
    gc.freeze()  # collections then skip the objects loaded so far, which saves a fifth of the time
    started = time.monotonic()
    with err.task("exporting", "rows") as report:
        written = list(_write_export(job, settings, to, url, at_least, data_dir, report))
    _print_result(written, time.monotonic() - started, as_json)


def _write_export(
    job: Job,
    settings: Settings,
    to: Path,
    urls: list[str] | None,
    at_least: str | None,
    data_dir: Path | None,
    report: Report,
) -> list[Written]:
    if data_dir is None:
        token = Token.parse(at_least) if at_least else None
        shares = shares_of(map(_group, urls)) if urls else _shares(settings, job)
        asked = [(owner, *standbys) for owner, standbys in shares.items()]
        with open_rehydrators(job, asked, settings.api_headers, token, several=to.is_dir()) as parts:
            return write(job, parts, to, report)
    if urls or at_least:
        raise UsageError("--data-dir names a folder: --url and --at-least are for a rehydrator")
    with in_folder(job, _generation(job, settings, data_dir), data_dir) as part:
        return write(job, [part], to, report)


def _generation(job: Job, settings: Settings, data_dir: Path) -> Generation:
    """Return CUTWATER_GENERATION if set, else the generation of the newest view in the folder."""
    found = generations_in(folder_of(data_dir, job.name, settings.generation).parent)
    return (
        settings.generation
        if "generation" in settings.model_fields_set
        else max(found, default=settings.generation)
    )


def _group(url: str) -> list[str]:
    return [one.strip().rstrip("/") for one in url.split("|")]


def _shares(settings: Settings, job: Job) -> Shares:
    if settings.shares:
        return settings.shares
    several = len(running_file.stacks(settings.data_dir)) > 1
    stack = running_file.find(settings.data_dir, job.name if several else None)
    return {stack.api_url if stack else f"http://{settings.host}:{settings.port}": ()}


def _print_result(written: list[Written], seconds: float, as_json: bool) -> None:
    rows = sum(one.rows for one in written)
    if as_json:
        files = [_file_json(one) for one in written]
        print_json({"files": files, "rows": rows, "seconds": round(seconds, 3)})
        return
    title = f"{rows:,} rows in {seconds:.1f} s ({rows / max(seconds, 1e-3):,.0f}/s)"
    columns = ("file", "milestone", Column("partitions", 2), "rows", Column("bytes", 1))
    out.table(table(title, columns, map(_row, written)))
    if len({one.token for one in written}) > 1:
        _warn("the files are of different milestones:", "do not read them as one")
    if len(written) > 1 and (parts := [str(one.path) for one in written if one.by_itself]):
        _warn("from replicas that hold only a part:", ", ".join(parts))
    if standbys := [place for one in written for place in one.standbys]:
        _warn("standbys that answered for their owners:", ", ".join(standbys))


def _warn(what: str, about: str) -> None:
    err.print(Styled(what, "yellow"), f" {about}", whole=True)


def _file_json(one: Written) -> dict[str, Any]:
    held = None if one.partitions is None else sorted(one.partitions)
    kept = one.selection and one.selection.as_object()
    plain = {"path": str(one.path), "token": str(one.token), "partitions": held, "selection": kept}
    return {**plain, "rows": one.rows, "bytes": one.bytes, "standbys": list(one.standbys)}


def _row(one: Written) -> tuple[Any, ...]:
    held = "all" if one.partitions is None else ", ".join(map(str, sorted(one.partitions)))
    if one.selection:
        held += f", of {one.selection}"
    return one.path, one.token, held, one.rows, one.bytes


def register(app: typer.Typer) -> None:
    app.command()(export)
