"""`get`: the state of one key, as the rehydrator serves it."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer
from typer.core import TyperCommand

from cutwater.cli.options import DataDirOption, JsonOption, WideOption, settings_for
from cutwater.cli.output import handled, out, print_json, table
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.text_tables import Column, ranked
from cutwater.local import running

TIMEOUT_S = 40.0
_NAMES = ("key", "window_start", "window_end")
"""Columns of a row that are no measures."""


@handled
def get(
    key: Annotated[str, typer.Argument(help="The group key, for example an airport.")],
    start: Annotated[str | None, typer.Option("--from", help="First window start, ISO 8601 or ms.")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Window starts before this, ISO 8601 or ms.")] = None,
    at_least: Annotated[str | None, typer.Option(help="Wait until the view has reached this token.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most this many windows.")] = 24,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Show the windows of one key, and the milestone they belong to.

    Examples:  cutwater get JFK --limit 5  ·  cutwater get JFK --from 2013-01-02T00:00:00Z --json
    """
    settings = settings_for(data_dir)
    stack = running.require(settings.data_dir)
    wanted = {"from": start, "to": end, "at_least": at_least, "limit": limit}
    query = {name: value for name, value in wanted.items() if value is not None}
    answer = _ask(f"{stack.api_url}/v1/state/{_path(key)}", query, settings.api_headers)
    if as_json:
        print_json(answer)
        return
    _show(key, answer, within=f" {_within(start, end)}" if start or end else "")


def _show(key: str, answer: dict[str, Any], within: str) -> None:
    """`within`: of which windows, where not all were asked for."""
    rows, token = answer["rows"], answer["milestone"]["token"]
    if not rows:
        out.print(f"The key {key} has no windows{within} at milestone {token}.")
        return
    columns = ranked(["window_start"], *(name for name in rows[0] if name not in _NAMES))
    columns += [Column("window_end", len(columns)), Column("key", len(columns) + 1)]
    names = [one if isinstance(one, str) else one.name for one in columns]
    out.table(table(f"{key} at {token}", columns, ([row[name] for name in names] for row in rows)))


def _within(start: str | None, end: str | None) -> str:
    return " ".join(f"{word} {moment}" for word, moment in (("from", start), ("before", end)) if moment)


class KeyCommand(TyperCommand):
    """A verb whose argument may begin with a dash: `cutwater get -5` asks for the key -5."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, keys_last(args, self._takes_value()))

    def _takes_value(self) -> dict[str, bool]:
        """Of each option's names, whether a value follows."""
        options: list[Any] = [one for one in self.params if one.param_type_name == "option"]
        return {name: not one.is_flag for one in options for name in (*one.opts, *one.secondary_opts)}


def keys_last(args: list[str], takes_value: dict[str, bool]) -> list[str]:
    """The same arguments, with what has one dash and is no option behind `--`, where nothing is an option."""
    options: list[str] = []
    keys: list[str] = []
    value_follows = False
    for at, one in enumerate(args):
        if one == "--":
            return [*options, "--", *keys, *args[at + 1 :]]
        is_key = one.startswith("-") and not one.startswith("--") and one not in takes_value
        (keys if is_key and not value_follows else options).append(one)
        value_follows = not value_follows and takes_value.get(one, False)
    return [*options, "--", *keys] if keys else options


def _path(key: str) -> str:
    """A key as a part of a path. Clients resolve dots as folders, so these are escaped, too."""
    return quote(key, safe="").replace(".", "%2E")


def _ask(url: str, query: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    import httpx  # a tenth of a second, which nobody waits for where no stack runs

    try:
        answer = httpx.get(url, params=query, headers=headers, timeout=TIMEOUT_S)
    except httpx.HTTPError as error:
        raise UnavailableError(f"the rehydrator at {url} does not answer ({error}); see its log") from None
    if answer.is_success:
        found: dict[str, Any] = answer.json()
        return found
    if answer.status_code == 401:
        raise UsageError(f"{url} asks for its token: set CUTWATER_API_TOKEN as it was for 'cutwater up'")
    kind = UsageError if answer.status_code in (400, 404, 410, 421, 422) else UnavailableError
    raise kind(f"{url} answered {answer.status_code}: {answer.text[:500]}")


def register(app: typer.Typer) -> None:
    app.command(cls=KeyCommand)(get)
