"""The context shared by all routes: one view, the milestone that it shows, and the wait for a token."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NoReturn

from fastapi import Request
from fastapi.exceptions import HTTPException
from fastapi.responses import JSONResponse, Response

from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.records import Milestone
from cutwater.core.util.timestamps import iso
from cutwater.rehydrator.cluster.held_part import Replica
from cutwater.rehydrator.cluster.peers import Peers
from cutwater.rehydrator.http_api import parsing
from cutwater.rehydrator.http_api.generation_app import GenerationApp, hand_over
from cutwater.rehydrator.http_api.milestone_waiters import LOOK_S, Waiters
from cutwater.rehydrator.metrics.metrics import Metrics
from cutwater.views.query.milestone_json import milestone_fields
from cutwater.views.query.pages import Stored
from cutwater.views.query.presenter import Row
from cutwater.views.query.view import View


class RouteContext:
    """One view with its peers and replica. `now_ms`: the clock for ages."""

    def __init__(
        self,
        view: View,
        generation: Generation,
        metrics: Metrics,
        now_ms: Callable[[], int],
        peers: Peers,
        replica: Replica | None,
        successor: Callable[[], GenerationApp | None] = lambda: None,
        waiters: Waiters | None = None,
    ) -> None:
        """`successor`: another generation that is shown now. `waiters`: woken then, and at each milestone."""
        self._successor = successor
        self._waiters = waiters or Waiters()
        self.view = view
        self.metrics = metrics
        self.peers = peers
        self.replica = replica
        self.generation = generation
        self._now_ms = now_ms

    @property
    def partitions(self) -> list[int] | None:
        if self.replica:
            return self.replica.partitions
        return None if self.peers.partitions is None else sorted(self.peers.partitions)

    @property
    def selection(self) -> dict[str, Any] | None:
        return self.replica.selection if self.replica else None

    @property
    def origin(self) -> str:
        """The region whose copies this one shows; empty for its own state."""
        return self.replica.origin if self.replica else ""

    @property
    def role(self) -> str:
        return "replica" if self.replica else "standby" if self.peers.standby else "owner"

    def require(self, *keys: str) -> None:
        """Raise 421 if this is a replica that lacks one of these keys."""
        if self.replica:
            for key in keys:
                self.replica.require(key)

    def require_prefix(self, prefix: str) -> None:
        """Raise 421 if this is a replica that lacks every key with this prefix."""
        if self.replica:
            self.replica.require_prefix(prefix)

    def holds(self, names: bool) -> dict[str, Any]:
        """Return a replica's `holds` for an answer with rows. `names`: whether to name the keys."""
        return self.replica.holds_field(names) if self.replica else {}

    async def wait_for_token(self, request: Request, at_least: str | None, wait_ms: int) -> Response | None:
        """Return None once the view is at the token; the successor's answer if one is shown before that.

        Raises 412 after the wait and 410 for a lost token, both with the milestone that is shown.
        """
        token = parsing.token(at_least, self.generation)
        if token is None or self._reached(token):
            return None
        deadline_s = time.monotonic() + wait_ms / 1000
        with self.metrics.waiting.track_inprogress():
            while True:
                with self._waiters.turn() as turn:
                    if self._reached(token):
                        return None
                    if successor := self._successor():
                        return await hand_over(request, successor)
                    left_s = deadline_s - time.monotonic()
                    if left_s <= 0:
                        self._refuse(412, f"{token} was not reached within {wait_ms} ms")
                    await asyncio.wait([turn], timeout=min(left_s, LOOK_S))

    async def wait_for_change(self, due: Callable[[], bool]) -> None:
        """Wait until `due` may hold: a milestone or another generation is shown, or a second has passed."""
        with self._waiters.turn() as turn:
            if not due():
                await asyncio.wait([turn], timeout=LOOK_S)

    def _reached(self, token: Token) -> bool:
        lineage, shown = self.view.lineage, self.view.milestone
        if shown is None or lineage.ahead(token):
            return False
        if lost := lineage.why_lost(token):
            self._refuse(410, f"{token} was lost: {lost}")
        return shown.sequence >= token.sequence

    def _refuse(self, status: int, why: str) -> NoReturn:
        shown = self.view.milestone
        if shown is None:
            raise UnavailableError(self.view.missing_reason)
        problem = f"the view is at {shown.token}, and {why}"
        raise HTTPException(status, {"error": problem, "milestone": self.milestone(shown)})

    def count_read(self, key: str, rows: list[Stored]) -> None:
        """Count a read of a key that this view answers."""
        self.metrics.accesses.count(key, [window.start_ms for window, _ in rows])

    def page(self, milestone: Milestone, rows: list[Stored]) -> dict[str, Any]:
        """Return stored rows of one milestone in the form of answers."""
        return {
            "milestone": self.milestone(milestone),
            "rows": [shown_row(row) for row in self.view.present(rows)],
        }

    def milestone(self, shown: Milestone) -> dict[str, Any]:
        """Return a milestone in the form of answers."""
        return {
            **milestone_fields(shown, self.view.horizon_ms(shown), self.view.lower_ms(shown)),
            "standby": self.peers.standby,
            "age_ms": self.view.age_ms(shown, self._now_ms()),
            **({"origin": self.origin} if self.origin else {}),
        }

    def owners(self, shown: Milestone) -> dict[str, Any]:
        """Return an owner's milestone with its partitions, for an answer that spans owners."""
        return {**self.milestone(shown), "partitions": self.partitions}


def patience(at_least: str | None, wait_ms: int) -> float:
    """Return how long a request itself may wait, in seconds."""
    return wait_ms / 1000 if at_least else 0.0


def render(read: Callable[[], dict[str, Any]]) -> Response:
    """Read and render off the event loop: 10,000 rows block it for too long."""
    return JSONResponse(read())


def shown_row(row: Row) -> Row:
    """Return a row with its window as ISO 8601."""
    return {**row, "window_start": iso(row["window_start"]), "window_end": iso(row["window_end"])}
