"""`size`: partitions, processes, disks and traffic for a job and a load."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from cutwater.adapters.config.figure_files import read_figures
from cutwater.adapters.job_files.loader import load_job
from cutwater.cli.options import JsonOption, WideOption
from cutwater.cli.report import out, print_json, print_note, report_errors, table
from cutwater.core.sizing.costs import Amount, Prices, monthly_amounts
from cutwater.core.sizing.demand import Demand
from cutwater.core.sizing.figures import Figure, Sizing
from cutwater.core.sizing.machine import Machine
from cutwater.core.sizing.recommendation import size_job
from cutwater.core.sizing.simulation import Course, simulate
from cutwater.core.sizing.skew import KeySkew
from cutwater.core.util.text_tables import Column


@report_errors
def size(
    job_file: Annotated[Path, typer.Argument(help="The job file.")],
    events_per_second: Annotated[
        float, typer.Option(min=0.001, max=1e9, help="Events per second, the mean of a month.")
    ] = 1_000.0,
    keys: Annotated[int, typer.Option(min=1, max=10**12, help="Number of keys.")] = 10_000,
    zipf: Annotated[
        float,
        typer.Option(min=0, max=5, help="The k-th key has 1/k^ZIPF of the first one's events."),
    ] = 0.0,
    event_bytes: Annotated[int, typer.Option(min=1, max=10**9, help="Bytes per event.")] = 200,
    peak: Annotated[
        float, typer.Option(min=1, max=1_000, help="The rate of the busiest minutes, divided by the mean.")
    ] = 2.0,
    recovery: Annotated[
        float, typer.Option(min=2, max=86_400, help="Seconds from a new rehydrator's start to its answers.")
    ] = 60.0,
    epoch: Annotated[float, typer.Option(min=0.1, max=60, help="Seconds of an epoch.")] = 0.5,
    copies: Annotated[int, typer.Option(min=1, max=10, help="Copies of each record on the brokers.")] = 3,
    mirror: Annotated[bool, typer.Option("--mirror", help="Another region mirrors the job.")] = False,
    remote_checkpoint: Annotated[
        bool, typer.Option("--remote-checkpoint", help="Spark's checkpoint is in an object store.")
    ] = False,
    values: Annotated[
        int | None,
        typer.Option(
            min=1, max=10**12, help="Different values of a field that distinct or top counts. Default: all differ."
        ),
    ] = None,
    one_machine: Annotated[
        bool, typer.Option("--one-machine", help="Broker, services and producers are on the driver's machine.")
    ] = False,
    machine: Annotated[
        Path | None, typer.Option(help="YAML with figures of your machines. Default: two cores.")
    ] = None,
    prices: Annotated[Path | None, typer.Option(help="YAML with prices, to print a month's costs.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print the calculation of each figure.")] = False,
    seed: Annotated[int, typer.Option(help="Of the simulation, which places frequent keys by chance.")] = 0,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Size a job for a load: partitions, cores, memory, disks, snapshots, a restore, and a month's traffic.

    Nothing is asked or written. Cores and partitions are for the peak, disks and a month's amounts for the mean.
    A simulation of ten minutes at the mean and ten at the peak says how late events can be read. docs/SIZING.md
    has the formulas, and the figures that files of --machine and --prices may have. The driver is taken to have
    its cores to itself; with --one-machine it shares those of one machine, as under 'cutwater up'.

    Exit 2: the job file, another file or an option is wrong.

    Examples:  cutwater size deploy/jobs/flights.yaml --events-per-second 50000 --keys 1000000
    ·  cutwater size job.yaml --events-per-second 200000 --keys 10000000 --zipf 1.1 --explain
    ·  cutwater size job.yaml --events-per-second 500 --one-machine --machine machine.yaml
    ·  cutwater size job.yaml --events-per-second 5000 --mirror --prices prices.yaml --json
    """
    job = load_job(job_file)
    demand = Demand(
        events_per_second,
        KeySkew(keys, zipf),
        event_bytes,
        peak,
        recovery,
        epoch,
        copies,
        mirrored=mirror,
        remote_checkpoint=remote_checkpoint,
        values=values,
        one_machine=one_machine,
    )
    figures = read_figures(machine, Machine) if machine else Machine()
    listed = read_figures(prices, Prices) if prices else None
    sizing = size_job(job, demand, figures)
    course = simulate(job, demand, figures, sizing, Random(seed))
    amounts = list(monthly_amounts(sizing, demand, listed or Prices()))
    if as_json:
        print_json(
            {
                "job": job.name,
                "figures": [one._asdict() for one in sizing.figures],
                "month": [one._asdict() for one in amounts],
                "currency": listed.currency if listed else None,
                "simulation": course,
                "warnings": sizing.warnings,
            }
        )
        return
    _show(job.name, sizing, course, explain)
    _show_month(amounts, listed)


def _show(job: str, sizing: Sizing, course: Course, explain: bool) -> None:
    columns: Sequence[str | Column] = ("what", "how much", "of")
    if explain:
        columns = (*columns, Column("because", below=True))
    rows = ((one.name, _number(one), one.unit, *((one.why,) if explain else ())) for one in sizing.figures)
    out.table(table(f"job {job}", columns, rows))
    if course.keeps_up:
        print_note(
            f"simulated at the peak: events can be read after {course.p50_s:.2g} s (p50) and {course.p99_s:.2g} s "
            f"(p99), the driver's cores are {course.busy:.0%} busy"
        )
    else:
        print_note(f"warning: simulated, a backlog of {course.backlog_max:,.0f} events is never read")
    for line in sizing.warnings:
        print_note(f"warning: {line}")


def _number(one: Figure) -> str:
    return f"{one.value:,.0f}" if one.value == int(one.value) else f"{one.value:,.3g}"


def _show_month(amounts: Sequence[Amount], prices: Prices | None) -> None:
    columns = ("in a month", "how much", "of", *((f"cost {prices.currency}".strip(),) if prices else ()))
    rows = (
        (one.name, f"{one.value:,.3g}" if one.value < 1_000 else f"{one.value:,.0f}", one.unit)
        + ((f"{one.cost:,.2f}",) if prices else ())
        for one in amounts
    )
    out.table(table("a month of 730 hours", columns, rows))
    if prices:
        print_note(f"in all {sum(one.cost for one in amounts):,.2f} {prices.currency}".rstrip())


def register(app: typer.Typer) -> None:
    app.command()(size)
