"""Routes whose answers span owners: several keys at once, and the top rows by a measure.

All owners answer in parallel, each at one milestone, and the answer names these. It is complete or an error: a
partial answer would be mistaken for the whole.
"""

from __future__ import annotations

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import HTTPException

from cutwater.core.errors import UnavailableError
from cutwater.core.util.timestamps import iso
from cutwater.rehydrator.http_api import parsing
from cutwater.rehydrator.http_api.context import RouteContext, shown_row
from cutwater.rehydrator.http_api.keys_body import Keys
from cutwater.rehydrator.http_api.parameters import (
    TOP_DEFAULT,
    WAIT_MS_DEFAULT,
    AtLeast,
    Direction,
    From,
    MeasureName,
    To,
    TopLimit,
    WaitMs,
)
from cutwater.rehydrator.routes.owners import Answer, Owners, Span, Wait
from cutwater.rehydrator.routes.stored_form import packed, unpacked
from cutwater.views.query.pages import Order, Part
from cutwater.views.query.view import TOP_ROWS_MAX

TOPS_MAX = 4
"""Rankings at a time: each uses a thread and some of the processor."""
RANKING_S = 20.0
"""The longest ranking on a busy machine: a peer that ranks counts as alive."""


class KeysAndTopRoutes:
    """Requests sent to all owners concerned, this one included, and joined."""

    def __init__(self, context: RouteContext, owners: Owners) -> None:
        self._context, self._owners = context, owners
        self._view = context.view
        self._peers = context.peers
        self._tops = 0

    async def keys(
        self, request: Request, asked: Keys, at_least: AtLeast = None, wait_ms: WaitMs = WAIT_MS_DEFAULT
    ) -> Response:
        """The windows of several keys that start in [from, to), oldest first, each owner's at one milestone.

        Continue with `next_from` of a key, and with `next_keys`: the keys that did not fit into `rows`. The answer
        is complete or an error: if no holder of a key answers, the status is 503, and the request may be repeated.
        """
        asked = asked.with_keys(lambda key: parsing.stored_key(key, self._view.job))

        def join(parts: list[Answer]) -> Answer:
            return {**_join_keys(asked.keys, parts), **self._context.holds(names=False)}

        return await self._owners.of_keys(request, asked, "/v1/keys", Wait(at_least, wait_ms), self._keys, join)

    def _keys(self, asked: Keys, span: Span) -> Answer:
        page = self._view.read_several(asked.keys, *span, asked.limit, asked.rows)
        hint = parsing.hint(self._view.evicted(page.milestone, span[0]))
        for one in page.pages:
            self._context.count_read(one.key, one.rows)
        keys = [
            {
                "key": one.key,
                "milestone": 0,
                "rows": [shown_row(row) for row in self._view.present(one.rows)],
                "next_from": None if one.next_from_ms is None else iso(one.next_from_ms),
                **hint,
            }
            for one in page.pages
        ]
        return {"milestones": [self._context.owners(page.milestone)], "keys": keys, "next_keys": page.left}

    async def top(
        self,
        request: Request,
        measure: MeasureName,
        from_: From = None,
        to: To = None,
        limit: TopLimit = TOP_DEFAULT,
        order: Direction = "desc",
        at_least: AtLeast = None,
        wait_ms: WaitMs = WAIT_MS_DEFAULT,
    ) -> Response:
        """The first rows by a measure, of all windows that start in [from, to): each row is a key in a window.

        Equal values are ordered by key and window, ascending in both orders; null comes last in both, and NaN is
        above every number. The answer is complete or an error: if an owner has more than 1,000,000 stored rows to
        examine, the status is 422; if one does not answer, 503.
        """
        part = Part(parsing.time_ms("from", from_), parsing.time_ms("to", to))
        wanted = Order(parsing.measure(measure, self._view.measures), order == "desc", limit)
        self._peers.require_agreed(request)

        def join(parts: list[Answer]) -> Answer:
            milestones = [part["milestone"] for part in parts]
            if self._peers.is_passed_on(request):
                # As stored: the peer that joins them compares values that JSON does not distinguish.
                return {"milestone": milestones[0], "stored": parts[0]["stored"]}
            stored = (unpacked(row) for part in parts for row in part["stored"])
            rows = [shown_row(row) for row in self._view.joined(stored, wanted)]
            return {"milestones": milestones, "rows": rows, **self._context.holds(names=False)}

        wait = Wait(at_least, wait_ms, RANKING_S)
        return await self._owners.of_every_part(request, "/v1/top", wait, lambda: self._top(wanted, part), join)

    async def _top(self, order: Order, part: Part) -> Answer:
        if self._tops >= TOPS_MAX:
            raise UnavailableError(f"{TOPS_MAX} rankings are already running: try again in a moment")
        self._tops += 1
        try:
            top = await run_in_threadpool(self._view.top, order, part)
        finally:
            self._tops -= 1
        if top.rows is None:
            raise HTTPException(
                422, f"more than {TOP_ROWS_MAX:,} rows match: request fewer windows with from and to"
            )
        return {"milestone": self._context.owners(top.milestone), "stored": packed(top.rows)}


def _join_keys(every: list[str], parts: list[Answer]) -> Answer:
    found = {one["key"]: {**one, "milestone": number} for number, part in enumerate(parts) for one in part["keys"]}
    return {
        "milestones": [part["milestones"][0] for part in parts],
        "keys": [found[key] for key in every if key in found],
        "next_keys": [key for key in every if key not in found],
    }
