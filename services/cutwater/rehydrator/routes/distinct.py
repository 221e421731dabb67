"""The route of set operations: how many different values several rows have together, in common, or alone.

A set holds the values of a key's windows. Owners unite the theta sketches of their rows, each at one milestone.
The operations are done once, on the sets of all owners.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from fastapi import Request, Response
from fastapi.exceptions import HTTPException

from cutwater.adapters.sketches import ThetaSketches
from cutwater.rehydrator.http_api import parsing
from cutwater.rehydrator.http_api.context import RouteContext
from cutwater.rehydrator.http_api.parameters import WAIT_MS_DEFAULT, AtLeast, WaitMs
from cutwater.rehydrator.http_api.sets_body import SET_ROWS_MAX, SetPlace, Sets
from cutwater.rehydrator.routes.owners import Answer, Owners, Wait

PATH = "/v1/distinct"


class DistinctRoutes:
    """Requests sent to the owners of the keys, this one included, and joined."""

    def __init__(self, context: RouteContext, owners: Owners) -> None:
        self._context, self._owners = context, owners
        self._view = context.view
        self._sketches = ThetaSketches()

    async def distinct(
        self, request: Request, asked: Sets, at_least: AtLeast = None, wait_ms: WaitMs = WAIT_MS_DEFAULT
    ) -> Response:
        """The number of different values that are in any set of `of`, in every one of `and`, in none of `not`.

        A set has the values of all windows of its key that start in [from, to); without such windows it is empty.
        The number is exact if all sets together have at most 4,096 different values. Else the true number is from
        `least` to `most` with a probability of 99.7 %.

        The answer is complete or an error: if the sets have more than 1,000 rows, the status is 422; if no holder
        of a key answers, 503.
        """
        parsing.theta_measure(asked.measure, self._view.measures)
        asked = asked.with_keys(lambda key: parsing.stored_key(key, self._view.job))
        asked.spans()  # refuses an invalid time before any owner is asked

        def join(parts: list[Answer]) -> Answer:
            # As stored: the peer that joins them needs the sets.
            passed_on = self._context.peers.is_passed_on(request)
            return parts[0] if passed_on else self._combine(asked, parts)

        return await self._owners.of_sets(request, asked, PATH, Wait(at_least, wait_ms), self._read, join)

    def _read(self, asked: Sets) -> Answer:
        sets, spans = asked.every, asked.spans()
        page = self._view.read_spans(spans, SET_ROWS_MAX + 1, SET_ROWS_MAX + 1)
        require_few(sum(len(one.rows) for one in page.pages))
        found = []
        for one, (_, first, _), read in zip(sets, spans, page.pages, strict=True):
            kept = (row[asked.measure] for row in self._view.partials(read.rows))
            sketch = self._sketches.united(one for one in kept if one)
            hint = parsing.hint(self._view.evicted(page.milestone, first))
            told = {"rows": len(read.rows), "sketch": base64.b64encode(sketch).decode(), **hint}
            found.append({**one.shown, **told})
        return {"milestones": [self._context.owners(page.milestone)], "sets": found}

    def _combine(self, asked: Sets, parts: list[Answer]) -> Answer:
        found = {set_place(one): {**one, "milestone": at} for at, part in enumerate(parts) for one in part["sets"]}
        require_few(sum(one["rows"] for one in found.values()))
        sketches = {place: base64.b64decode(one.pop("sketch")) for place, one in found.items()}
        return {
            **count_values(self._sketches, asked, sketches, found),
            "milestones": [part["milestones"][0] for part in parts],
            **self._context.holds(names=False),
        }


def count_values(
    library: ThetaSketches, asked: Sets, sketches: Mapping[SetPlace, bytes], found: Mapping[SetPlace, Answer]
) -> Answer:
    """Return the number of values that the sets have by their roles, and each set as `found` with its number."""
    roles = {role: [one.place for one in some] for role, some in asked.by_role.items()}
    number = library.combined(*([sketches[place] for place in some] for some in roles.values()))
    return {
        "measure": asked.measure,
        "estimate": number.number,
        "least": number.least,
        "most": number.most,
        "exact": number.exact,
        "sets": [
            {"in": role, **found[place], "estimate": round(library.estimate(sketches[place]))}
            for role, some in roles.items()
            for place in some
        ],
    }


def set_place(one: Answer) -> SetPlace:
    """Return the place of a set in an answer."""
    return one["key"], one["from"], one["to"]


def require_few(rows: int) -> None:
    """Raise 422 for more rows than the sets of a request may have."""
    if rows > SET_ROWS_MAX:
        raise HTTPException(
            422, f"the sets have more than {SET_ROWS_MAX:,} rows: request fewer windows with from and to"
        )
