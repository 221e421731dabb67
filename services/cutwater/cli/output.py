"""How every verb speaks: tables for people, `--json` for programs, one line and an exit code for errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import wraps
from typing import Any, ParamSpec

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cutwater.core.errors import CutwaterError
from cutwater.core.records import Milestone

P = ParamSpec("P")

out = Console()
err = Console(stderr=True, highlight=False)


def handled(command: Callable[P, int | None]) -> Callable[P, None]:
    """Turn Cutwater's errors into one message and their exit code; anything else is a bug and shows itself."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
        except CutwaterError as error:
            err.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
            sys.exit(error.exit_code)
        if code:
            sys.exit(code)

    return run


def say(line: str) -> None:
    """A line for a person, beside the output proper; nothing in it is taken for markup."""
    err.print(line, markup=False, soft_wrap=True)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, default=str))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    made = Table(title=title, title_justify="left")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*("" if cell is None else str(cell) for cell in row))
    return made


def iso(ms: int) -> str:
    """Milliseconds as ISO 8601 in UTC, to the second; outside the years 1 to 9999 the number itself."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def milestone_json(one: Milestone) -> dict[str, Any]:
    """A milestone as plain values, hashes in hex."""
    plain = {field.name: getattr(one, field.name) for field in fields(one)}
    cuts = {
        name: {f"{at.topic}/{at.partition}": offset for at, offset in plain[name]}
        for name in ("source_cut", "changelog_cut")
    }
    named = {"token": str(one.token), "generation": str(one.generation), "parent_hash": one.parent_hash.hex()}
    return {"token": "", **plain, **cuts, **named}
