"""`up`, `status`: the local stack."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, TextIO

import httpx
import typer

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.http.client_options import direct_options
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics import commit_stream
from cutwater.cli.options import DataDirOption, JsonOption, WideOption, settings_for
from cutwater.cli.report import err, iso, milestone_json, out, print_json, print_note, report_errors, table
from cutwater.cli.stack.status_rows import print_progress, read_progress, repeated_failures
from cutwater.core.driver.input_stats import skew_warning
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.monitoring.alert_rules import late_warning
from cutwater.core.protocol.records import Milestone
from cutwater.core.util.text_tables import Styled, number_text
from cutwater.local import running_file
from cutwater.local.machine.disk_space import FOLDER_MODE
from cutwater.local.processes.supervisor import stop_on_signals
from cutwater.local.running_file import RunningStack
from cutwater.local.stack import Stack, run_stack
from cutwater.operations.job_status import limits_of
from cutwater.operations.service_main import keep_private

DETACHED_START_SECONDS_MAX = 300.0
_ABOUT_THE_START = re.compile(
    r"warning:|created on|fetching |starting |[\w-]+ is ready after |\w+: [\d.]+ of [\d.]+ MB"
)
"""Log lines of the started process that `up --detach` prints, besides errors."""


@report_errors
def up(
    job_file: Annotated[Path, typer.Argument(help="The job file.")] = Path("deploy/jobs/flights.yaml"),
    detach: Annotated[bool, typer.Option("--detach", help="Return when every service answers.")] = False,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            envvar="CUTWATER_BOOTSTRAP_SERVERS",
            help="Your Kafka brokers as host:port, comma separated. Without them a broker is started here.",
        ),
    ] = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Start driver, commit-signal and rehydrator on this machine, and a broker unless you name your own.

    If the job is attached to a query of your own, the driver is your program, and the command prints how to run
    it. On your own brokers the source topic must exist. Cutwater's topics are created with three replicas if there
    are three brokers. 'cutwater plan' lists what will be added, 'cutwater down --delete' removes it.

    Exit 2: the job file, a setting or a topic is wrong. 3: the machine lacks something. 4: no broker answers.

    Examples:  cutwater up deploy/jobs/flights.yaml  ·  cutwater up --detach --json
    ·  cutwater up job.yaml --bootstrap-servers kafka-1:9092,kafka-2:9092
    """
    keep_private()
    settings = settings_for(data_dir, bootstrap_servers)
    if detach:
        _show(_start_detached(job_file, settings, bootstrap_servers), as_json)
        return
    with stop_on_signals() as stop, err.status("starting") as status:

        def ready(stack: RunningStack) -> None:
            status.stop()
            _show(stack, as_json)

        run_stack(Stack(job_file, settings, print_note, own_cluster=bool(bootstrap_servers)), stop, ready)


def _start_detached(job_file: Path, settings: Settings, bootstrap_servers: str | None) -> RunningStack:
    if running_file.find(settings.data_dir):
        raise UsageError(f"a stack runs on {settings.data_dir} already; 'cutwater down' stops it")
    log = settings.data_dir / "logs" / "up.log"
    settings.data_dir.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    log.parent.mkdir(exist_ok=True)
    arguments = [sys.executable, "-m", "cutwater.cli.main", "up", str(job_file)]
    arguments += ["--data-dir", str(settings.data_dir)]
    arguments += ["--bootstrap-servers", bootstrap_servers] if bootstrap_servers else []
    with log.open("wb") as file:
        process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    with err.status(f"starting (log: {log})"), log.open(encoding="utf-8", errors="replace") as reader:
        stack = _wait_until_ready(process, settings.data_dir, log, reader)
        _relay(reader)
    return stack


def _relay(log: TextIO) -> None:
    """Print lines about the start that were logged since the last call. An incomplete line stays for the next."""
    at = log.tell()
    while (line := log.readline()).endswith("\n"):
        at = log.tell()
        if _ABOUT_THE_START.match(line):
            print_note(line.rstrip())
    log.seek(at)


def _wait_until_ready(process: subprocess.Popen[bytes], data_dir: Path, log: Path, reader: TextIO) -> RunningStack:
    deadline = time.monotonic() + DETACHED_START_SECONDS_MAX
    while not ((stack := running_file.find(data_dir)) and stack.ready):
        _relay(reader)
        code = process.poll()
        if code is not None:
            error = CutwaterError(f"{_last_error(log)} (log: {log})")
            error.exit_code = code or 1
            raise error
        if time.monotonic() > deadline:
            process.terminate()
            raise UnavailableError(f"the stack did not start in {DETACHED_START_SECONDS_MAX:.0f} s (log: {log})")
        time.sleep(0.1)
    return stack


def _last_error(log: Path) -> str:
    """Return the text from the last line that starts with `error:`. Lines of service logs are indented."""
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    _, found, error = f"\n{text}".rpartition("\nerror:")
    return error.strip() if found else text[-2000:]


def _show(stack: RunningStack, as_json: bool) -> None:
    if as_json:
        print_json(stack.__dict__)
        return
    rows = [
        ("Kafka", stack.bootstrap_servers),
        ("API", stack.api_url),
        ("metrics of the watch", stack.watch_url),
        *((f"metrics of {name}", url) for name, url in stack.metrics.items()),
        ("Spark UI", stack.spark_ui_url or "your program's"),
        ("data", stack.data_dir),
        *((f"log of {name}", path) for name, path in stack.logs.items()),
    ]
    out.table(table(f"job {stack.job}, generation {stack.generation}", ("what", "where"), rows))
    if stack.program:
        _show_program(stack)


def _show_program(stack: RunningStack) -> None:
    lines = [f"export {name}={shlex.quote(value)}" for name, value in stack.program.items()]
    lines.append('spark-submit --jars "$CUTWATER_SPARK_JARS" YOUR_PROGRAM.py')
    out.print("the query is your own; run its program in another shell:")
    out.print("\n".join(lines), whole=True)
    if stack.security_protocol != "PLAINTEXT":
        out.print("set the other CUTWATER_KAFKA_* variables there as for 'cutwater up'")


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
    _show(stack, False)
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
    try:
        url = f"{stack.api_url}/v1/milestone"
        answer: dict[str, object] = httpx.get(
            url, headers=settings.api_headers, timeout=5.0, **direct_options(url)
        ).json()
    except (httpx.HTTPError, ValueError) as error:
        return {"detail": f"the API does not answer: {error}"}
    return answer


def register(app: typer.Typer) -> None:
    for command in (up, status):
        app.command()(command)
