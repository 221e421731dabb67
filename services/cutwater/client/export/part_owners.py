"""Selects the rehydrator to query for a part of the state: its owner, or a standby if that is down or behind."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import httpx

from cutwater.adapters.http.client_options import direct_options
from cutwater.client.export.stream import API_TIMEOUT_S, answering, require_success
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.generation import Token

WAIT_MS = 30_000
"""The time that a rehydrator may take to reach the milestone of another one."""
PATIENCE_S = 5.0
"""The wait for one rehydrator if another one holds the same part."""
_STEP_MS = 500
_NOT_REACHED = 412

Holders = tuple[str, ...]
"""The URLs of one part's holders: its owner, then the standbys."""


def in_order(holders: Holders, headers: Mapping[str, str]) -> Holders:
    """Return the holders sorted by milestone, newest first; with the same milestone the owner is first. Holders
    that do not answer are left out, unless none answers. Raise UsageError if one requires a token."""
    if len(holders) == 1:
        return holders
    found: list[tuple[int, str]] = []
    for url in holders:
        asked = f"{url}/v1/milestone"
        try:
            found.append((-int(_answer(asked, headers, PATIENCE_S).json()["sequence"]), url))
        except (UnavailableError, ValueError, KeyError, TypeError):
            continue
    return tuple(url for _, url in sorted(found, key=lambda one: one[0])) or holders


def find_late(parts: Iterable[Holders], headers: Mapping[str, str], token: Token) -> str | None:
    """Return the holders of a part that does not reach this milestone within the wait; None if all parts do. Raise
    UnavailableError if no holder of a part answers; UsageError for a token that was lost."""
    deadline = time.monotonic() + WAIT_MS / 1000
    late = (holders for holders in parts if not _wait_for_milestone(holders, headers, token, deadline))
    return next(map(" or ".join, late), None)


def _wait_for_milestone(holders: Holders, headers: Mapping[str, str], token: Token, deadline: float) -> bool:
    step_ms, patience_s = (WAIT_MS, API_TIMEOUT_S) if len(holders) == 1 else (_STEP_MS, PATIENCE_S)
    while True:
        left_ms = max(0, round((deadline - time.monotonic()) * 1000))
        problems: list[UnavailableError] = []
        for url in holders:
            asked = f"{url}/v1/milestone?at_least={token}&wait_ms={min(step_ms, left_ms)}"
            try:
                if _answer(asked, headers, patience_s, _NOT_REACHED).status_code != _NOT_REACHED:
                    return True
            except UnavailableError as problem:
                problems.append(problem)
        if len(problems) == len(holders):
            raise problems[0]
        if not left_ms:
            return False


def _answer(url: str, headers: Mapping[str, str], timeout_s: float, but: int | None = None) -> httpx.Response:
    """Return the answer if it is a success or has status `but`. Raise UnavailableError or UsageError."""
    with answering(url):
        answer = httpx.get(url, headers=dict(headers), timeout=timeout_s, **direct_options(url))
        if answer.status_code != but:
            require_success(answer)
        return answer
