"""The report of `mirror resync`: what is deleted; with --from-snapshot also the plan, progress and result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rich.filesize import decimal

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.admin import brokers
from cutwater.adapters.runtime.clock import now_ms
from cutwater.cli.action_audit import audit_action
from cutwater.cli.report import err, iso, out, print_json, print_note, table
from cutwater.core.access.actions import RESYNC
from cutwater.core.checks import replication
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol import mirror_records
from cutwater.core.protocol.mirror_records import Arrival
from cutwater.mirror.resync.from_snapshot import ResyncPlan, SnapshotResync
from cutwater.mirror.resync.resync import CopyState, last_arrival
from cutwater.views.snapshots.repositories import repositories_at


class ResyncRequest(NamedTuple):
    settings: Settings
    job: Job
    region: str
    topic: str
    """The topic's name in the origin."""
    store: str | None
    as_json: bool


class DeletionSummary(NamedTuple):
    """What is deleted with the copy of any topic, and whether the origin was queried for the topic."""

    job: str
    region: str
    newest: Arrival | None
    """The newest arrival; None if there is none."""
    not_queried_reason: str
    """Why the origin was not queried for the topic; empty if it was."""

    def __str__(self) -> str:
        if self.newest is None:
            gone = f"there is no arrival from {self.region}"
        else:
            newest = f"{self.newest.token} of {iso(self.newest.arrived_ms)}"
            gone = f"all arrivals from {self.region} are deleted too, the newest {newest}"
        lines = [f"{gone}: until milestones arrive again, no failover from {self.region} is possible"]
        if self.not_queried_reason:
            lines.append(
                f"{self.region} is not queried ({self.not_queried_reason}): what is deleted may be the only copy"
            )
        return "\n".join(lines)

    def plain(self) -> dict[str, Any]:
        return {
            "arrivals": {
                "topic": mirror_records.arrivals(self.job, self.region),
                "newest": str(self.newest.token) if self.newest else None,
                "arrived": iso(self.newest.arrived_ms) if self.newest else None,
            },
            "origin_asked": not self.not_queried_reason,
        }


def resync_from_snapshot(asked: ResyncRequest, dry_run: bool, confirm: Callable[[DeletionSummary], None]) -> None:
    """Start a copy with a snapshot. `confirm`: raises if the user does not agree. Raises as `SnapshotResync`."""
    seeding = _seeding(asked)
    with err.status("reading the origin's log and the snapshots"):
        plan = seeding.plan()
        newest = last_arrival(asked.settings.cluster, asked.job.name, asked.region)
    goes = DeletionSummary(asked.job.name, asked.region, newest, not_queried_reason="")
    if dry_run:
        _print_result(plan, asked, goes, rows=None)
        return
    confirm(goes)
    told = {"origin": asked.region, "from snapshot": True, "store": asked.store}
    with err.task("writing", "rows") as progress:
        report = _WrittenRows(progress)
        with audit_action(
            RESYNC, asked.settings, asked.settings.cluster, asked.job.name, asked.topic, given=told
        ) as action:
            plan = seeding.run(print_note, report)
            action.record_result(f"{report.rows:,} rows of the snapshot of {plan.seed.milestone.token}")
    rows = report.rows
    _print_result(plan, asked, goes, rows)


def _seeding(asked: ResyncRequest) -> SnapshotResync:
    settings = asked.settings
    if settings.origin != asked.region:
        raise UsageError(
            f"CUTWATER_ORIGIN_REGION is {settings.origin}, but --origin is {asked.region}: name the region whose "
            "brokers CUTWATER_ORIGIN_BOOTSTRAP_SERVERS names"
        )
    place = asked.store or settings.snapshots
    if not place:
        raise UsageError(f"no store is named: give the store of {asked.region}'s snapshots with --store")
    copies = replication.decide(
        brokers(settings.cluster), settings.replication_factor, settings.min_insync_replicas
    )
    return SnapshotResync(
        settings.cluster,
        settings.origin_cluster,
        asked.job,
        asked.region,
        asked.topic,
        repositories_at(place, settings),
        settings.data_dir,
        now_ms,
        _ConsoleLog(),
        copies,
    )


class _ConsoleLog:
    """A logger that prints to standard error."""

    def info(self, what: str, **about: Any) -> None:
        print_note(f"{what}: {', '.join(f'{name} {value}' for name, value in about.items())}")

    warning = error = info


class _WrittenRows:
    """Counts the rows that were written, piece by piece."""

    def __init__(self, progress: Callable[[int], None]) -> None:
        self.rows = 0
        self._progress = progress

    def __call__(self, rows: int) -> None:
        self.rows += rows
        self._progress(self.rows)


def print_plan(copy: CopyState, goes: DeletionSummary, as_json: bool) -> None:
    told = {
        "deletes": copy.target if copy.exists else None,
        "positions": len(copy.known),
        "begun_anew": copy.resync_started,
        **goes.plain(),
    }
    if as_json:
        print_json({"topic": copy.topic, "dry_run": True, **told, "snapshot": None})
        return
    _tell_begun(copy)
    what = f"would delete {copy.target} and" if copy.exists else f"{copy.target} does not exist; would delete"
    out.print(f"{what} {len(copy.known)} positions; {copy.topic} is then copied from the start of its log")
    out.print(str(goes))


def _tell_begun(copy: CopyState) -> None:
    if copy.resync_started:
        out.print("a resync of this topic is in progress; if it was interrupted, this command finishes it")


def _print_result(plan: ResyncPlan, asked: ResyncRequest, goes: DeletionSummary, rows: int | None) -> None:
    """Print the plan or the result. `rows`: None if nothing was done."""
    milestone, copy = plan.seed.milestone, plan.copy_state
    told: dict[str, Any] = {
        "topic": asked.topic,
        "dry_run": rows is None,
        "deletes": copy.target if copy.exists else None,
        "positions": len(copy.known),
        "begun_anew": copy.resync_started,
        **goes.plain(),
        "snapshot": str(milestone.token),
        "committed": iso(milestone.committed_ms),
        "shares": [one.repository.names.share for one in plan.parts],
        "files": plan.files,
        "bytes": plan.size,
        "rows": rows,
        "partitions": [
            {"partition": one, "from": at, "kept_from": plan.kept[one][0], "end": plan.kept[one][1]}
            for one, at in sorted(plan.seed.cuts.items())
        ],
        "passed_over": {f"{milestone.generation}:{one}": why for one, why in sorted(plan.passed_over.items())},
    }
    if asked.as_json:
        print_json(told)
        return
    for token, why in told["passed_over"].items():
        print_note(f"not the snapshot {token}: {why}")
    columns = ("partition", "copied from", "the origin's log starts at", "and ends at")
    title = f"{asked.topic} from the snapshot of {milestone.token}, {iso(milestone.committed_ms)}"
    out.table(table(title, columns, [tuple(row.values()) for row in told["partitions"]]))
    size = f"{told['files']} files, {decimal(told['bytes'])}"
    if rows is None:
        _tell_begun(copy)
        out.print(f"would fetch {size}, and delete {copy.target} and {len(copy.known)} positions")
        out.print(str(goes))
    else:
        out.print(f"{rows:,} rows are written; the mirror copies the rest when it runs: start it again")
