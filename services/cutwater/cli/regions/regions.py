"""`regions`: prints what has arrived here from other regions, and its lag."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.client import wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics import mirror_topics
from cutwater.cli.options import BootstrapOption, JsonOption, WideOption, settings_for
from cutwater.cli.report import err, iso, out, print_json, print_note, report_errors, table
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.mirror.replica_lag import Pace, SafeTime, awaited, safe_time
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.mirror_records import Mirrored, Steering
from cutwater.core.util.text_tables import Column

ASK_S = 3.0
"""Timeout of queries to the origin, which may be down."""
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
        found = replicas_of(settings, settings.cluster, job)
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


def replicas_of(settings: Settings, cluster: Cluster, job: str) -> list[tuple[SafeTime, Steering | None]]:
    """Return each origin that is copied here, with the operator's pause or resume."""
    if not mirror_topics.has_mirror(cluster, job):
        return []
    found, paces = mirror_topics.Positions(), dict[str, Pace]()
    for key, value in mirror_topics.read_records(cluster, job):
        one = found.take(key, value)
        if isinstance(one, Mirrored):
            paces.setdefault(one.origin, Pace()).take(one)
    now, told = now_ms(), []
    for origin, every in sorted(found.copies.items()):
        arrived = mirror_topics.last_arrival(cluster, job, origin)
        copies = awaited(every.values(), arrived)
        safe = safe_time(
            origin,
            copies,
            arrived,
            mirror_topics.newest_milestone(cluster, job, origin),
            _ends(settings, origin, [TopicPartition(one.topic, one.partition) for one in copies]),
            paces[origin].per_second(now),
            now,
        )
        told.append((safe, found.steering.get(origin)))
    return told


def _ends(settings: Settings, origin: str, places: list[TopicPartition]) -> dict[TopicPartition, int] | None:
    if origin != settings.origin_region or not settings.origin_bootstrap_servers:
        return None
    try:
        there = settings.origin_cluster
        wait_for_broker(there, ASK_S)
    except UsageError as error:
        print_note(f"{origin} is not queried: {error}")
        return None
    except UnavailableError:
        return None
    try:
        return Offsets(there, ASK_S).written_ends(places)
    except CutwaterError:
        return None


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
