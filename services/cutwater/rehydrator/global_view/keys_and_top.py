"""Routes of the global view over many keys: several keys at once, and the top rows by a measure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fastapi import Response
from fastapi.exceptions import HTTPException

from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.job.measures import Partials
from cutwater.core.query.global_merge import LineageRows, each, merged, newest
from cutwater.core.query.top_n import Ranking
from cutwater.core.util.timestamps import iso
from cutwater.rehydrator.cluster.regions import Answer
from cutwater.rehydrator.global_view.query import GlobalQueries, Question, RegionAnswer, about, part_of, query_of
from cutwater.rehydrator.http_api import parsing
from cutwater.rehydrator.http_api.context import RouteContext, shown_row
from cutwater.rehydrator.http_api.keys_body import Keys, span_of
from cutwater.rehydrator.http_api.parameters import (
    STORED_LIMIT_MAX,
    TOP_DEFAULT,
    WAIT_MS_DEFAULT,
    AtLeastEach,
    Direction,
    From,
    MeasureName,
    Partial,
    To,
    TopLimit,
    WaitMs,
)
from cutwater.rehydrator.routes.keys_and_top import RANKING_S
from cutwater.rehydrator.routes.stored_form import unpacked
from cutwater.views.query.presenter import Presenter
from cutwater.views.store.key_layout import Window

_NEVER = 1 << 62


class KeyPart(NamedTuple):
    """One region's rows of one key."""

    rows: dict[Window, Partials]
    next_from_ms: int | None


class Undecoded(Mapping[Window, Partials]):
    """A region's rows, each decoded on access: all of a ranking's rows decoded would fill the memory."""

    def __init__(self, region: str, presenter: Presenter, values: dict[Window, bytes]) -> None:
        self._region = region
        self._presenter = presenter
        self._values = values

    def __getitem__(self, window: Window) -> Partials:
        try:
            return self._presenter.partials(self._values[window])
        except UsageError as error:
            raise UnavailableError(f"region {self._region}: its rows cannot be read: {error}") from None

    def __contains__(self, window: object) -> bool:
        return window in self._values

    def __iter__(self) -> Iterator[Window]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class GlobalKeysAndTopRoutes:
    """Rows of many keys, of all regions."""

    def __init__(self, context: RouteContext, consulting: GlobalQueries) -> None:
        self._view = context.view
        self._consulting = consulting

    async def keys(
        self,
        asked: Keys,
        at_least: AtLeastEach = None,
        wait_ms: WaitMs = WAIT_MS_DEFAULT,
        partial: Partial = False,
    ) -> Response:
        """The windows of several keys over the events of all regions, oldest first.

        Continue with `next_from` of a key, and with `next_keys`: the keys that did not fit into `rows`. Windows
        that end at or before `complete_above` are left out.
        """
        span_of(asked)
        asked = asked.with_keys(lambda key: parsing.stored_key(key, self._view.job))

        def take(region: str, answer: Answer, presenter: Presenter) -> LineageRows[Any]:
            told = {
                one["key"]: KeyPart(
                    {window: presenter.partials(value) for window, value in map(unpacked, one["rows"])},
                    None if one["next_from_ms"] is None else int(one["next_from_ms"]),
                )
                for one in answer["keys"]
            }
            return part_of(region, presenter, answer | {"rows": []}, lambda window: window, told)

        def make(told: list[RegionAnswer], missing: list[Answer]) -> Answer:
            presenter, found, left, room = Presenter(self._view.job), list[Answer](), list[str](), asked.rows
            for key in asked.keys:
                if not room or any(key not in _keys(one.part) for one in told):
                    left.append(key)
                    continue
                page = merged(
                    self._view.measures,
                    (_of_key(one.part, key) for one in told),
                    lambda window: window.end_ms,
                    min(asked.limit, room),
                )
                room -= len(page.rows)
                found.append(
                    {
                        "key": key,
                        "rows": [shown_row(presenter.merged_row(*row)) for row in page.rows],
                        "next_from": None if page.told is None else iso(page.told.start_ms + 1),
                    }
                )
            return {**about(told, missing), "keys": found, "next_keys": left}

        body = asked.model_dump_json(by_alias=True).encode()
        question = Question("/v1/stored-keys", query_of(wait_ms=wait_ms), at_least, wait_ms, partial, body)
        return await self._consulting.answer(question, take, make)

    async def top(
        self,
        measure: MeasureName,
        from_: From = None,
        to: To = None,
        limit: TopLimit = TOP_DEFAULT,
        order: Direction = "desc",
        at_least: AtLeastEach = None,
        wait_ms: WaitMs = WAIT_MS_DEFAULT,
        partial: Partial = False,
    ) -> Response:
        """The first rows by a measure over the events of all regions, of all windows that start in [from, to).

        Each row is a key in a window. Equal values are ordered by key and window, ascending in both orders; null
        comes last in both, and NaN is above every number. All rows are merged first, because a row may rank first
        only after the merge. If a region has more than 100,000 stored rows to examine, the status is 422. Windows
        that end at or before `complete_above` are left out.
        """
        name = parsing.measure(measure, self._view.measures)
        moments = {"from": parsing.time_ms("from", from_), "to": parsing.time_ms("to", to)}

        def take(region: str, answer: Answer, presenter: Presenter) -> LineageRows[Any]:
            rows = Undecoded(region, presenter, dict(map(unpacked, answer["rows"])))
            part = part_of(region, presenter, answer | {"rows": []}, lambda window: window, answer["next"])
            return LineageRows(part.lineage, part.at, part.horizon_ms, rows, part.told)

        def make(told: list[RegionAnswer], missing: list[Answer]) -> Answer:
            if many := [one.region for one in told if one.part.told is not None]:
                raise HTTPException(
                    422,
                    f"more than {STORED_LIMIT_MAX:,} rows match in {', '.join(many)}: request fewer windows with "
                    "from and to",
                )
            presenter = Presenter(self._view.job)
            present = next(one.present for one in self._view.measures if one.name == name)
            ranking: Ranking[tuple[Window, Partials]] = Ranking(limit, order == "desc")
            parts = newest(one.part for one in told)
            for window, partials in each(self._view.measures, parts, lambda window: window.end_ms):
                ranking.offer(present(partials), (window, partials))
            rows = [shown_row(presenter.merged_row(*row)) for row in ranking.first()]
            return {**about(told, missing), "rows": rows}

        query = query_of(limit=STORED_LIMIT_MAX, wait_ms=wait_ms, **moments)
        question = Question("/v1/stored", query, at_least, wait_ms, partial, more_s=RANKING_S)
        return await self._consulting.answer(question, take, make)


def _keys(part: LineageRows[Any]) -> dict[str, KeyPart]:
    return part.told or {}


def _of_key(part: LineageRows[Any], key: str) -> LineageRows[Any]:
    found = _keys(part)[key]
    told = None if found.next_from_ms is None else Window(key, found.next_from_ms - 1, _NEVER)
    return LineageRows(part.lineage, part.at, part.horizon_ms, found.rows, told)
