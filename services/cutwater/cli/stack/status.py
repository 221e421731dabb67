"""`status`: what runs, its progress and the active alerts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.http.client_options import direct_options
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics import commit_stream
from cutwater.cli.options import DataDirOption, JobNameOption, JsonOption, WideOption, settings_for
from cutwater.cli.report import iso, milestone_json, out, print_json, report_errors
from cutwater.cli.stack.stack_table import print_api, print_stack
from cutwater.cli.stack.status_rows import print_progress, read_progress, repeated_failures
from cutwater.core.driver.input_stats import skew_warning
from cutwater.core.errors import UnavailableError
from cutwater.core.monitoring.alert_rules import late_warning
from cutwater.core.protocol.records import Milestone
from cutwater.core.util.text_tables import Styled, number_text
from cutwater.local import running_file
from cutwater.local.running_file import RunningStack
from cutwater.operations.job_status import limits_of


@report_errors
def status(
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """Show what runs, the progress of each part, and the active alerts.

    Of several jobs it shows all, or with --job one.

    Exit 1: an alert is active (docs/OPERATING.md explains each), or one of several jobs has ended. 2: no stack
    runs; the error that ended the last one is shown. 4: the brokers do not answer.

    Examples:  cutwater status  ·  cutwater status --json  ·  cutwater status --job flights
    """
    settings = settings_for(data_dir)
    found = running_file.stacks(settings.data_dir)
    if job_name is not None or len(found) < 2:
        one = read_status(running_file.require(settings.data_dir, job_name), settings)
        if as_json:
            print_json(one)
        else:
            _show(one)
        return 1 if one["alerts"] else 0
    read = [_read_any(one, settings) for one in found]
    if as_json:
        print_json({"api_url": running_file.api_of_jobs(settings.data_dir), "jobs": read})
    else:
        for each in read:
            _show_any(each)
        print_api(running_file.api_of_jobs(settings.data_dir))
    return 1 if any("error" in one or one["alerts"] for one in read) else 0


def _read_any(stack: RunningStack, settings: Settings) -> dict[str, Any]:
    """Return the status of one of several jobs; of one that has ended or does not run yet only why."""
    if stack.ended:
        return {"stack": stack.__dict__, "error": f"it has ended, at {stack.ended}"}
    if not stack.ready:
        return {"stack": stack.__dict__, "error": "it is starting"}
    return read_status(stack, settings)


def _show_any(found: dict[str, Any]) -> None:
    if "error" in found:
        out.print(Styled(f"job {found['stack']['job']}:", "red"), f" {found['error']}", whole=True)
    else:
        _show(found)


def read_status(stack: RunningStack, settings: Settings) -> dict[str, Any]:
    """Return the status of one job. Raises UnavailableError if the brokers do not answer."""
    try:
        newest = commit_stream.milestones(stack.cluster, stack.job, limit=1)
    except UnavailableError as error:  # the broker may be the failing process
        failing = (one.text for one in repeated_failures(stack, now_ms()))
        raise UnavailableError("\n".join([str(error), *failing])) from None
    if newest:  # the file still names the generation at the start
        stack = stack.for_generation(str(newest[-1][0].generation))
    view = _view(stack, settings)
    return {
        "stack": stack.__dict__,
        "milestone": milestone_json(newest[-1][0]) if newest else None,
        "view": view,
        "published": _published(stack),
        **read_progress(stack, settings, view),
        "warnings": _warnings(stack, settings, newest[-1][0]) if newest else [],
    }


def _show(found: dict[str, Any]) -> None:
    print_stack(RunningStack(**found["stack"]))
    if one := found["milestone"]:
        told = f": epoch {number_text(one['epoch'])}, watermark {iso(one['watermark_ms'])}"
        out.print("newest milestone ", Styled(str(one["token"]), "bold"), told)
        for warning in found["warnings"]:
            out.print(Styled("warning:", "yellow"), f" {warning}", whole=True)
    view = found["view"]
    out.print(f"view: {view.get('token') or view.get('detail') or 'nothing yet'}")
    out.print(f"published: {found['published'] or 'nothing'}")
    print_progress(found)


def _warnings(stack: RunningStack, settings: Settings, newest: Milestone) -> list[str]:
    limits = limits_of(load_job(Path(stack.job_file)), settings)
    skewed = skew_warning(newest.skew_ms, limits.lateness_ms)
    late = late_warning(newest.late, newest.events - newest.rejected, limits)
    return [f"{one} (cutwater late list)" for one in (skewed, late) if one]


def _published(stack: RunningStack) -> str | None:
    if load_job(Path(stack.job_file)).output.mode == "none":
        return None
    token = commit_stream.published(stack.cluster, stack.job)
    return str(token) if token else None


def _view(stack: RunningStack, settings: Settings) -> dict[str, object]:
    import httpx  # takes 0.1 s, needed only if the brokers answer

    try:
        url = f"{stack.api_url}/v1/milestone"
        answer: dict[str, object] = httpx.get(
            url, headers=settings.api_headers, timeout=5.0, **direct_options(url)
        ).json()
    except (httpx.HTTPError, ValueError) as error:
        return {"detail": f"the API does not answer: {error}"}
    return answer


def register(app: typer.Typer) -> None:
    app.command()(status)
