"""`incident`: one file with what is known about a job now, without secrets."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from cutwater.adapters.runtime.clock import now_ms
from cutwater.cli.options import (
    BootstrapOption,
    DataDirOption,
    JobNameOption,
    JobOption,
    JsonOption,
    WideOption,
)
from cutwater.cli.report import err, iso, out, print_json, report_errors, table
from cutwater.core.util.text_tables import Column, Styled, number_text


@report_errors
def incident(
    job_file: JobOption = None,
    file: Annotated[
        Path | None, typer.Option("--out", help="The file to write. Default: cutwater-incident-JOB-TIME.zip here.")
    ] = None,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Gather logs, status, alerts, history, milestones, metrics and settings in one file, without secrets.

    The file is a zip of at most 64 MB before compression, which only you can read. Its contents.json lists the
    parts; one that could not be had is named with the reason. If the stack has ended, its logs are still taken.
    Known secrets, and what looks like one, are replaced by asterisks. Keys and values of your events may be in it.

    Exit 0: the file is written, even if parts are missing. 2: no job is known, or the file exists. 3: the file
    cannot be written.

    Examples:  cutwater incident  ·  cutwater incident job.yaml --out /tmp/incident.zip --json
    ·  cutwater incident job.yaml --bootstrap-servers kafka-1:9092
    """
    # Imports what most verbs do without.
    from cutwater.cli.stack.incident_parts import find_place, parts_of, redactor_of
    from cutwater.local.incident.archive import write_archive

    now = now_ms()
    place = find_place(job_file, bootstrap_servers, data_dir, job_name)
    path = file or Path(f"cutwater-incident-{place.job_name}-{_file_time(now)}.zip")
    redactor = redactor_of(place)
    with err.status("gathering") as status:
        contents = write_archive(
            path,
            place.job_name,
            iso(now),
            parts_of(place, redactor),
            redactor,
            lambda name: status.update(f"reading {name}"),
        )
    document = {"file": str(path), "bytes": path.stat().st_size, **contents}
    if as_json:
        print_json(document)
    else:
        _show(document)


def _show(document: dict[str, Any]) -> None:
    columns = ("part", "bytes", Column("older bytes left out", 1), Column("missing because", below=True))
    rows = [
        (one["name"], one["bytes"], one["left_out_bytes"], Styled(one["problem"], "yellow"))
        for one in document["parts"]
    ]
    out.table(table(f"incident of job {document['job']}", columns, rows))
    out.print(f"written: {document['file']}, {number_text(document['bytes'])} bytes", whole=True)


def _file_time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


def register(app: typer.Typer) -> None:
    app.command()(incident)
