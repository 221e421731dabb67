"""`status`: what runs, its progress and the active alerts."""

from __future__ import annotations

from pathlib import Path

import typer

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.http.client_options import direct_options
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics import commit_stream
from cutwater.cli.options import DataDirOption, JsonOption, WideOption, settings_for
from cutwater.cli.report import iso, milestone_json, out, print_json, report_errors
from cutwater.cli.stack.stack_table import print_stack
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
def status(data_dir: DataDirOption = None, as_json: JsonOption = False, wide: WideOption = False) -> int:
    """Show what runs, the progress of each part, and the active alerts.

    Exit 1: an alert is active; docs/OPERATING.md explains each. 2: no stack runs; the error that ended the last
    one is shown. 4: the brokers do not answer.

    Examples:  cutwater status  ·  cutwater status --json
    """
    settings = settings_for(data_dir)
    stack = running_file.require(settings.data_dir)
    try:
        newest = commit_stream.milestones(stack.cluster, stack.job, limit=1)
    except UnavailableError as error:  # the broker may be the failing process
        failing = (one.text for one in repeated_failures(stack, now_ms()))
        raise UnavailableError("\n".join([str(error), *failing])) from None
    if newest:  # the file still names the generation at the start
        stack = stack.for_generation(str(newest[-1][0].generation))
    view = _view(stack, settings)
    published = _published(stack)
    found_now = read_progress(stack, settings, view)
    code = 1 if found_now["alerts"] else 0
    if as_json:
        newest_json = milestone_json(newest[-1][0]) if newest else None
        warnings = _warnings(stack, settings, newest[-1][0]) if newest else []
        found = {"stack": stack.__dict__, "milestone": newest_json, "view": view, "published": published}
        print_json({**found, **found_now, "warnings": warnings})
        return code
    print_stack(stack, False)
    if newest:
        one = newest[-1][0]
        told = f": epoch {number_text(one.epoch)}, watermark {iso(one.watermark_ms)}"
        out.print("newest milestone ", Styled(str(one.token), "bold"), told)
        for warning in _warnings(stack, settings, one):
            out.print(Styled("warning:", "yellow"), f" {warning}", whole=True)
    out.print(f"view: {view.get('token') or view.get('detail') or 'nothing yet'}")
    out.print(f"published: {published or 'nothing'}")
    print_progress(found_now)
    return code


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
