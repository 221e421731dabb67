"""What all regions tell of one question: each answer judged before it is counted, and each event counted once.

An answer is whole, or it says which regions are missing where the asker allowed that; else there is none.
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
from cutwater.core.query.global_merge import Part, horizon_of
from cutwater.core.util.timestamps import iso
from cutwater.rehydrator.cluster.admission import Room
from cutwater.rehydrator.cluster.regions import Answer, Query, Regions
from cutwater.rehydrator.http_api import parsing
from cutwater.rehydrator.http_api.context import Answering, patience, rendered
from cutwater.rehydrator.routes.stored_rows import sources_in, unpacked
from cutwater.views.query.presenter import Presenter
from cutwater.views.store.key_layout import Window

_UNSET = "this rehydrator has no global view: CUTWATER_REGIONS names the regions that it merges"
_ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What comes of taking apart an answer that is none."""


class Question(NamedTuple):
    path: str
    query: Query
    at_least: list[str] | None
    wait_ms: int
    partial: bool
    """May regions be missing?"""
    body: bytes | None = None
    """With one it is posted."""
    more_s: float = 0.0
    """What a region may take longer than for other questions."""


class Told(NamedTuple):
    """One region's answer, and its rows as a part of the whole."""

    region: str
    answer: Answer
    sources: frozenset[Source]
    watermark_ms: int
    part: Part[Any]

    @property
    def events_of(self) -> list[str]:
        """The regions whose events the state counts."""
        return sorted({source.region for source in self.sources}) or [self.region]


Taken = Callable[[str, Answer, Presenter], Part[Any]]
"""Makes a part of a region's answer; raises one of `_ODD` where it is none."""
Made = Callable[[list[Told], list[Answer]], Answer]
"""Makes the answer of what the regions tell, by their names, and of those that are missing."""


class Consulting:
    """Asks all regions, this rehydrator's own by `app`."""

    def __init__(self, answering: Answering, regions: Regions | None, app: FastAPI) -> None:
        self._view = answering.view
        self._generation = answering.generation
        self._metrics = answering.metrics
        self._regions = regions
        self._app = app

    async def answer(self, asked: Question, take: Taken, make: Made) -> Response:
        """The answer, or a refusal. Raises UnavailableError where a region is missing that may not be."""
        regions = self._regions
        if regions is None:
            raise HTTPException(409, _UNSET)
        tokens = self._tokens(regions, asked.at_least or [])
        wait_s = patience(next(iter(tokens.values()), None), asked.wait_ms) + asked.more_s
        async with regions.admission.admitted(wait_s) as room:
            answers = await self._asked(regions, asked, tokens, wait_s, room)
            if refusal := next((one for one in answers.values() if isinstance(one, Response)), None):
                return refusal
            return await regions.admission.work(room, self._merged, answers, asked.partial, take, make)

    async def _asked(
        self, regions: Regions, asked: Question, tokens: dict[str, str], wait_s: float, room: Room
    ) -> dict[str, Answer | Response | str]:
        """All at once; where one finds no room the others are given up."""
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
            # Of several that found no room only one is told; the others are heard, too.
            await asyncio.gather(*tasks, return_exceptions=True)

    def _merged(
        self, answers: dict[str, Answer | Response | str], partial: bool, take: Taken, make: Made
    ) -> Response:
        """Off the event loop, from the first row to the last byte."""
        told: dict[str, Told] = {}
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
            raise UnavailableError(f"there is no whole answer, for not every region can be counted: {why}")
        left_out: list[Answer] = [{"region": name, "reason": missing[name]} for name in sorted(missing)]
        return rendered(lambda: make(whole, left_out))

    def _tokens(self, regions: Regions, at_least: list[str]) -> dict[str, str]:
        """Which token each region is to reach. 400 for one of no region that is asked, or two of one."""
        found: dict[str, str] = {}
        for text in at_least:
            token = parsing.token(text, self._generation)
            region = token.generation.region if token else ""
            if region not in regions.names or region in found:
                names = ", ".join(regions.names)
                raise HTTPException(400, f"at_least={text[:80]!r}: one token each of the regions {names}")
            found[region] = text
        return found

    def _judged(self, region: str, answer: Answer, take: Taken) -> Told | str:
        """The region's part; or why it cannot be merged with the others."""
        try:
            if (why := self._unfit(region, answer)) is not None:
                return why
            part, watermark_ms = take(region, answer, Presenter(self._view.job)), int(answer["watermark_ms"])
            return Told(region, answer, sources_in(answer), watermark_ms, part)
        except CutwaterError as error:
            return f"its rows cannot be read: {error}"
        except _ODD as error:
            return f"what it answers is none of this version ({type(error).__name__})"

    def _unfit(self, region: str, answer: Answer) -> str | None:
        """Of other rows than ours, or of nobody knows whose events: counted in, they would be wrong in silence."""
        job = self._view.job
        if answer["job"] != job.name:
            return f"it serves the job {answer['job']}, and this is {job.name}"
        if answer["fingerprint"] != job.fingerprint:
            return f"its rows are others ({answer['fingerprint']}): other measures, keys or windows"
        for one in answer["milestones"]:
            if (token := Token.parse(one["token"])).generation.region != region:
                return f"it shows {token}, which is of another region"
        if answer["lineage"] is None and not answer["sources"]:
            return (
                "its generation goes on from one that its commit stream does not name, and its milestone names no "
                "source: whose events are in it?"
            )
        return None


def about(told: list[Told], missing: list[Answer]) -> Answer:
    """What every answer says besides its rows."""
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
    """Those that are given."""
    return [(name, str(value)) for name, value in given.items() if value is not None]


def part_of(
    region: str, presenter: Presenter, answer: Answer, place: Callable[[Window], Any], told: Any
) -> Part[Any]:
    """A region's rows as a part of the whole. One of `_ODD` is raised where the answer is none."""
    tokens = [Token.parse(one["token"]) for one in answer["milestones"]]
    rows = (unpacked(row) for row in answer["rows"])
    return Part(
        # Each region is asked once, and no event is in two of their states: it is a lineage of its own. By its
        # name everybody folds in the same order, whoever knows how it began.
        lineage=region,
        at=min((one.generation.number, one.sequence) for one in tokens),
        horizon_ms=int(answer["complete_above_ms"]),
        rows={place(window): presenter.partials(value) for window, value in rows},
        told=told,
    )
