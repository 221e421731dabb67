"""`generation schedule`: when and how fast a candidate may work; the same options of `generation start`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from cutwater.adapters.job_files.models import parse_duration
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.commit_stream import arrivals_per_s
from cutwater.cli.action_audit import actor, audit_action
from cutwater.cli.generations.claim import claims_of
from cutwater.cli.options import (
    BootstrapOption,
    DataDirOption,
    JobContext,
    JobNameOption,
    JobOption,
    JsonOption,
    find_job,
)
from cutwater.cli.report import iso, print_json, print_note, report_errors
from cutwater.core.access.actions import SCHEDULE, Action
from cutwater.core.errors import UsageError
from cutwater.core.pacing.catch_up import rate_warning
from cutwater.core.pacing.maintenance_windows import UTC_NAME, MaintenanceWindows
from cutwater.core.pacing.schedules import UNBOUND, WorkBounds
from cutwater.core.protocol.generation import Generation
from cutwater.core.state.backlog import kept_until
from cutwater.operations.generations.requests import RequestedBounds

GenerationArgument = Annotated[str, typer.Argument(help="The candidate's id, as 'generation list' shows it.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]
WindowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--window", help="A time of day at which it may work, such as 02:00-05:00; repeatable.", show_default=False
    ),
]
ZoneOption = Annotated[
    str | None,
    typer.Option("--window-zone", help="Time zone of the windows, such as Europe/Berlin. Default: UTC."),
]
RateOption = Annotated[
    int | None, typer.Option("--max-rate", min=0, help="The most events per second that it reads; 0: no bound.")
]
YieldOption = Annotated[
    str | None,
    typer.Option(
        "--yield",
        help="By so much later may the promoted generation's rows become readable while it does not catch up.",
    ),
]


def asked_bounds(
    before: WorkBounds, windows: Sequence[str] | None, zone: str | None, rate: int | None, yields: str | None
) -> WorkBounds:
    """Return bounds with what options change. Raises UsageError."""
    named = windows if windows else [str(one) for one in before.windows.windows]
    if zone and not named:
        raise UsageError("--window-zone needs a --window")
    return WorkBounds(
        MaintenanceWindows.parse(named, zone or before.windows.zone),
        before.max_events_per_s if rate is None else rate,
        before.yield_ms if yields is None else _duration_ms(yields),
    )


def requested(place: JobContext, bounds: WorkBounds, action: Action) -> RequestedBounds | None:
    """Return the bounds with the name of who asks; None if they bound nothing."""
    return RequestedBounds(bounds, actor(place.settings, action).name) if bounds != UNBOUND else None


def warn_if_late(bounds: WorkBounds) -> None:
    """Say that compaction may reach the parent's rows before the first window."""
    at_ms = now_ms()
    opens_ms = bounds.windows.next_change_ms(at_ms)
    if not bounds.windows.is_open(at_ms) and not kept_until(at_ms, opens_ms):
        print_note(
            "warning: the first window opens so late that compaction may have removed rows of the parent by then: "
            "a snapshot of that milestone is needed, or a start that is nearer to the window"
        )


def warn_if_too_slow(place: JobContext, bounds: WorkBounds) -> None:
    """Say in time that a bound on the rate is below what arrives."""
    arrives = arrivals_per_s(place.cluster, place.job.name) if bounds.max_events_per_s else 0.0
    if warning := rate_warning(bounds, arrives, now_ms()):
        print_note(f"warning: {warning}")


@report_errors
def schedule(
    generation: GenerationArgument,
    job_file: JobOption = None,
    window: WindowOption = None,
    window_zone: ZoneOption = None,
    max_rate: RateOption = None,
    yield_: YieldOption = None,
    always: Annotated[bool, typer.Option("--always", help="Without windows: it may work at any time.")] = False,
    dry_run: DryRunOption = False,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show or change when and how fast a candidate may work. Options that are not given stay as they are.

    Within its windows a candidate reads its parent's rows, catches up, and is promoted if that is requested.
    Outside of them it is paused, and keeps its position. A window is open while the zone's clocks show a time in
    it, every day; 22:00-01:00 is over midnight.

    --max-rate bounds the events per second that it reads on average. If more arrive, it never catches up: the
    command says so, with the rate that it needs.

    --yield helps a candidate that is slower than what arrives: the promoted driver waits before its epochs, so
    that its rows become readable by at most so much later, and never later than the job's readable_p99. It stops
    to wait after five minutes in which the candidate came no nearer.

    All of it ends with the promotion. It never delays a rollback or a failover.

    Exit 2: the candidate is promoted, given up or unknown, or a window or zone is wrong. 6: another process claims
    or promotes meanwhile: run it again.

    Examples:  cutwater generation schedule g2-local-5f0c21aa
    ·  cutwater generation schedule g2-local-5f0c21aa --window 02:00-05:00 --window-zone Europe/Berlin
    ·  cutwater generation schedule g2-local-5f0c21aa --max-rate 5000 --yield 10s
    ·  cutwater generation schedule g2-local-5f0c21aa --always --dry-run --json
    """
    place, wanted = find_job(job_file, bootstrap_servers, data_dir, job_name), Generation.parse(generation)
    if always and window:
        raise UsageError("--always and --window contradict each other")
    claims = claims_of(place)
    before = claims.to_schedule(wanted)
    kept = before._replace(windows=MaintenanceWindows()) if always else before
    bounds = asked_bounds(kept, window, window_zone, max_rate, yield_)
    bounds.record(place.job.name, wanted, "", now_ms())  # raises for a number out of its range
    if bounds != before:
        if dry_run:
            print_note(f"{wanted} would be changed from: {before}")
        else:
            told = {"windows": str(bounds.windows), "max_rate": max_rate, "yield": yield_}
            with audit_action(
                SCHEDULE, place.settings, place.cluster, place.job.name, str(wanted), told
            ) as action:
                claims.schedule(wanted, RequestedBounds(bounds, actor(place.settings, SCHEDULE).name))
                action.record_result(str(bounds))
        warn_if_too_slow(place, bounds)
    _show(place, wanted, bounds, as_json)


def _show(place: JobContext, generation: Generation, bounds: WorkBounds, as_json: bool) -> None:
    if as_json:
        print_json(
            {"job": place.job.name, "generation": str(generation), "schedule": schedule_json(bounds, now_ms())}
        )
        return
    print_note(f"{generation} may work: {bounds}")
    told = schedule_json(bounds, now_ms())
    if told and told["changes_at"]:
        print_note(f"it is {'within a window' if told['open'] else 'paused'} until {told['changes_at']}")


def schedule_json(bounds: WorkBounds, at_ms: int) -> dict[str, Any] | None:
    """Return bounds as JSON; None if they bound nothing."""
    if bounds == UNBOUND:
        return None
    change_ms = bounds.windows.next_change_ms(at_ms)
    return {
        "windows": [str(one) for one in bounds.windows.windows],
        "zone": bounds.windows.zone if bounds.windows.windows else UTC_NAME,
        "open": bounds.windows.is_open(at_ms),
        "changes_at": iso(change_ms) if change_ms is not None else None,
        "max_events_per_s": bounds.max_events_per_s or None,
        "yield_s": bounds.yield_ms / 1_000 or None,
    }


def _duration_ms(text: str) -> int:
    if text.strip() in ("0", "0s"):
        return 0
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--yield {text}: {error}") from None
