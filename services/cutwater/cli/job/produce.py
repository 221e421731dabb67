"""`produce`: writes events from JSON lines to the job's source topic."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from cutwater.adapters.events.event_producer import EventWriter, require_own_source
from cutwater.adapters.events.event_values import Make
from cutwater.adapters.events.line_values import line_number, line_values
from cutwater.adapters.events.registry import registry_for
from cutwater.adapters.job_files.loader import load_job
from cutwater.cli.options import DataDirOption, JobNameOption, JsonOption, settings_for
from cutwater.cli.report import err, out, print_json, report_errors
from cutwater.core.errors import UsageError
from cutwater.core.util.text_tables import number_text
from cutwater.local import running_file


@report_errors
def produce(
    file: Annotated[Path, typer.Argument(help="File of JSON lines, one event each; '-' reads standard input.")],
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
) -> None:
    """Produce events to the running job, checked against its schema.

    Times are ISO 8601 or numbers in the unit of the schema, decimals numbers or texts, bytes base64. The first
    event that does not fit stops the command, which prints its line number. The events before it have been
    produced.

    Examples:  cutwater produce events.jsonl  ·  cat events.jsonl | cutwater produce -
    """
    settings = settings_for(data_dir)
    stack = running_file.require(settings.data_dir, job_name)
    job = load_job(Path(stack.job_file))
    require_own_source(job)
    writer = EventWriter(stack.cluster, job, registry_for(job, settings))
    with err.task("produced", "events", quiet=as_json, transient=False) as progress:
        lines = EventLines(file, line_values(job.event_schema))
        try:
            count = writer.write_all(lines, progress)
        except UsageError as error:
            raise UsageError(f"{file}, line {lines.number}: {error}") from None
    if as_json:
        print_json({"topic": job.topic, "delivered": count})
    else:
        out.print(f"{number_text(count)} events delivered to {job.topic}")


class EventLines:
    """The events of a file of JSON lines. `number`: the last line read. Raises UsageError for another line."""

    def __init__(self, file: Path, make: Make) -> None:
        """`make`: as of `line_values`."""
        self._file = file
        self._make = make
        self.number = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        try:
            with sys.stdin if str(self._file) == "-" else self._file.open(encoding="utf-8-sig") as lines:
                for self.number, read in enumerate(lines, 1):
                    line = read.removeprefix("\ufeff") if self.number == 1 else read  # stdin keeps the mark
                    if line.strip():
                        yield self._event(line)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot be read: {error}") from None

    def _event(self, line: str) -> dict[str, Any]:
        try:
            event = json.loads(line, parse_float=line_number)
            if not isinstance(event, dict):
                raise ValueError("not a JSON object")
            made: dict[str, Any] = self._make(event)
            return made
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{error}") from None


def register(app: typer.Typer) -> None:
    app.command()(produce)
