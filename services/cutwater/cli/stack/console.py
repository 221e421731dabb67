"""`console`: serve the pages about the jobs of the running stack."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.runtime.clock import now_ms
from cutwater.cli.options import DataDirOption, JsonOption, settings_for
from cutwater.cli.report import out, print_json_line, print_note, report_errors
from cutwater.cli.stack.status_rows import repeated_failures
from cutwater.core.util.text_tables import Styled
from cutwater.local import running_file
from cutwater.local.console_process import PORT
from cutwater.local.running_file import RunningStack

if TYPE_CHECKING:
    from cutwater.console.ports import RunningJob


@report_errors
def console(
    host: Annotated[
        str, typer.Option(help="Address to bind to. For others than this machine's own, set a token.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to bind to; 0 for a free one.")] = PORT,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Serve the console: pages about the jobs that run on the data folder, until Ctrl-C.

    The console may start before the stack, and stays when jobs end. If CUTWATER_API_TOKEN is set, the page asks
    for a token once per tab. Without a token, names of this port besides its addresses must be in
    CUTWATER_API_HOSTS. The pages only read, unless CUTWATER_TOKENS gives the token a role: an operator pauses a
    mirror or takes a snapshot, an owner also promotes or gives up a candidate. Each action is on the audit log.

    Exit 3: the port is in use.

    Examples:  cutwater console  ·  cutwater console --port 0 --json
    """
    from cutwater.console.service import Console  # takes half a second
    from cutwater.operations.service_main import listen

    settings = settings_for(data_dir)
    service = Console(settings, host, port, lambda: running_jobs(settings))
    listen(service)
    if as_json:
        print_json_line({"url": service.url})
    else:
        out.print("console: ", Styled(service.url, "bold"), " (Ctrl-C ends it)", whole=True)
    if service.open_to_network:
        print_note("warning: the console is open to the network without a token: set CUTWATER_API_TOKEN")
    service.run()


def running_jobs(settings: Settings) -> list[RunningJob]:
    """Return the jobs of the stack on the data folder. Raises UsageError if the security settings do not fit."""
    return [_running_job(one, settings) for one in running_file.stacks(settings.data_dir)]


def _running_job(stack: RunningStack, settings: Settings) -> RunningJob:
    from cutwater.console.ports import JobPlace, RunningJob

    cluster = stack.cluster
    here = {
        "data_dir": Path(stack.data_dir),
        "bootstrap_servers": cluster.bootstrap,
        "kafka_security_protocol": cluster.security.protocol,
    }
    place = JobPlace(
        stack.job,
        Path(stack.job_file),
        stack.generation,
        cluster,
        settings.model_copy(update=here),
        stack.api_url,
        stack.snapshots,
        stack.ready,
        stack.ended,
    )
    return RunningJob(place, tuple(repeated_failures(stack, now_ms())))


def register(app: typer.Typer) -> None:
    app.command()(console)
