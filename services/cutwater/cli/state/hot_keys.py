"""`hot-keys`: the keys that are read most, beside those with the most events and the most bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cutwater.adapters.job_files.loader import load_job
from cutwater.cli.options import DataDirOption, JobNameOption, JsonOption, WideOption, settings_for
from cutwater.cli.rehydrator_api import ask
from cutwater.cli.report import out, print_json, print_note, report_errors, table
from cutwater.core.console.hot_keys import beside_reads, largest, ranked, ranking_measure
from cutwater.core.errors import CutwaterError
from cutwater.core.util.text_tables import Column, number_text
from cutwater.local import running_file

TOP_ROWS = 1_000
LIMIT_MAX = 100


@report_errors
def hot_keys(
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="Number of keys, and of windows.")] = 20,
    data_dir: DataDirOption = None,
    job_name: JobNameOption = None,
    as_json: JsonOption = False,
    wide: WideOption = False,
) -> None:
    """Show the keys that are read most, beside those with the most events and the most bytes.

    Reads are those of the last 15 to 30 minutes at the rehydrator of the running stack. Events are those of the
    windows that it keeps, by the job's measure of kind count; bytes are those of its last census. A key that is
    not among the first of a list has no number there.

    Exit 2: no stack runs. 4: the rehydrator does not answer.

    Examples:  cutwater hot-keys  ·  cutwater hot-keys --limit 5 --json
    """
    settings = settings_for(data_dir)
    stack = running_file.require(settings.data_dir, job_name)
    headers, url = settings.api_headers, stack.api_url
    reads = ask(f"{url}/v1/reads", {}, headers)
    measure = ranking_measure(load_job(Path(stack.job_file)))
    top = _or_none(f"{url}/v1/top", {"measure": measure, "limit": TOP_ROWS}, headers) if measure else None
    census = largest(_or_none(f"{url}/v1/sizes", {}, headers))
    keys = beside_reads(reads, ranked(top["rows"], measure) if top and measure else (), census, limit)
    document = {
        **{name: reads[name] for name in ("since", "reads", "keys_error", "windows_error")},
        "measure": measure,
        "keys": keys,
        "windows": reads["windows"][:limit],
    }
    if as_json:
        print_json(document)
    else:
        _show(document)


def _show(found: dict[str, Any]) -> None:
    columns = ("key", "reads", Column("events", 1), Column("bytes", 2))
    title = f"{number_text(found['reads'])} reads of keys since {found['since']}"
    out.table(
        table(
            title, columns, ([one[name] for name in ("key", "reads", "events", "bytes")] for one in found["keys"])
        )
    )
    windows = ([one["window_start"], one["reads"]] for one in found["windows"])
    out.table(table("windows that are read most", ("window_start", "reads"), windows))


def _or_none(url: str, query: dict[str, Any], headers: dict[str, str]) -> dict[str, Any] | None:
    """Return the answer; None if there is none now, which a note says: the reads are shown anyway."""
    try:
        return ask(url, query, headers)
    except CutwaterError as error:
        print_note(f"left out: {error}")
        return None


def register(app: typer.Typer) -> None:
    app.command(name="hot-keys")(hot_keys)
