"""Output of the verbs: tables for people, JSON for programs, one message and an exit code for errors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import wraps
from typing import Any, ParamSpec

from cutwater.adapters.runtime.terminal import Terminal
from cutwater.cli.json_values import json_text
from cutwater.core.errors import CutwaterError
from cutwater.core.protocol.records import Milestone
from cutwater.core.util.text_tables import Column, Styled, table

__all__ = [
    "err",
    "iso",
    "milestone_json",
    "out",
    "print_json",
    "print_json_line",
    "print_note",
    "print_records",
    "print_report",
    "report_errors",
    "table",
]
P = ParamSpec("P")

out = Terminal("stdout")
err = Terminal("stderr")


def report_errors(command: Callable[P, int | None]) -> Callable[P, None]:
    """Turn Cutwater's errors into one message and their exit code. Other exceptions are bugs and propagate."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
        except CutwaterError as error:
            err.print(Styled("error:", "red"), f" {error}", whole=True)
            sys.exit(error.exit_code)
        if code:
            sys.exit(code)

    return run


def print_note(line: str) -> None:
    err.print(line, whole=True)


def print_json(value: Any) -> None:
    print(json_text(value, indent=2), flush=True)


def print_report(
    title: str, columns: Sequence[str | Column], rows: Iterable[Sequence[Any]], document: Any, as_json: bool
) -> None:
    """Print the document as JSON, or the rows as a table."""
    if as_json:
        print_json(document)
    else:
        out.table(table(title, columns, rows))


def print_records(title: str, columns: Sequence[Column], records: Sequence[dict[str, Any]], as_json: bool) -> None:
    """Print records as JSON, or as a table of the fields that the columns name."""
    rows = [[one[column.name] for column in columns] for one in records]
    print_report(title, columns, rows, records, as_json)


def print_json_line(value: Any, ascii_only: bool = True) -> None:
    """Print a value as one line of JSON, at once. Raises TypeError as `json_text`."""
    print(json_text(value, ascii_only=ascii_only), flush=True)


def iso(ms: int) -> str:
    """Return milliseconds as ISO 8601 in UTC, to the second; outside the years 1 to 9999 as `N ms`."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def milestone_json(one: Milestone) -> dict[str, Any]:
    return {"token": one.token, **{field.name: getattr(one, field.name) for field in fields(one)}}
