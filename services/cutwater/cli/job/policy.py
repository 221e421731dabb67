"""`policy`: checks job files against a team's policy."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cutwater.adapters.config.policy_file import read_policy
from cutwater.adapters.job_files.loader import load_job
from cutwater.cli.options import JsonOption, WideOption
from cutwater.cli.report import print_report, report_errors
from cutwater.core.checks.findings import Finding, Level
from cutwater.core.checks.policy import check_policy
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
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """Check job files against a policy, and print each rule that one breaks. No broker is asked.

    A policy bounds what job files may say: names, formats, retentions, lateness, partitions (docs/POLICY.md).
    'doctor' and 'plan' check a job file against CUTWATER_POLICY too.

    Exit 0: every job keeps the policy. 1: one breaks a rule. 2: a file is wrong.

    Examples:  cutwater policy check deploy/jobs/flights.yaml
    ·  cutwater policy check jobs/*.yaml --policy team.yaml
    """
    rules = read_policy(policy)
    found = [(load_job(path).name, one) for path in job_files for one in check_policy(load_job(path), rules)]
    columns = ("job", "", Column("found", below=True), Column("what to do", below=True))
    print_report(f"policy {policy}", columns, map(_row, found), list(map(_plain, found)), as_json)
    return 1 if any(one.level is Level.ERROR for _, one in found) else 0


def _row(found: tuple[str, Finding]) -> tuple[str | Styled, ...]:
    job, one = found
    broken = one.level is Level.ERROR
    return job, Styled("broken" if broken else "kept", "red" if broken else "green"), one.found, one.remedy


def _plain(found: tuple[str, Finding]) -> dict[str, Any]:
    job, one = found
    return {"job": job, **asdict(one)}


def register(app_: typer.Typer) -> None:
    app_.add_typer(app, name="policy")
