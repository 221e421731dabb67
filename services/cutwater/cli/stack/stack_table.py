"""What runs: the addresses, folders and logs of a stack, as `up` and `status` print them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from cutwater.cli.report import out, print_json, table
from cutwater.local import running_file
from cutwater.local.console_process import NAME as CONSOLE
from cutwater.local.running_file import RunningStack


def print_stacks(found: Sequence[RunningStack], data_dir: Path, as_json: bool) -> None:
    """Print one job's stack, or those of several jobs, on their data folder, with what they share."""
    api_url = running_file.api_of_jobs(data_dir)
    console_url = running_file.console_of(data_dir) if any(CONSOLE in one.logs for one in found) else ""
    if as_json:
        several = {"api_url": api_url, "jobs": [one.__dict__ for one in found]}
        print_json({**(found[0].__dict__ if len(found) == 1 else several), "console_url": console_url})
        return
    for stack in found:
        print_stack(stack)
    if len(found) > 1:
        print_api(api_url)
    if console_url:
        out.print(f"console: {console_url}", whole=True)


def print_api(url: str) -> None:
    out.print(f"API of all jobs: {url}/v1/jobs", whole=True)


def print_stack(stack: RunningStack) -> None:
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
        _print_program(stack)


def _print_program(stack: RunningStack) -> None:
    lines = [f"export {name}={shlex.quote(value)}" for name, value in stack.program.items()]
    lines.append('spark-submit --jars "$CUTWATER_SPARK_JARS" YOUR_PROGRAM.py')
    out.print("the query is your own; run its program in another shell:")
    out.print("\n".join(lines), whole=True)
    if stack.security_protocol != "PLAINTEXT":
        out.print("set the other CUTWATER_KAFKA_* variables there as for 'cutwater up'")
