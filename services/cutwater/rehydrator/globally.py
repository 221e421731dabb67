"""Routes of the global view: what regions aggregated each from their own events, merged as it is read.

Each region answers at one milestone of its own, and the answer names all of them. It is whole, or it says which
regions are missing where the asker allowed that; else there is none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from fastapi import FastAPI, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import HTTPException

from cutwater.core.errors import CutwaterError, UnavailableError
from cutwater.core.generations import Generation, Token
from cutwater.core.merging import Merged, Part, merged
from cutwater.core.moments import iso
from cutwater.rehydrator import questions
from cutwater.rehydrator.answering import Answering, patience, rendered, shown_row
from cutwater.rehydrator.parameters import (
    LIMIT_DEFAULT,
    WAIT_MS_DEFAULT,
    After,
    AtLeastEach,
    From,
    KeyPath,
    Limit,
    Partial,
    Shards,
    To,
    WaitMs,
)
from cutwater.rehydrator.peers import path_of
from cutwater.rehydrator.regions import Answer, Query, Regions
from cutwater.rehydrator.stored import cursor_at, fingerprint_of, place_in, unpacked
from cutwater.views.layout import Window, end_of, parse, storage_key
from cutwater.views.rows import Presenter

_NEVER = 1 << 62
_UNSET = "this rehydrator has no global view: CUTWATER_REGIONS names the regions that it merges"


Taken = Callable[[Answer, Presenter], Part[Any]]
"""Makes a part of a region's answer; raises KeyError, TypeError or ValueError where it is none."""


class Told(NamedTuple):
    """One region's answer, and its rows as a part of the whole."""

    region: str
    answer: Answer
    part: Part[Any]


