"""`get`: prints the state of one key, as the rehydrator serves it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cutwater.cli.key_argument import KeyCommand
from cutwater.cli.options import DataDirOption, JobNameOption, JsonOption, WideOption, settings_for
from cutwater.cli.rehydrator_api import ask
from cutwater.cli.report import out, print_json, report_errors, table
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.events.key_columns import NULL, key_text
from cutwater.core.query.key_path import KEY_ROUTE, key_query
from cutwater.core.util.text_tables import Column, ranked
from cutwater.local import running_file

NO_WINDOWS = 1
_NAMES = ("key", "window_start", "window_end")
"""Columns of a row that are not measures."""


@report_errors
def get(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY...",
            help="The key, such as JFK or -5; after -- if it begins with two dashes. If the job's key is a list: "
            "a word for each of its columns.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="COLUMN=VALUE", help="A column of the key; the leading ones suffice."),
    ] = None,
    nulls: Annotated[
        list[str] | None,
        typer.Option(
            "--null", metavar="COLUMN", help="A column of the key that is null (source.null_key: group)."
        ),
    ] = None,
    start: Annotated[str | None, typer.Option("--from", help="First window start, ISO 8601 or ms.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Window starts before this, ISO 8601 or ms.")] = None,
    at_least: Annotated[str | None, typer.Option(help="Wait until the view has reached this token.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most this many windows.")] = 24,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> int:
    """Show the windows of one key, or of all keys with some leading columns, and the milestone they belong to.

    Exit 1: the key has no windows at that milestone, or none within --from and --to. 2: no stack runs, or an
    argument is wrong. 4: the view does not answer, or does not reach --at-least in time.

    Examples:  cutwater get JFK --limit 5  ·  cutwater get JFK --from 2013-01-02T00:00:00Z --json
    ·  cutwater get JFK UA  ·  cutwater get --key airport=JFK --null carrier
    """
    settings = settings_for(data_dir)
    stack = running_file.require(settings.data_dir, job_name)
    wanted = {"from": start, "to": end, "at_least": at_least, "limit": limit}
    query = {name: value for name, value in wanted.items() if value is not None}
    named = _query(words or [], columns or [], nulls or [], stack.key_columns)
    answer = _ask_pages(f"{stack.api_url}{KEY_ROUTE}", {**named, **query}, settings.api_headers, limit)
    if as_json:
        print_json(answer)
    else:
        parts = [*(columns or ()), *(f"{one} is null" for one in nulls or ())]
        key = str(answer.get("key") or ", ".join(parts))
        _show(key, answer, within=f" {_within(start, end)}" if start or end else "")
    return 0 if answer["rows"] else NO_WINDOWS


def _show(key: str, answer: dict[str, Any], within: str) -> None:
    """Print the windows. `within`: the requested time range as text, or empty."""
    rows, token = answer["rows"], answer["milestone"]["token"]
    if not rows:
        out.print(f"The key {key} has no windows{within} at milestone {token}.")
        return
    columns = ranked(["window_start"], *(name for name in rows[0] if name not in _NAMES))
    columns += [Column("window_end", len(columns)), Column("key", len(columns) + 1)]
    names = [one if isinstance(one, str) else one.name for one in columns]
    out.table(table(f"{key} at {token}", columns, ([row[name] for name in names] for row in rows)))


def _query(words: list[str], pairs: list[str], nulls: list[str], columns: list[str] | None) -> dict[str, Any]:
    """Return the key as parameters. Raises UsageError if the words are not what the job's key needs."""
    if columns is None:
        if pairs or nulls or len(words) != 1:
            raise UsageError("the job's key is one column: write one key, as in: cutwater get JFK")
        return _named(words[0])
    if pairs or nulls:
        if words:
            raise UsageError("write the key as words, or with --key and --null, not both")
        return _columns(pairs, nulls, columns)
    if len(words) == 1 != len(columns) and words[0].startswith("["):
        return _named(words[0])  # the whole key, as rows have it
    if len(words) != len(columns):
        names = ", ".join(columns) or "none"
        raise UsageError(
            f"the key's columns are {names}: write {len(columns)} words, or leading ones with --key COLUMN=VALUE"
        )
    return _named(key_text(words))


def _columns(pairs: list[str], nulls: list[str], columns: list[str]) -> dict[str, Any]:
    if not columns:
        raise UsageError("the job's key has no columns: leave --key and --null out")
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name not in columns or name in found:
            raise UsageError(
                f"--key {pair}: write each of {', '.join(columns)} at most once, as in {columns[0]}=JFK"
            )
        found[name] = value
    for name in nulls:
        if name not in columns or name in found or NULL in columns:
            raise UsageError(f"--null {name}: write each column that may be null at most once, and not in --key")
    return {**found, NULL: nulls} if nulls else found


def _ask_pages(url: str, query: dict[str, Any], headers: dict[str, str], limit: int) -> dict[str, Any]:
    """Return the answer, with further pages of it while rows are missing. All pages are of one milestone."""
    answer = ask(url, query, headers)
    while answer.get("next") and (missing := limit - len(answer["rows"])) > 0:
        more = ask(url, {**query, "after": answer["next"], "limit": missing}, headers)
        if more["milestone"]["token"] != answer["milestone"]["token"]:
            raise UnavailableError("the state went on between two pages of the answer: try again")
        answer = {**more, "rows": answer["rows"] + more["rows"]}
    return answer


def _within(start: str | None, end: str | None) -> str:
    return " ".join(f"{word} {moment}" for word, moment in (("from", start), ("before", end)) if moment)


def _named(key: str) -> dict[str, str]:
    """Return the key as a query. In a path, proxies could resolve `..` or change slashes."""
    try:
        return key_query(key)
    except UnicodeEncodeError:
        raise UsageError(f"the key {key!r} is not UTF-8: no event has such a key") from None


def register(app: typer.Typer) -> None:
    app.command(cls=KeyCommand)(get)
