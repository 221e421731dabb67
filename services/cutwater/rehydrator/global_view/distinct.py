"""The route of set operations over the events of all regions.

Each region sends the stored rows of the sets. They are merged window by window, as all rows of the global view, so
that a window below the highest horizon is left out of every set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import Response

from cutwater.adapters.sketches import ThetaSketches
from cutwater.core.job.measures import Partials
from cutwater.core.query.global_merge import LineageRows, merged
from cutwater.rehydrator.cluster.regions import Answer
from cutwater.rehydrator.global_view.query import (
    GlobalQueries,
    Question,
    RegionAnswer,
    about,
    part_of,
    query_of,
)
from cutwater.rehydrator.http_api import parsing
from cutwater.rehydrator.http_api.context import RouteContext
from cutwater.rehydrator.http_api.parameters import WAIT_MS_DEFAULT, AtLeastEach, Partial, WaitMs
from cutwater.rehydrator.http_api.sets_body import SetPlace, Sets
from cutwater.rehydrator.routes.distinct import count_values, require_few, set_place
from cutwater.rehydrator.routes.stored_form import unpacked
from cutwater.views.query.presenter import Presenter
from cutwater.views.store.key_layout import Window

GLOBAL_PATH = "/v1/global/distinct"


class GlobalDistinctRoutes:
    """Sets of values, of all regions."""

    def __init__(self, context: RouteContext, consulting: GlobalQueries) -> None:
        self._view = context.view
        self._consulting = consulting
        self._sketches = ThetaSketches()

    async def distinct(
        self,
        asked: Sets,
        at_least: AtLeastEach = None,
        wait_ms: WaitMs = WAIT_MS_DEFAULT,
        partial: Partial = False,
    ) -> Response:
        """The number of different values that are in any set of `of`, in every one of `and`, in none of `not`.

        A set has the values of the events of all regions, in all windows of its key that start in [from, to). A
        value that two regions have counts once. The bounds are those of `/v1/distinct`. Windows that end at or
        before `complete_above` are left out. If the sets have more than 1,000 rows, the status is 422.
        """
        parsing.theta_measure(asked.measure, self._view.measures)
        asked = asked.with_keys(lambda key: parsing.stored_key(key, self._view.job))
        asked.spans()  # refuses an invalid time before any region is asked

        def take(region: str, answer: Answer, presenter: Presenter) -> LineageRows[Any]:
            rows = {set_place(one): one["rows"] for one in answer["sets"]}
            # Of each set, also of one without rows: an answer that lacks one is invalid.
            told = {
                one.place: {window: presenter.partials(value) for window, value in map(unpacked, rows[one.place])}
                for one in asked.every
            }
            return part_of(region, presenter, answer | {"rows": []}, lambda window: window, told)

        def make(told: list[RegionAnswer], missing: list[Answer]) -> Answer:
            rows = {one.place: self._rows(told, one.place) for one in asked.every}
            require_few(sum(map(len, rows.values())))
            sketches = {
                place: self._sketches.united(one[asked.measure] for one in some if one[asked.measure])
                for place, some in rows.items()
            }
            found = {one.place: {**one.shown, "rows": len(rows[one.place])} for one in asked.every}
            return {**about(told, missing), **count_values(self._sketches, asked, sketches, found)}

        body = asked.model_dump_json(by_alias=True).encode()
        question = Question("/v1/stored-sets", query_of(wait_ms=wait_ms), at_least, wait_ms, partial, body)
        return await self._consulting.answer(question, take, make)

    def _rows(self, told: list[RegionAnswer], place: SetPlace) -> list[Partials]:
        """Return the merged rows of a set."""
        parts = [replace(one.part, rows=_sets(one.part)[place], told=None) for one in told]
        return [partials for _, partials in merged(self._view.measures, parts, _end_ms).rows]


def _sets(part: LineageRows[Any]) -> Mapping[SetPlace, Mapping[Window, Partials]]:
    return part.told or {}


def _end_ms(window: Window) -> int:
    return window.end_ms