class Global:
    """Rows of all regions. `app`: what answers for this rehydrator's own."""

    def __init__(self, answering: Answering, regions: Regions | None, app: FastAPI) -> None:
        self._view = answering.view
        self._generation = answering.generation
        self._regions = regions
        self._app = app

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
        """The windows of one key over the events of all regions, oldest first; `next_from` when there are more.

        Windows that end at or before `complete_above` are left out: some region has forgotten its rows of them.
        """
        query = _query(
            limit, wait_ms, **{"from": questions.time_ms("from", from_), "to": questions.time_ms("to", to)}
        )

        def part(answer: Answer, presenter: Presenter) -> Part[Any]:
            following = answer["next_from_ms"]
            told = None if following is None else Window(key, int(following) - 1, _NEVER)
            return _part(presenter, answer, lambda window: window, told)

        path = path_of(key).replace("/v1/state/", "/v1/stored/", 1)
        told, missing = await self._ask(path, query, at_least, wait_ms, partial, part)
        if isinstance(told, Response):
            return told

        def read() -> Answer:
            page = merged(self._view.measures, (one.part for one in told), lambda window: window.end_ms, limit)
            following = None if page.told is None else iso(page.told.start_ms + 1)
            return {"key": key, **self._answer(told, missing, page, lambda window: window), "next_from": following}

        return await run_in_threadpool(rendered, read)

    async def scan(
        self,
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
        """
        questions.shards(shards, self._view.shards)
        questions.place(after)
        moments = {"from": questions.time_ms("from", from_), "to": questions.time_ms("to", to)}
        query = _query(limit, wait_ms, **moments, shards=shards, after=after)

        def part(answer: Answer, presenter: Presenter) -> Part[Any]:
            layout = int(answer["layout_ms"])
            told = None if answer["next"] is None else place_in(answer["next"])
            return _part(presenter, answer, lambda window: storage_key(window, layout), told)

        told, missing = await self._ask("/v1/stored", query, at_least, wait_ms, partial, part)
        if isinstance(told, Response):
            return told
        layouts = {int(one.answer["layout_ms"]) for one in told}
        if len(layouts) > 1:
            raise UnavailableError(
                f"the views of {', '.join(one.region for one in told)} lay out their rows in different orders: "
                "rebuild those that were made with another retention, lateness or window"
            )

        def read() -> Answer:
            page = merged(self._view.measures, (one.part for one in told), end_of, limit)
            following = None if page.told is None else cursor_at(page.told, min(layouts))
            return {**self._answer(told, missing, page, parse), "next": following}

        return await run_in_threadpool(rendered, read)

    async def _ask(
        self,
        path: str,
        query: Query,
        at_least: list[str] | None,
        wait_ms: int,
        partial: bool,
        part: Taken,
    ) -> tuple[list[Told] | Response, list[Answer]]:
        """What each region tells, by their names, and those that tell nothing; or a refusal of the question."""
        regions = self._regions
        if regions is None:
            raise HTTPException(409, _UNSET)
        tokens = self._tokens(regions, at_least or [])
        wait_s = patience(next(iter(tokens.values()), None), wait_ms)
        waiting: dict[str, Query] = {name: [("at_least", token)] for name, token in tokens.items()}
        asked = (
            regions.ask(self._app, name, path, [*query, *waiting.get(name, [])], wait_s) for name in regions.names
        )
        answers = dict(zip(regions.names, await asyncio.gather(*asked), strict=True))
        told: list[Told] = []
        missing: list[Answer] = []
        for name, answer in answers.items():
            if isinstance(answer, Response):
                return answer, []
            found = (
                answer if isinstance(answer, str) else await run_in_threadpool(self._judged, name, answer, part)
            )
            if isinstance(found, str):
                missing.append({"region": name, "reason": found})
            else:
                told.append(found)
        if not told or (missing and not partial):
            why = "; ".join(f"{one['region']} ({one['reason']})" for one in missing)
            raise UnavailableError(f"not every region answers: {why}")
        return told, missing

    def _tokens(self, regions: Regions, at_least: list[str]) -> dict[str, str]:
        """Which token each region is to reach. 400 for one of no region that is asked, or two of one."""
        found: dict[str, str] = {}
        for text in at_least:
            token = questions.token(text, self._generation)
            region = token.generation.region if token else ""
            if region not in regions.names or region in found:
                names = ", ".join(regions.names)
                raise HTTPException(400, f"at_least={text[:80]!r}: one token each of the regions {names}")
            found[region] = text
        return found

    def _judged(self, region: str, answer: Answer, part: Taken) -> Told | str:
        """The region's part; or why it cannot be merged with the others."""
        try:
            return self._unfit(region, answer) or Told(region, answer, part(answer, Presenter(self._view.job)))
        except CutwaterError as error:
            return f"its rows cannot be read: {error}"
        except (KeyError, TypeError, ValueError) as error:
            return f"what it answers is none of this version ({type(error).__name__})"

    def _unfit(self, region: str, answer: Answer) -> str | None:
        """Of other rows than ours, or of another region's events: counted in, they would be wrong in silence."""
        job = self._view.job
        if answer["job"] != job.name:
            return f"it serves the job {answer['job']}, and this is {job.name}"
        if answer["fingerprint"] != fingerprint_of(job):
            return f"its rows are others ({answer['fingerprint']}): other measures, keys or windows"
        if answer["lineage"] is None:
            return "its generation goes on from one that its commit stream does not name: whose events are in it?"
        if Generation.parse(answer["lineage"]).region != region:
            return f"it shows {answer['lineage']}, which is of another region"
        return None

    def _answer(
        self, told: list[Told], missing: list[Answer], page: Merged[Any], window: Callable[[Any], Window]
    ) -> Answer:
        presenter = Presenter(self._view.job)
        return {
            "milestones": [{"region": one.region, **of} for one in told for of in one.answer["milestones"]],
            "partial": bool(missing),
            "missing": missing,
            "complete_above": iso(page.horizon_ms),
            "watermark": iso(min(one.answer["watermark_ms"] for one in told)),
            "rows": [shown_row(presenter.shown(window(place), partials)) for place, partials in page.rows],
        }


def _part(presenter: Presenter, answer: Answer, place: Callable[[Window], Any], told: Any) -> Part[Any]:
    tokens = [Token.parse(one["token"]) for one in answer["milestones"]]
    rows = (unpacked(row) for row in answer["rows"])
    return Part(
        lineage=answer["lineage"],
        at=min((one.generation.number, one.sequence) for one in tokens),
        horizon_ms=int(answer["complete_above_ms"]),
        rows={place(window): presenter.partials(value) for window, value in rows},
        told=told,
    )


def _query(limit: int, wait_ms: int, **more: Any) -> Query:
    given = {"limit": limit, "wait_ms": wait_ms, **more}
    return [(name, str(value)) for name, value in given.items() if value is not None]
