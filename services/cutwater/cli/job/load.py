"""`load`: events of a job's schema at a rate, with frequent keys and flaws."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Annotated

import typer

from cutwater.adapters.events.event_producer import EventWriter, require_own_source
from cutwater.adapters.events.registry import registry_for
from cutwater.adapters.job_files.loader import load_job
from cutwater.cli.options import DataDirOption, JobNameOption, JsonOption, settings_for
from cutwater.cli.report import err, out, print_json, print_note, report_errors
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.load.load_draw import DUPLICATE, KINDS, PLAIN, Events, Flaws, LoadDraw
from cutwater.core.load.rate_profile import SHAPES, STEADY, RateProfile
from cutwater.core.load.recorded_draw import RecordedDraw
from cutwater.core.load.time_field import MILLIS, TIME_FORMS, TimeField
from cutwater.core.sizing.skew import KeySkew
from cutwater.core.util.suggestions import listed
from cutwater.core.util.text_tables import number_text
from cutwater.local import running_file
from cutwater.operations.load_sender import Delivery, LoadPlan, read_recorded, send_load

BEHIND_S = 1.0
"""Further behind its plan a load was not the one that was asked for."""
RECORDS_MAX = 100_000


@report_errors
def load(
    rate: Annotated[float, typer.Option(min=0.1, max=1e6, help="Events per second.")] = 1_000.0,
    seconds: Annotated[float, typer.Option(min=0.1, max=864_000, help="Duration.")] = 60.0,
    events: Annotated[int | None, typer.Option(min=1, help="End after so many events.")] = None,
    shape: Annotated[
        str, typer.Option(help="steady; spike: the peak for a fifth of each period; sawtooth: up to it in each.")
    ] = STEADY,
    peak: Annotated[float, typer.Option(min=1, max=1_000, help="Rate of the peak, divided by RATE.")] = 5.0,
    period: Annotated[float, typer.Option(min=1, max=86_400, help="Seconds from one peak to the next.")] = 30.0,
    keys: Annotated[int, typer.Option(min=1, max=10**12, help="Number of keys.")] = 10_000,
    zipf: Annotated[
        float, typer.Option(min=0, max=5, help="The k-th key has 1/k^ZIPF of the first one's events.")
    ] = 0.0,
    move_hot_keys: Annotated[
        float | None, typer.Option(min=0.1, help="Seconds after which other keys are the frequent ones.")
    ] = None,
    out_of_order: Annotated[
        float, typer.Option(min=0, max=864_000, help="Event times are up to so many seconds before now.")
    ] = 0.0,
    late: Annotated[float, typer.Option(min=0, max=1, help="Share of events whose windows have closed.")] = 0.0,
    bad: Annotated[float, typer.Option(min=0, max=1, help="Share of events that become dead letters.")] = 0.0,
    duplicates: Annotated[float, typer.Option(min=0, max=1, help="Share of events that are sent twice.")] = 0.0,
    from_topic: Annotated[
        str | None, typer.Option(help="Repeat the newest events of this topic, with event times of now.")
    ] = None,
    time_field: Annotated[
        str | None, typer.Option(help="Field of the event time, if the job file computes it.")
    ] = None,
    time_unit: Annotated[str, typer.Option(help=f"Its unit, for a number: {', '.join(TIME_FORMS)}.")] = MILLIS,
    seed: Annotated[int, typer.Option(help="The same seed draws the same keys and values.")] = 0,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
) -> None:
    """Produce events of the running job's schema at a rate, with frequent keys, spikes, late or bad events.

    Event times are those of the clock. Fields other than key and event time have random values. Late events are
    late once the load has run for longer than the job's lateness. Ctrl-C ends the load.

    Examples:  cutwater load --rate 5000 --zipf 1  ·  cutwater load --shape spike --peak 10 --bad 0.001
    """
    _require(shape, SHAPES, "--shape")
    _require(time_unit, TIME_FORMS, "--time-unit")
    if bad + late > 1:
        raise UsageError("--bad and --late are together more than 1, so more than all events: lower one")
    settings = settings_for(data_dir)
    stack = running_file.require(settings.data_dir, job_name)
    job = load_job(Path(stack.job_file))
    require_own_source(job)
    registry, time = registry_for(job, settings), TimeField(job, time_field, time_unit)
    if from_topic:
        drawn: Events = RecordedDraw(read_recorded(stack.cluster, job, registry, from_topic, RECORDS_MAX), time)
    else:
        flaws = Flaws(late, bad, duplicates, int(out_of_order * 1_000))
        drawn = LoadDraw(job, KeySkew(keys, zipf), Random(seed), flaws, move_hot_keys, time)
    plan = LoadPlan(RateProfile(rate, shape, peak, period), seconds, events)
    writer = EventWriter(stack.cluster, job, registry)
    with err.task("sent", "events", total=plan.events, quiet=as_json, transient=False) as progress:
        delivery = send_load(writer, drawn, plan, progress)
    _report(job, delivery, as_json)


def _require(given: str, allowed: object, option: str) -> None:
    if given not in allowed:  # type: ignore[operator]
        raise UsageError(f"{option} {given}: allowed are {listed(allowed)}")  # type: ignore[arg-type]


def _report(job: Job, delivery: Delivery, as_json: bool) -> None:
    kinds = {name: delivery.kinds.get(name, 0) for name in KINDS}
    rate = delivery.events / max(delivery.seconds, 1e-9)
    if as_json:
        figures = {"seconds": round(delivery.seconds, 3), "behind_s": round(delivery.behind_s, 3)}
        print_json({"topic": job.topic, "delivered": delivery.events, **kinds, **figures})
        return
    flawed = ", ".join(f"{number_text(count)} {name}" for name, count in kinds.items() if count and name != PLAIN)
    out.print(
        f"{number_text(delivery.events)} events delivered to {job.topic} in {delivery.seconds:,.1f} s, "
        f"{rate:,.0f} per second{f'; {flawed}' if flawed else ''}"
    )
    if kinds[DUPLICATE]:
        print_note("each duplicate counts as one more event")
    if delivery.behind_s > BEHIND_S:
        print_note(f"the load was up to {delivery.behind_s:,.1f} s behind its plan: this machine sends no faster")


def register(app: typer.Typer) -> None:
    app.command()(load)
