"""A query to all regions: each answer is checked before it is merged, and each event is counted once.

An answer is complete, or it names the missing regions if the client allows that; otherwise it is an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from fastapi import FastAPI, Response
from fastapi.exceptions import HTTPException

from cutwater.core.errors import CutwaterError, UnavailableError
from cutwater.core.protocol.generation import Token
from cutwater.core.query.event_overlap import Source, counted_twice
from cutwater.core.query.global_merge import LineageRows, horizon_of
from cutwater.core.util.timestamps import iso
from cutwater.rehydrator.cluster.admission import MemoryReservation
from cutwater.rehydrator.cluster.regions import Answer, Query, Regions
from cutwater.rehydrator.http_api import parsing
from cutwater.rehydrator.http_api.context import RouteContext, patience, render
from cutwater.rehydrator.routes.stored_form import sources_in, unpacked
from cutwater.views.query.presenter import Presenter
from cutwater.views.store.key_layout import Window

_UNSET = "this rehydrator has no global view: CUTWATER_REGIONS names the regions that it merges"
_ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Raised by parsing an invalid answer."""


class Question(NamedTuple):
    path: str
    query: Query
    at_least: list[str] | None
    wait_ms: int
    partial: bool
    """Whether regions may be missing."""
    body: bytes | None = None
    """If set, the request is posted."""
    more_s: float = 0.0
    """Additional time for a region's answer."""


class RegionAnswer(NamedTuple):
    """One region's answer, and its rows as a part of the merge."""

    region: str
    answer: Answer
    sources: frozenset[Source]
    watermark_ms: int
    part: LineageRows[Any]

    @property
    def events_of(self) -> list[str]:
        return sorted({source.region for source in self.sources}) or [self.region]


Taken = Callable[[str, Answer, Presenter], LineageRows[Any]]
"""Makes a part of a region's answer; raises one of `_ODD` for an invalid one."""
Made = Callable[[list[RegionAnswer], list[Answer]], Answer]
"""Makes the answer from the regions' answers and the list of missing regions."""


