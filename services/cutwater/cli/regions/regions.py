"""`regions`: prints what has arrived here from other regions, and its lag."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cutwater.adapters.job_files.loader import load_job
from cutwater.cli.options import BootstrapOption, JsonOption, WideOption, settings_for
from cutwater.cli.report import err, iso, out, print_json, print_note, report_errors, table
from cutwater.core.mirror.replica_lag import SafeTime
from cutwater.core.protocol.mirror_records import Steering
from cutwater.core.util.text_tables import Column
from cutwater.operations.regions.replicas import replicas_of

_UNKNOWN = "?"


@report_errors
def regions(
    job_file: Annotated[Path, typer.Argument(help="The job file.")],
    bootstrap_servers: BootstrapOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Show the replicas in this region: newest arrival, its age and watermark, and the lag of the copies.

    If CUTWATER_ORIGIN_* name the origin, it is queried for what is not copied yet. While it does not answer, that
    is unknown ("?", in JSON null). If these settings are wrong, standard error says which.

    Exit 4: this region's brokers do not answer.

    Examples:  cutwater regions job.yaml  ·  cutwater regions job.yaml --json
    """
    settings, job = settings_for(None, bootstrap_servers), load_job(job_file).name
    with err.status("reading positions and arrivals"):
        found = replicas_of(settings, settings.cluster, job, print_note)
    if as_json:
        print_json({"region": settings.region, "replicas": [_plain(*one) for one in found]})
        return
    if not found:
        out.print(f"region {settings.region}: nothing is copied from another region")
        return
    columns = (
        *("origin", "arrived", Column("watermark", 3), Column("age", 1), Column("milestones", 5)),
        *(Column("records", 4), Column("bytes", 7), Column("skew", 6), Column("catch-up", 2), ""),
    )
    out.table(table(f"replicas of {job} in {settings.region}", columns, [_row(*one) for one in found]))


def _plain(one: SafeTime, steering: Steering | None) -> dict[str, Any]:
    return {**asdict(one), "paused": bool(steering and steering.paused)}


def _row(one: SafeTime, steering: Steering | None) -> tuple[str | int, ...]:
    return (
        one.origin,
        one.token or "nothing",
        _UNKNOWN if one.watermark_ms is None else iso(one.watermark_ms),
        _seconds(one.age_ms),
        *(_UNKNOWN if many is None else many for many in (one.milestones, one.records, one.size)),
        _seconds(one.skew_ms),
        _UNKNOWN if one.catch_up_s is None else f"{one.catch_up_s:,.0f} s",
        "paused" if steering and steering.paused else "",
    )


def _seconds(ms: int | None) -> str:
    return _UNKNOWN if ms is None else f"{ms / 1000:,.1f} s"


def register(app: typer.Typer) -> None:
    app.command()(regions)
