"""`distinct`: prints how many different values several rows have together, in common, or alone."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cutwater.cli.options import DataDirOption, JobNameOption, JsonOption, WideOption, settings_for
from cutwater.cli.rehydrator_api import ask
from cutwater.cli.report import out, print_json, print_note, report_errors, table
from cutwater.core.errors import UsageError
from cutwater.core.util.text_tables import Column
from cutwater.core.util.timestamps import moment_ms
from cutwater.local import running_file

NO_WINDOWS = 1
_SET = "KEY[@FROM/TO]"
_COLUMNS = (
    *(Column("in"), Column("key"), Column("from", 3), Column("to", 4)),
    *(Column("rows", 2), Column("estimate", 1)),
)


@report_errors
def distinct(
    measure: Annotated[str, typer.Argument(help="A distinct with 'sketch: theta' in the job file.")],
    of: Annotated[
        list[str], typer.Option("--of", metavar=_SET, help="Values that are in any of these sets count.")
    ],
    common: Annotated[
        list[str] | None,
        typer.Option("--and", metavar=_SET, help="Only values that are in every one of these count."),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--not", metavar=_SET, help="Values that are in any of these do not count.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="First window start of sets without a span, ISO 8601 or ms.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", help="Window starts before this, for sets without a span.")
    ] = None,
    at_least: Annotated[str | None, typer.Option(help="Wait until the view has reached this token.")] = None,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """Count the different values of several rows: of any set, in every set, in no set.

    A set is KEY@FROM/TO: the values of all windows of the key that start in [FROM, TO); each of the two times may
    be empty. For a KEY alone --from and --to count. A key of several columns is written as rows have it:
    '["JFK","UA"]'. Write @/ after a key that ends like a span. At most 32 sets and 1,000 windows.

    Exit 1: the keys of --of have no windows in their spans. 2: no stack runs, an argument is wrong, or the measure
    has no theta sketch. 4: the view does not answer, or does not reach --at-least in time.

    Examples:  cutwater distinct planes --of JFK --and LGA
    ·  cutwater distinct planes --of JFK --of LGA --not EWR --from 2013-01-02T00:00:00Z --json
    ·  cutwater distinct planes --of JFK@2013-02-01/2013-03-01 --not JFK@2013-01-01/2013-02-01
    """
    settings = settings_for(data_dir)
    stack = running_file.require(settings.data_dir, job_name)
    roles = {"of": of, "and": common or [], "not": without or []}
    sets = {role: [_set_of(text, start, end) for text in texts] for role, texts in roles.items()}
    query = {} if at_least is None else {"at_least": at_least}
    answer = ask(f"{stack.api_url}/v1/distinct", query, settings.api_headers, {"measure": measure, **sets})
    if as_json:
        print_json(answer)
    else:
        _show(answer)
    return 0 if any(one["rows"] for one in answer["sets"] if one["in"] == "of") else NO_WINDOWS


def _set_of(text: str, start: str | None, end: str | None) -> dict[str, str | None]:
    """Return the set of a word. Raises UsageError if only a part of its span is a time."""
    key, at, span = text.rpartition("@")
    first, slash, last = span.partition("/")
    if at and slash:
        times = [_is_time(one) for one in (first, last) if one]
        if all(times):
            return {"key": key, "from": first or None, "to": last or None}
        if any(times):
            raise UsageError(
                f"{text}: {span} is no span of two times, as in JFK@2013-01-01/2013-02-01; if it is a part of the "
                f"key, write {text}@/"
            )
    return {"key": text, "from": start, "to": end}


def _is_time(text: str) -> bool:
    try:
        moment_ms(text)
    except ValueError:
        return False
    return True


def _show(answer: dict[str, Any]) -> None:
    number = f"{answer['measure']}: {answer['estimate']:,} different values"
    if answer["exact"]:
        number += ", exactly"
    else:
        number += f", from {answer['least']:,} to {answer['most']:,} with a probability of 99.7 %"
    tokens = ", ".join(dict.fromkeys(one["token"] for one in answer["milestones"]))
    rows = ([one[column.name] for column in _COLUMNS] for one in answer["sets"])
    out.table(table(f"sets at {tokens}", _COLUMNS, rows))
    for hint in dict.fromkeys(one["hint"] for one in answer["sets"] if "hint" in one):
        print_note(hint)
    out.print(number)


def register(app: typer.Typer) -> None:
    app.command()(distinct)
