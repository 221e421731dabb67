"""A region's view against DuckDB, over exactly the events that the region holds."""

from __future__ import annotations

from collections.abc import Sequence

import httpx

from cutwater.core.errors import UsageError
from cutwater.core.generations import Token
from cutwater.core.job import Job
from cutwater.demo import compare, oracle
from cutwater.demo.regions.held import Held, Late
from cutwater.demo.regions.telling import Telling
from cutwater.demo.verdict import served_rows
from cutwater.local.regions import Region


def shows(region: Region, token: Token) -> bool:
    """Does its view show that milestone, or a later one of the same generation?"""
    try:
        answer = httpx.get(f"{region.api_url}/v1/milestone", headers=region.api_headers, timeout=10.0)
        found = Token.parse(str(answer.json().get("token", ""))) if answer.is_success else None
    except (httpx.HTTPError, ValueError, UsageError):
        return False  # it may be starting
    return found is not None and found.generation == token.generation and found.sequence >= token.sequence


def compared(telling: Telling, region: Region, job: Job, held: Held, late: Sequence[Late]) -> None:
    """Every row that the region serves against every row expected; and every pair is counted or listed."""
    events, window = held.frame(), job.window
    left_out = held.late_frame(late)
    wanted = oracle.rows(oracle.expected(events, window.size_ms, window.slide_ms, left_out))
    served = list(served_rows(region.api_url, region.api_headers))
    found = compare.compare(wanted, served)
    if found:
        telling.show(compare.table(found))
    faults = f"{found.missing} missing, {found.unexpected} unexpected, {found.different} different"
    telling.check(
        f"the view of {region.name} equals DuckDB over the {len(events):,} events that it holds",
        not found,
        f"{len(served):,} rows: {faults}",
    )
    pairs = oracle.pairs(events, window.size_ms, window.slide_ms)
    counted = sum(row["movements"] for row in served)
    telling.check(
        f"every (event, window) pair of {region.name} is counted or listed as late",
        counted + len(left_out) == pairs,
        f"{counted:,} counted and {len(left_out):,} late, of {pairs:,}",
    )
