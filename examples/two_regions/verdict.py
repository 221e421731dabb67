"""Compares a region's view and output with DuckDB, over exactly the events of the region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
from examples.two_regions.oracle import Late, RegionEvents
from examples.two_regions.output_readers import Emitted
from examples.two_regions.report import DemoReport

from cutwater.adapters.http.client_options import direct_options
from cutwater.adapters.topics import commit_stream
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Token
from cutwater.demo import compare, oracle, output_topic
from cutwater.demo.verdict import served_rows
from cutwater.local.region import Region

Rows = list[dict[str, Any]]


def shows(region: Region, token: Token) -> bool:
    """Return whether its view shows that milestone, or a later one of the same generation."""
    try:
        url = f"{region.api_url}/v1/milestone"
        answer = httpx.get(url, headers=region.api_headers, timeout=10.0, **direct_options(url))
        found = Token.parse(str(answer.json().get("token", ""))) if answer.is_success else None
    except (httpx.HTTPError, ValueError, UsageError):
        return False  # it may be starting
    return _reaches(found, token)


def publishes(region: Region, job: Job, token: Token) -> bool:
    """Return whether its output holds that milestone, or a later one of the same generation."""
    return _reaches(commit_stream.published(region.cluster, job.name), token)


def _reaches(found: Token | None, token: Token) -> bool:
    return found is not None and found.generation == token.generation and found.sequence >= token.sequence


def compared(
    telling: DemoReport, region: Region, job: Job, held: RegionEvents, late: Sequence[Late], output: Emitted
) -> None:
    """Compare every served and every published row with the expected rows. Check that every pair is counted or
    listed as late."""
    events, window = held.frame(), job.window
    left_out = held.late_frame(late)
    wanted = oracle.rows(oracle.expected(events, window.size_ms, window.slide_ms, left_out))
    served = list(served_rows(region.api_url, region.api_headers))
    over = f"equals DuckDB over the {len(events):,} events that it holds"
    _equal(telling, f"the view of {region.name} {over}", wanted, served)
    _equal(telling, f"the output of {region.name} {over}", wanted, output_topic.read_rows(output.rows))
    telling.fact(f"{region.name}_corrections", output.corrections)
    telling.check(
        f"the output of {region.name} has no gap, and no unmarked repetition",
        not output.faults,
        "; ".join(output.faults) or f"{output.corrections:,} rows are corrections",
    )
    pairs = oracle.pairs(events, window.size_ms, window.slide_ms)
    counted = sum(row["movements"] for row in served)
    telling.check(
        f"every (event, window) pair of {region.name} is counted or listed as late",
        counted + len(left_out) == pairs,
        f"{counted:,} counted and {len(left_out):,} late, of {pairs:,}",
    )


def _equal(telling: DemoReport, what: str, wanted: Rows, rows: Rows) -> None:
    found = compare.compare(wanted, rows)
    if found:
        telling.show(compare.table(found))
    faults = f"{found.missing} missing, {found.unexpected} unexpected, {found.different} different"
    telling.check(what, not found, f"{len(rows):,} rows: {faults}")
