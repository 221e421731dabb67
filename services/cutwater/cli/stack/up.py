"""`up`: start the local stack."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, TextIO

import typer

from cutwater.adapters.config.settings import Settings
from cutwater.cli.action_audit import actor, audit_action
from cutwater.cli.options import DataDirOption, JsonOption, WideOption, settings_for
from cutwater.cli.report import err, print_note, report_errors
from cutwater.cli.stack.stack_table import print_stacks
from cutwater.core.access.actions import UP
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.local import running_file
from cutwater.local.console_process import console_process
from cutwater.local.jobs.job_files import is_of_one, job_folders
from cutwater.local.jobs.jobs_stack import prepare_jobs, run_jobs
from cutwater.local.machine.disk_space import FOLDER_MODE
from cutwater.local.processes.supervisor import stop_on_signals
from cutwater.local.running_file import RunningStack
from cutwater.local.stack.stack import Stack
from cutwater.local.stack.stack_lifecycle import run_stack
from cutwater.operations.service_main import keep_private

DETACHED_START_SECONDS_MAX = 300.0
_ABOUT_THE_START = re.compile(
    r"(?:[\w-]+: )?(?:warning:|created on|fetching |starting |[\w-]+ is ready after |\w+: [\d.]+ of [\d.]+ MB)"
)
"""Log lines of the started process that `up --detach` prints, besides errors."""


@report_errors
def up(
    job_files: Annotated[
        list[Path] | None,
        typer.Argument(help="The job files, at most 50. Default: deploy/jobs/flights.yaml."),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return when every service answers.")] = False,
    together: Annotated[
        bool, typer.Option("--together", help="With several jobs: end all if one must end.")
    ] = False,
    one_application: Annotated[
        bool,
        typer.Option(
            "--one-application",
            help="With several jobs: run their queries in one Spark application, whose memory they share.",
        ),
    ] = False,
    no_console: Annotated[
        bool, typer.Option("--no-console", help="Do not serve the console beside the stack.")
    ] = False,
    movable_clocks: Annotated[
        bool,
        typer.Option("--movable-clocks", help="Let 'cutwater chaos' move the clocks of this one job's services."),
    ] = False,
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

    The console runs beside the stack, on port 8330 or, if that is in use, on a free one (CUTWATER_CONSOLE_PORT).

    Several jobs have one broker and one supervisor. Each has its own processes, and its folder jobs/NAME below the
    data folder. A job that must not be started again ends alone, unless --together is given. Other commands choose
    a job with --job NAME. Each driver has a Spark application of its own, with a JVM, unless --one-application is
    given.

    Exit 2: a job file, a setting or a topic is wrong. 3: the machine lacks something. 4: no broker answers.

    Examples:  cutwater up deploy/jobs/flights.yaml  ·  cutwater up --detach --json
    ·  cutwater up orders.yaml revenue.yaml --one-application
    ·  cutwater up job.yaml --bootstrap-servers kafka-1:9092,kafka-2:9092
    """
    keep_private()
    settings = settings_for(data_dir, bootstrap_servers)
    files = job_files or [Path("deploy/jobs/flights.yaml")]
    data_dir = settings.data_dir.resolve()
    if detach:
        options = {"--together": together, "--one-application": one_application, "--no-console": no_console}
        options |= {"--movable-clocks": movable_clocks}
        given = [name for name, on in options.items() if on]
        started = _start_detached(files, settings, bootstrap_servers, given)
        print_stacks(started, data_dir, as_json)
        return
    actor(settings, UP)
    jobs = job_folders(files, data_dir)
    if one_application and is_of_one(jobs, data_dir):
        raise UsageError("--one-application is for several jobs, and one job file is given: leave it out")
    if movable_clocks and not is_of_one(jobs, data_dir):
        raise UsageError("--movable-clocks is for one job, and several job files are given: leave it out")
    with stop_on_signals() as stop, err.status("starting") as status:

        def ready(found: list[RunningStack]) -> None:
            status.stop()
            for one in found:  # not before: the log is on brokers that have just started
                audit_action(UP, settings, one.cluster, one.job).done(f"generation {one.generation} has started")
            print_stacks(found, data_dir, as_json)

        own = bool(bootstrap_servers)
        console = None if no_console else console_process(settings, data_dir)
        if is_of_one(jobs, data_dir):
            one_stack = Stack(
                files[0],
                settings,
                print_note,
                own_cluster=own,
                console=console,
                movable_clocks=movable_clocks,
            )
            run_stack(one_stack, stop, lambda one: ready([one]))
        else:
            stack = prepare_jobs(
                jobs,
                settings,
                print_note,
                own_cluster=own,
                together=together,
                one_application=one_application,
                console=console,
            )
            run_jobs(stack, stop, ready)


def _start_detached(
    files: list[Path], settings: Settings, bootstrap_servers: str | None, options: list[str]
) -> list[RunningStack]:
    if running_file.stacks(settings.data_dir):
        raise UsageError(f"a stack runs on {settings.data_dir} already; 'cutwater down' stops it")
    log = settings.data_dir / "logs" / "up.log"
    settings.data_dir.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    log.parent.mkdir(exist_ok=True)
    arguments = [sys.executable, "-m", "cutwater.cli.main", "up", *map(str, files)]
    arguments += ["--data-dir", str(settings.data_dir)]
    arguments += ["--bootstrap-servers", bootstrap_servers] if bootstrap_servers else []
    arguments += options
    with log.open("wb") as file:
        process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    with err.status(f"starting (log: {log})"), log.open(encoding="utf-8", errors="replace") as reader:
        found = _wait_until_ready(process, settings.data_dir, len(files), log, reader)
        _relay(reader)
    return found


def _relay(log: TextIO) -> None:
    """Print lines about the start that were logged since the last call. An incomplete line stays for the next."""
    at = log.tell()
    while (line := log.readline()).endswith("\n"):
        at = log.tell()
        if _ABOUT_THE_START.match(line):
            print_note(line.rstrip())
    log.seek(at)


def _wait_until_ready(
    process: subprocess.Popen[bytes], data_dir: Path, jobs: int, log: Path, reader: TextIO
) -> list[RunningStack]:
    deadline = time.monotonic() + DETACHED_START_SECONDS_MAX * jobs
    while not (
        len(found := running_file.stacks(data_dir)) == jobs and all(one.ready or one.ended for one in found)
    ):
        _relay(reader)
        code = process.poll()
        if code is not None:
            error = CutwaterError(f"{_last_error(log)} (log: {log})")
            error.exit_code = code or 1
            raise error
        if time.monotonic() > deadline:
            process.terminate()
            seconds = DETACHED_START_SECONDS_MAX * jobs
            raise UnavailableError(f"the stack did not start in {seconds:.0f} s (log: {log})")
        time.sleep(0.1)
    return found


def _last_error(log: Path) -> str:
    """Return the text from the last line that starts with `error:`. Lines of service logs are indented."""
    text = log.read_text(encoding="utf-8", errors="replace").strip()
    _, found, error = f"\n{text}".rpartition("\nerror:")
    return error.strip() if found else text[-2000:]


def register(app: typer.Typer) -> None:
    app.command()(up)
