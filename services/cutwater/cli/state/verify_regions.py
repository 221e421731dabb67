"""`verify --region`: compares another region's changelog with its copy here, once or at an interval."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.job_files.models import parse_duration
from cutwater.cli.options import settings_for
from cutwater.cli.report import err, iso, milestone_json, out, print_json, print_json_line, print_note, table
from cutwater.cli.state.comparison import DIFFERENCE, difference_json, difference_row, sum_json
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.protocol.generation import Token
from cutwater.local.processes.supervisor import stop_on_signals
from cutwater.verify.read_rate import ReadRateLimit
from cutwater.verify.regions import ComparisonResult, Request, Side, compare, newest_common
from cutwater.views.changelog.range_reader import Stopped

EVERY_MS_MIN = 1_000
DIFFERENT, NOT_COMPARED = 1, 4
"""Exit codes, as in `verify`."""


def request(
    job_file: Path | None, region: str, bootstrap: str | None, at: str | None, limit: int, rows_max: int
) -> Request:
    """Return the request. Raises UsageError if the job file or the region's settings are missing."""
    if job_file is None:
        raise UsageError("--region needs the job file: cutwater verify JOB_FILE --region …")
    settings = settings_for(None, bootstrap)
    if settings.origin != region:
        raise UsageError(
            f"CUTWATER_ORIGIN_REGION is {settings.origin}, but --region is {region}: name the region whose "
            "brokers CUTWATER_ORIGIN_BOOTSTRAP_SERVERS names"
        )
    return Request(
        job=load_job(job_file),
        origin=Side(region, settings.origin_cluster),
        own=Side(settings.region, settings.cluster),
        at=Token.parse(at) if at else None,
        limit=limit,
        rows_max=rows_max,
    )


def run(asked: Request, bytes_per_s: int, every: str | None, as_json: bool) -> int:
    """Compare, and return the exit code. Raises as `verify.regions`."""
    if every is None:
        with err.task("comparing", "rows") as progress:
            pace = ReadRateLimit(bytes_per_s)
            result = compare(
                asked, newest_common(asked), pace, lambda where, rows: progress(rows, f"reading {where}")
            )
        _print_result(asked, result, as_json)
        return 0 if result.equal else DIFFERENT
    if asked.at is not None:
        raise UsageError("--at names one milestone, but --every compares each newer one: give only one of them")
    return _compare_repeatedly(asked, bytes_per_s, _every_ms(every), as_json)


def _every_ms(text: str) -> int:
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--every: {error}") from None
    if found < EVERY_MS_MIN:
        raise UsageError(f"--every {text}: the minimum is 1 s")
    return found


def _compare_repeatedly(asked: Request, bytes_per_s: int, every_ms: int, as_json: bool) -> int:
    """Compare each newer arrival until a signal. A round that cannot be compared is reported, and the next
    follows.

    A milestone is compared once, since nothing is written below a cut any more. Returns 1 if any round differed,
    else the exit code of the last round.
    """
    done: Token | None = None
    differed, code = False, 0
    with stop_on_signals() as stop:
        while not stop.is_set():
            pace = ReadRateLimit(bytes_per_s, sleep=stop.wait, stopping=stop.is_set)
            try:
                found = newest_common(asked)
                if found.arrival.token != done:
                    result = compare(asked, found, pace)
                    done = found.arrival.token
                    differed, code = differed or not result.equal, 0
                    _print_result(asked, result, as_json, one_line=True)
            except UnavailableError as error:
                code = NOT_COMPARED
                _print_not_compared(str(error), as_json)
            except Stopped:
                break
            stop.wait(every_ms / 1000)
    return DIFFERENT if differed else code


def _print_result(asked: Request, result: ComparisonResult, as_json: bool, one_line: bool = False) -> None:
    if as_json and one_line:
        print_json_line(comparison_json(asked, result))
    elif as_json:
        print_json(comparison_json(asked, result))
    elif one_line and result.equal:
        out.print(f"{result.milestone.token}: equal, {result.held[1].rows:,} rows")
    else:
        _show(asked, result)
    sys.stdout.flush()


def _print_not_compared(reason: str, as_json: bool) -> None:
    if as_json:
        print_json_line({"verdict": "not compared", "reason": reason})
    else:
        print_note(f"not compared: {reason}")


def comparison_json(asked: Request, result: ComparisonResult) -> dict[str, Any]:
    regions = (asked.origin.region, asked.own.region)
    return {
        "milestone": milestone_json(result.milestone),
        "verdict": "equal" if result.equal else "different",
        "origin": regions[0],
        "region": regions[1],
        "held": {name: sum_json(one) for name, one in zip(regions, result.held, strict=True)},
        "shards": [
            {
                "shard": shard.number,
                "held": {name: sum_json(one) for name, one in zip(regions, shard.held, strict=True)},
            }
            for shard in result.shards
        ],
        "differing_rows": result.differing_rows,
        "differences": [difference_json(one) for one in result.differences],
        "bytes": result.size,
    }


def _show(asked: Request, result: ComparisonResult) -> None:
    regions, milestone = (asked.origin.region, asked.own.region), result.milestone
    verdict = "equal" if result.equal else "different"
    rows = [(name, one.rows, f"{one.digest:016x}") for name, one in zip(regions, result.held, strict=True)]
    title = f"{milestone.token}, watermark {iso(milestone.watermark_ms)}: {verdict}"
    out.table(table(title, ("region", "rows", "digest"), rows))
    if result.equal:
        return
    shown = result.shards[: asked.limit]
    out.table(
        table(
            f"shards that differ: {len(shown):,} of {len(result.shards):,}",
            ("shard", *(f"{what} in {name}" for name in regions for what in ("rows", "digest"))),
            [
                (shard.number, *(cell for one in shard.held for cell in (one.rows, f"{one.digest:016x}")))
                for shard in shown
            ],
        )
    )
    title = f"rows that differ: {len(result.differences):,} of {result.differing_rows:,}"
    out.table(table(title, DIFFERENCE, map(difference_row, result.differences)))
