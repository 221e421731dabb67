"""Routes of the global view: each region aggregates its own events, and reads merge the results.

Each region answers at its own milestone, and the answer names all of them. It is complete, or it names the missing
regions if the client allows that; otherwise it is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Request, Response

from cutwater.core.errors import UnavailableError
from cutwater.core.query.global_merge import LineageRows, Merged, merged
from cutwater.core.query.key_path import path_of
from cutwater.core.util.timestamps import iso
from cutwater.rehydrator.cluster.regions import Answer
from cutwater.rehydrator.global_view.query import GlobalQueries, Question, RegionAnswer, about, part_of, query_of
from cutwater.rehydrator.http_api import parsing
from cutwater.rehydrator.http_api.context import RouteContext, shown_row
from cutwater.rehydrator.http_api.parameters import (
    LIMIT_DEFAULT,
    WAIT_MS_DEFAULT,
    After,
    AskedKey,
    AtLeastEach,
    From,
    KeyPath,
    Limit,
    Partial,
    Shards,
    To,
    WaitMs,
)
from cutwater.rehydrator.routes.stored_form import cursor_at, place_in
from cutwater.views.query.presenter import Presenter
from cutwater.views.store.key_layout import Window, end_of, parse, storage_key

_NEVER = 1 << 62


class Global:
    """Rows of all regions."""

    def __init__(self, context: RouteContext, consulting: GlobalQueries) -> None:
        self._view = context.view
        self._consulting = consulting

    async def key(
        self,
        key: KeyPath,
        from_: From = None,
        to: To = None,
        limit: Limit = LIMIT_DEFAULT,
        at_least: AtLeastEach = None,
        wait_ms: WaitMs = WAIT_MS_DEFAULT,
        partial: Partial = False,
    ) -> Response:
        """The windows of one key over the events of all regions, oldest first; `next_from` if there are more.

        Windows that end at or before `complete_above` are left out: some region no longer has its rows for them.
        """
        key = parsing.stored_key(key, self._view.job)
        moments = {"from": parsing.time_ms("from", from_), "to": parsing.time_ms("to", to)}
        query = query_of(limit=limit, wait_ms=wait_ms, **moments)

        def take(region: str, answer: Answer, presenter: Presenter) -> LineageRows[Any]:
            following = answer["next_from_ms"]
            told = None if following is None else Window(key, int(following) - 1, _NEVER)
            return part_of(region, presenter, answer, lambda window: window, told)

        def make(told: list[RegionAnswer], missing: list[Answer]) -> Answer:
            page = merged(self._view.measures, (one.part for one in told), lambda window: window.end_ms, limit)
            following = None if page.told is None else iso(page.told.start_ms + 1)
            return {"key": key, **self._answer(told, missing, page, lambda window: window), "next_from": following}

        path = path_of(key).replace("/v1/state/", "/v1/stored/", 1)
        return await self._consulting.answer(Question(path, query, at_least, wait_ms, partial), take, make)

    async def scan(
        self,
        request: Request,
        key: AskedKey,
        from_: From = None,
        to: To = None,
        shards: Shards = None,
        after: After = None,
        limit: Limit = LIMIT_DEFAULT,
        at_least: AtLeastEach = None,
        wait_ms: WaitMs = WAIT_MS_DEFAULT,
        partial: Partial = False,
    ) -> Response:
        """All rows over the events of all regions, or those of some windows and shards, page by page.

        Pass `next` as `after`. A page may be short or empty; the last one has no `next`. Pages may be of different
        milestones: compare them. Windows that end at or before `complete_above` are left out.

        With `key` or `key64`: the windows of that key, as by its path; without `shards` and `after`. If the job's
        key is a list, so are its columns as parameters; leading columns alone choose the rows that have them.
        """
        key, prefix = parsing.key_or_prefix(key, request.query_params, self._view.job)
        if key is not None:
            parsing.require_alone(shards, after)
            return await self.key(key, from_, to, limit, at_least, wait_ms, partial)
        parsing.shards(shards, self._view.shards)
        parsing.place(after)
        moments = {"from": parsing.time_ms("from", from_), "to": parsing.time_ms("to", to)}
        query = query_of(
            limit=limit, wait_ms=wait_ms, **moments, shards=shards, after=after, prefix=prefix or None
        )

        def take(region: str, answer: Answer, presenter: Presenter) -> LineageRows[Any]:
            layout = int(answer["layout_ms"])
            told = None if answer["next"] is None else place_in(answer["next"])
            return part_of(region, presenter, answer, lambda window: storage_key(window, layout), told)

        def make(told: list[RegionAnswer], missing: list[Answer]) -> Answer:
            layout = _layout(told)
            page = merged(self._view.measures, (one.part for one in told), end_of, limit)
            following = None if page.told is None else cursor_at(page.told, layout)
            if prefix:  # a region of an earlier version answers with all keys
                page = page._replace(rows=[one for one in page.rows if parse(one[0]).key.startswith(prefix)])
            return {**self._answer(told, missing, page, parse), "next": following}

        asked = Question("/v1/stored", query, at_least, wait_ms, partial)
        return await self._consulting.answer(asked, take, make)

    def _answer(
        self, told: list[RegionAnswer], missing: list[Answer], page: Merged[Any], window: Callable[[Any], Window]
    ) -> Answer:
        presenter = Presenter(self._view.job)
        rows = [shown_row(presenter.merged_row(window(place), partials)) for place, partials in page.rows]
        return {**about(told, missing), "rows": rows}


def _layout(told: list[RegionAnswer]) -> int:
    layouts = {int(one.answer["layout_ms"]) for one in told}
    if len(layouts) > 1:
        raise UnavailableError(
            f"the views of {', '.join(one.region for one in told)} store their rows in different orders: "
            "rebuild those that were built with another retention, lateness or window"
        )
    return layouts.pop()
