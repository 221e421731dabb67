"""`policy`: checks job files against a team's policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from cutwater.adapters.config.figure_files import read_figures
from cutwater.adapters.config.policy_file import TeamPolicy, read_team_policy
from cutwater.adapters.config.settings import Settings, load_settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.cli.options import JsonOption, WideOption
from cutwater.cli.report import print_report, report_errors
from cutwater.core.checks.findings import Finding, Level
from cutwater.core.checks.policy import check_policy
from cutwater.core.job.job import Job
from cutwater.core.sizing.costs import Prices
from cutwater.core.sizing.lifecycle import Keeping, Resource, check_lifecycle, resources_of
from cutwater.core.util.text_tables import Column, Styled

app = typer.Typer(
    help="""A team's policy for jobs: check job files against it.

    Examples:  cutwater policy check deploy/jobs/flights.yaml
    """,
    no_args_is_help=True,
)


@app.command()
@report_errors
def check(
    job_files: Annotated[list[Path], typer.Argument(help="The job files.")],
    policy: Annotated[Path, typer.Option(help="YAML with the policy.")] = Path("policy.yaml"),
    prices: Annotated[Path | None, typer.Option(help="YAML with prices, as of 'cutwater size'.")] = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """Check job files against a policy, and print each rule that one breaks. No broker or store is asked.

    A policy bounds what job files may say: names, formats, retentions, lateness, partitions (docs/POLICY.md).
    'doctor' and 'plan' check a job file against CUTWATER_POLICY too, but for what follows.

    If the policy has 'lifecycle' or 'loads', one more line for each resource (changelog, old generations, output,
    lists, streams, snapshots, and their total) says for how long it is kept, what sets that and what removes it.
    For a job with a load in the policy it has the bytes, and with --prices what they cost in a month.

    Exit 0: every job keeps the policy. 1: one breaks a rule. 2: a file is wrong.

    Examples:  cutwater policy check deploy/jobs/flights.yaml
    ·  cutwater policy check jobs/*.yaml --policy team.yaml --prices prices.yaml
    """
    team = read_team_policy(policy)
    listed = read_figures(prices, Prices) if prices else None
    found = [one for path in job_files for one in _checked(load_job(path), team, listed)]
    columns = ("job", "", Column("found", below=True), Column("what to do", below=True))
    print_report(f"policy {policy}", columns, map(_row, found), list(map(_plain, found)), as_json)
    return 1 if any(one.finding.level is Level.ERROR for one in found) else 0


class _Checked(NamedTuple):
    job: str
    finding: Finding
    resource: Resource | None = None


def _checked(job: Job, team: TeamPolicy, prices: Prices | None) -> Iterator[_Checked]:
    for one in check_policy(job, team.policy):
        yield _Checked(job.name, one)
    if not (team.policy.lifecycle or team.loads):
        return
    kept = resources_of(job, _keeping(load_settings()), team.loads.get(job.name), prices)
    currency = prices.currency if prices else ""
    for resource, finding in check_lifecycle(team.policy.lifecycle, kept, currency):
        yield _Checked(job.name, finding, resource)


def _keeping(settings: Settings) -> Keeping:
    return Keeping(
        settings.keep_streams_hours,
        settings.keep_generations_hours,
        bool(settings.snapshots),
        settings.snapshot_keep_hours,
        settings.snapshot_keep_days,
    )


def _row(found: _Checked) -> tuple[str | Styled, ...]:
    job, one, _ = found
    broken = one.level is Level.ERROR
    return job, Styled("broken" if broken else "kept", "red" if broken else "green"), one.found, one.remedy


def _plain(found: _Checked) -> dict[str, Any]:
    kept = found.resource
    return {
        "job": found.job,
        **asdict(found.finding),
        "resource": kept.name if kept else None,
        "keep_ms": kept.keep_ms if kept else None,
        "bytes": round(kept.bytes) if kept and kept.bytes is not None else None,
        "monthly_cost": round(kept.cost, 2) if kept and kept.cost is not None else None,
    }


def register(app_: typer.Typer) -> None:
    app_.add_typer(app, name="policy")
