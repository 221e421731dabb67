"""`skew`: where the load is, as a heat map, with the heaviest keys and what to do."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.spread_plan import SpreadState
from cutwater.cli.key_argument import KeyCommand
from cutwater.cli.options import (
    BootstrapOption,
    DataDirOption,
    JobNameOption,
    JobOption,
    JsonOption,
    WideOption,
    find_job,
)
from cutwater.cli.report import err, iso, out, print_json, print_note, report_errors, table
from cutwater.cli.skew.spread import plan, spread, unspread
from cutwater.core.skew.heat_bands import SHADES, HeatBands, heat_bands
from cutwater.core.skew.load import KEYS_SHOWN, ShardLoad
from cutwater.core.skew.recommendations import (
    CHANGELOG,
    NOTHING,
    SOURCE,
    SPREAD,
    HotKey,
    Recommendation,
    SkewFacts,
    recommend,
)
from cutwater.core.util.text_tables import Column, Styled
from cutwater.operations.skew.changelog_load import read_load
from cutwater.operations.skew.spread_control import SpreadControl

MILESTONES = 30
MILESTONES_MAX = 5_000
BANDS, BANDS_JSON = 16, 64
COLUMNS_DEFAULT = 100
_LABEL = 24
_STYLES = ("", "dim", "", "yellow", "red")
SHOW = "show"


class SkewGroup(TyperGroup):
    """Without a verb of its own, the words are those of `show`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        if first not in self.commands and first != "--help":
            args = [SHOW, *args]
        return super().parse_args(ctx, args)


group = typer.Typer(
    name="skew",
    cls=SkewGroup,
    help="Show where the load is by shard and key and what to do about it, and spread hot keys.\n\n"
    "Without a verb it is 'cutwater skew show'.\n\n"
    "Examples:  cutwater skew  ·  cutwater skew --png heat.png  ·  cutwater skew spread JFK --over 3  ·  "
    "cutwater skew plan  ·  cutwater skew unspread JFK",
)