class GlobalQueries:
    """Queries all regions, this rehydrator's own through `app`."""

    def __init__(self, context: RouteContext, regions: Regions | None, app: FastAPI) -> None:
        self._view = context.view
        self._generation = context.generation
        self._metrics = context.metrics
        self._regions = regions
        self._app = app

    async def answer(self, asked: Question, take: Taken, make: Made) -> Response:
        """Return the answer or a refusal. Raises UnavailableError if a region is missing without `partial`."""
        regions = self._regions
        if regions is None:
            raise HTTPException(409, _UNSET)
        tokens = self._tokens(regions, asked.at_least or [])
        wait_s = patience(next(iter(tokens.values()), None), asked.wait_ms) + asked.more_s
        async with regions.admission.admitted(wait_s) as room:
            answers = await self._query_regions(regions, asked, tokens, wait_s, room)
            if refusal := next((one for one in answers.values() if isinstance(one, Response)), None):
                return refusal
            return await regions.admission.work(room, self._merged, answers, asked.partial, take, make)

    async def _query_regions(
        self, regions: Regions, asked: Question, tokens: dict[str, str], wait_s: float, room: MemoryReservation
    ) -> dict[str, Answer | Response | str]:
        """Query all regions at once; if one does not fit, cancel the others."""
        waiting: dict[str, Query] = {name: [("at_least", token)] for name, token in tokens.items()}
        tasks = [
            asyncio.ensure_future(
                regions.ask(
                    self._app, name, asked.path, [*asked.query, *waiting.get(name, [])], wait_s, room, asked.body
                )
            )
            for name in regions.names
        ]
        try:
            return dict(zip(regions.names, await asyncio.gather(*tasks), strict=True))
        finally:
            for task in tasks:
                task.cancel()
            # Only the first error is raised; the others are consumed here.
            await asyncio.gather(*tasks, return_exceptions=True)

    def _merged(
        self, answers: dict[str, Answer | Response | str], partial: bool, take: Taken, make: Made
    ) -> Response:
        told: dict[str, RegionAnswer] = {}
        missing: dict[str, str] = {}
        for name, answer in answers.items():
            found = str(answer) if not isinstance(answer, dict) else self._judged(name, answer, take)
            if isinstance(found, str):
                missing[name] = found
            else:
                told[name] = found
        twice = counted_twice({name: one.sources for name, one in told.items()})
        whole = [one for name, one in told.items() if name not in twice]
        missing |= twice
        if not whole or (missing and not partial):
            self._metrics.refused("regions")
            why = "; ".join(f"{name} ({missing[name]})" for name in sorted(missing))
            raise UnavailableError(f"no complete answer: not every region can be counted: {why}")
        left_out: list[Answer] = [{"region": name, "reason": missing[name]} for name in sorted(missing)]
        return render(lambda: make(whole, left_out))

    def _tokens(self, regions: Regions, at_least: list[str]) -> dict[str, str]:
        """Return each region's token. Raises 400 for an unknown region, or for two tokens of one."""
        found: dict[str, str] = {}
        for text in at_least:
            token = parsing.token(text, self._generation)
            region = token.generation.region if token else ""
            if region not in regions.names or region in found:
                names = ", ".join(regions.names)
                raise HTTPException(400, f"at_least={text[:80]!r}: pass one token per region, of {names}")
            found[region] = text
        return found

    def _judged(self, region: str, answer: Answer, take: Taken) -> RegionAnswer | str:
        """Return the region's part, or why it cannot be merged."""
        try:
            if (why := self._unfit(region, answer)) is not None:
                return why
            part, watermark_ms = take(region, answer, Presenter(self._view.job)), int(answer["watermark_ms"])
            return RegionAnswer(region, answer, sources_in(answer), watermark_ms, part)
        except CutwaterError as error:
            return f"its rows cannot be read: {error}"
        except _ODD as error:
            return f"its answer is not of this version ({type(error).__name__})"

    def _unfit(self, region: str, answer: Answer) -> str | None:
        """Return why an answer's rows or sources do not fit ours: merged, they would be wrong silently."""
        job = self._view.job
        if answer["job"] != job.name:
            return f"it serves job {answer['job']}, not {job.name}"
        if answer["fingerprint"] != job.fingerprint:
            return f"its rows differ ({answer['fingerprint']}): other measures, keys or windows"
        for one in answer["milestones"]:
            if (token := Token.parse(one["token"])).generation.region != region:
                return f"it shows {token}, which is of another region"
        if answer["lineage"] is None and not answer["sources"]:
            return (
                "its generation continues one that its commit stream does not name, and its milestone names no "
                "source: the source of its events is unknown"
            )
        return None


def about(told: list[RegionAnswer], missing: list[Answer]) -> Answer:
    """Return the fields of every answer besides its rows."""
    return {
        "milestones": [
            {**milestone, "region": one.region, "events_of": one.events_of}
            for one in told
            for milestone in one.answer["milestones"]
        ],
        "partial": bool(missing),
        "missing": missing,
        "complete_above": iso(horizon_of(one.part for one in told)),
        "watermark": iso(min(one.watermark_ms for one in told)),
    }


def query_of(**given: Any) -> Query:
    """Return the parameters that are set."""
    return [(name, str(value)) for name, value in given.items() if value is not None]


def part_of(
    region: str, presenter: Presenter, answer: Answer, place: Callable[[Window], Any], told: Any
) -> LineageRows[Any]:
    """Return a region's rows as a part of the merge. Raises one of `_ODD` for an invalid answer."""
    tokens = [Token.parse(one["token"]) for one in answer["milestones"]]
    rows = (unpacked(row) for row in answer["rows"])
    return LineageRows(
        # Each region is queried once and no two states share events, so each is a line of its own. Its name makes
        # the merge order the same everywhere.
        lineage=region,
        at=min((one.generation.number, one.sequence) for one in tokens),
        horizon_ms=int(answer["complete_above_ms"]),
        rows={place(window): presenter.partials(value) for window, value in rows},
        told=told,
    )