@group.command(SHOW)
@report_errors
def show(
    job_file: JobOption = None,
    milestones: Annotated[
        int, typer.Option(min=1, max=MILESTONES_MAX, help="Number of newest milestones.")
    ] = MILESTONES,
    limit: Annotated[int, typer.Option(min=1, max=KEYS_SHOWN, help="Number of keys to list.")] = 10,
    png: Annotated[
        Path | None, typer.Option(help="Write the heat map as a picture to this file, too.", dir_okay=False)
    ] = None,
    bootstrap_servers: BootstrapOption = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Show the load of the newest milestones by shard and key as a heat map, and what to do about it.

    It is read from the rows that the changelog holds; the driver does nothing for it. Weights are events if the
    job has a measure of kind count without a field, else rows. As many milestones before are read to tell a row's
    new events from its earlier ones. If there are more than 5,000,000 records, fewer milestones are counted.

    --png needs the packages of 'cutwater[demo]'.

    Exit 2: too few milestones, or no stack runs. 3: a package for --png is missing. 4: no broker answers.

    Examples:  cutwater skew show  ·  cutwater skew show --milestones 200 --png heat.png
    ·  cutwater skew show --json  ·  cutwater skew show job.yaml --bootstrap-servers kafka-1:9092
    """
    place = find_job(job_file, bootstrap_servers, data_dir, job_name)
    if png is not None:
        from cutwater.local.machine.extras import require

        require("demo", "matplotlib")
    with err.task("reading the changelog", "records", quiet=as_json) as progress:
        load = read_load(place.cluster, place.job, milestones, progress)
    control = SpreadControl(place.cluster, place.job, now_ms)
    state = control.state()
    steps = recommend(_facts(load, state, control.obstacles()))
    if png is not None:
        from cutwater.cli.skew.heat_plot import write_png

        write_png(heat_bands(load.cells, _partitions(load), BANDS_JSON, MILESTONES_MAX), _title(load), png)
    if as_json:
        print_json(_document(load, state, steps, limit))
    else:
        _show(load, steps, limit)
        if png is not None:
            print_note(f"written: {png}")


def _partitions(load: ShardLoad) -> int:
    return len(load.rows_by_partition)


def _facts(load: ShardLoad, state: SpreadState, obstacles: tuple[str, ...]) -> SkewFacts:
    many = max(load.source, default=0) + 1
    return SkewFacts(
        source=tuple(load.source.get(at, 0) for at in range(many)),
        keys=tuple(HotKey(one.key, one.events) for one in load.keys) if load.measured else (),
        spread={one.key: one.partitions for one in state.plan.keys} if state.plan else {},
        shard_rows=load.shard_rows,
        partitions=_partitions(load),
        obstacles=obstacles,
        counts_events=load.measured,
    )


def _title(load: ShardLoad) -> str:
    last = load.milestones[-1]
    what = "events" if load.measured else "rows (the job has no count of events)"
    return f"{load.events:,} {what} in {len(load.milestones)} milestones up to {last.token}"


def _show(load: ShardLoad, steps: tuple[Recommendation, ...], limit: int) -> None:
    columns = (out.columns or COLUMNS_DEFAULT) - _LABEL
    _print_heat(heat_bands(load.cells, _partitions(load), BANDS, columns), _title(load))
    total = load.events or 1
    of = "events" if load.measured else "rows"
    rows = [[one.key, one.events, f"{one.events / total:.1%}", one.rows] for one in load.keys[:limit]]
    error = f", too small by at most {load.keys_error:,}" if load.keys_error else ""
    heads = [Column("key"), Column(of), Column("share", 1), Column("rows written", 2)]
    out.table(table(f"heaviest keys{error}", heads, rows))
    if load.overcount:
        print_note(f"{load.overcount:,} events of rows that were silent before are counted twice")
    records = sum(load.source.values()) or 1
    source = [[at, n, f"{n / records:.1%}"] for at, n in sorted(load.source.items())]
    out.table(table("source partitions", ["partition", "records", Column("share", 1)], source))
    for one in steps:
        out.print(f"recommended: {advice(one)}")


def _print_heat(heat: HeatBands, title: str) -> None:
    out.print(title)
    each = "1 milestone" if heat.column == 1 else f"{heat.column} milestones"
    out.print(f"a column is {each}, a row {heat.band} shard(s); the darkest has {heat.hottest:,}")
    for at, row in enumerate(heat.cells):
        first, last = heat.partitions[at]
        begin = at * heat.band
        of = f"{first}" if first == last else f"{first}-{last}"
        label = f"{begin}-{begin + heat.band - 1} (partition {of})"[: _LABEL - 1]
        levels = [heat.level(one) for one in row]
        out.print(Styled(f"{label:<{_LABEL}}"), *_runs(levels))


def _runs(levels: list[int]) -> list[Styled]:
    """Return the cells as few parts, each of one shade."""
    runs: list[tuple[int, int]] = []
    for level in levels:
        if runs and runs[-1][0] == level:
            runs[-1] = (level, runs[-1][1] + 1)
        else:
            runs.append((level, 1))
    return [Styled(SHADES[level] * many, _STYLES[level]) for level, many in runs]


def advice(one: Recommendation) -> str:
    """Return a recommendation as a sentence with the command."""
    after = f" (the fullest has {one.fullness:.2f} times the mean, then {one.expected:.2f})"
    if one.kind == NOTHING:
        return f"nothing: {one.reason}"
    if one.kind == SPREAD:
        return f"cutwater skew spread {one.key} --over {one.over}: {one.reason}{after}"
    if one.kind == SOURCE:
        return f"{one.over} partitions of the source: {one.reason}"
    if one.kind == CHANGELOG:
        return f"cutwater generation start --partitions {one.over}: {one.reason}{after}"
    return f"cutwater skew unspread {one.key}: {one.reason}"


def _document(
    load: ShardLoad, state: SpreadState, steps: tuple[Recommendation, ...], limit: int
) -> dict[str, Any]:
    first, last = load.milestones[0], load.milestones[-1]
    heat = heat_bands(load.cells, _partitions(load), BANDS_JSON, MILESTONES_MAX)
    shards = load.shards
    return {
        "job": last.job,
        "first": first.token,
        "last": last.token,
        "milestones": len(load.milestones),
        "warm_up": load.warm_up,
        "since": iso(first.epoch_started_ms),
        "until": iso(last.committed_ms),
        "rows_read": load.rows_read,
        "weight": "events" if load.measured else "rows",
        "total": load.events,
        "overcount": load.overcount,
        "keys": [one._asdict() for one in load.keys[:limit]],
        "keys_error": load.keys_error,
        "rows_error": load.rows_error,
        "source": [{"partition": at, "records": n} for at, n in sorted(load.source.items())],
        "changelog": [{"partition": at, "rows": n} for at, n in enumerate(load.rows_by_partition)],
        "shards": [
            {"shard": at, "weight": weight, "rows": load.shard_rows[at]}
            for at, weight in enumerate(shards)
            if load.shard_rows[at]
        ],
        "heat": {"band": heat.band, "column": heat.column, "cells": heat.cells},
        "plan_version": state.plan.version if state.plan else 0,
        "recommendations": [asdict(one) for one in steps],
    }


def register(app: typer.Typer) -> None:
    group.command("plan")(plan)
    group.command("spread", cls=KeyCommand)(spread)
    group.command("unspread", cls=KeyCommand)(unspread)
    app.add_typer(group)
