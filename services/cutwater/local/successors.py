"""The driver and commit-signal of each candidate that is claimed while a stack runs: it starts and ends them.

Those of the generation before leave by themselves once another is promoted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from cutwater.adapters.claiming import Claims
from cutwater.adapters.cluster import Cluster
from cutwater.adapters.generations import candidacy, candidates, promoted
from cutwater.adapters.streams import Tail
from cutwater.core import topics
from cutwater.core.candidates import Candidates
from cutwater.core.errors import CutwaterError, UnavailableError
from cutwater.core.generations import Generation
from cutwater.core.replication import Replication
from cutwater.local.supervisor import Supervised

LOOK_S = 1.0
CANDIDATES_MAX = 2
"""So many at a time: each is a Spark of its own."""

RENEWALS_MAX = 3
"""So often in the life of a stack: whoever writes foreign rows all the time must be found by a person."""

Make = Callable[[Generation], Sequence[Supervised]]


class Successors:
    """Asked again and again for the members that are to be started; `make` makes those of a generation."""

    def __init__(
        self,
        cluster: Cluster,
        job: str,
        claims: Callable[[], Claims],
        make: Make,
        copies: Callable[[], Replication],
        report: Callable[[str], None],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._claims = claims
        self._make = make
        self._copies = copies
        self._report = report
        self._clock_s = clock_s
        self._tail: Tail | None = None
        self._known = Candidates()
        self._made: set[Generation] = set()
        self._refused: set[Generation] = set()
        self._looked_s = float("-inf")
        self._renewed = 0

    def __call__(self) -> list[Supervised]:
        """New members; none most of the time."""
        if self._clock_s() - self._looked_s < LOOK_S:
            return []
        self._looked_s = self._clock_s()
        try:
            return self._look()
        except UnavailableError:
            return []  # the others say that the brokers are away

    def close(self) -> None:
        if self._tail is not None:
            self._tail.close()

    def passed(self, generation: Generation | None) -> bool:
        """Was a later one promoted, of those whose processes run here? None: than what the stack began with."""
        try:
            last = promoted(self._cluster, self._job)
        except UnavailableError:
            return False  # it is asked again where it matters: at the next start of the stack
        if last is None or last.generation not in self._made:
            return False
        return generation is None or last.generation.number > generation.number

    def renew(self, ended: Generation | None) -> bool:
        """Foreign rows have ended a generation: the next one starts from the last milestone, by itself.

        `ended`: None for the one that the stack began with. False where it was no promoted one, or it is enough.
        """
        try:
            last = promoted(self._cluster, self._job)
            if last is None or ended not in (None, last.generation):
                return False
            if candidates(self._cluster, self._job).promoting_behind(last):
                return True  # begun before
            if self._renewed >= RENEWALS_MAX:
                return False
            self._renewed += 1
            claims = self._claims()
            claim = claims.start(None, None, False, f"foreign rows ended {last.generation}", self._copies())
            claims.promote(claim.generation)
        except CutwaterError as error:
            self._report(f"no generation follows by itself: {error}")
            return False
        self._report(f"foreign rows have ended {last.generation}: {claim.generation} follows from {last.token}")
        return True

    def _look(self) -> list[Supervised]:
        if self._tail is None:
            self._tail = Tail(self._cluster, topics.candidates(self._job))
        for record in self._tail.poll():
            self._known = self._known.after(candidacy(record))
        fresh = [one for one, at in self._known.by_id.items() if at.open and one not in self._made]
        if not fresh:
            return []
        last = promoted(self._cluster, self._job)
        above = last.generation.number if last else 0
        found: list[Supervised] = []
        for generation in fresh:
            if generation.number > above:
                found += self._taken(generation, above)
        return found

    def _taken(self, generation: Generation, above: int) -> Sequence[Supervised]:
        waiting = [one for one in self._made if one.number > above and self._known.by_id[one].open]
        if len(waiting) >= CANDIDATES_MAX:
            if generation not in self._refused:
                self._report(f"{generation} waits: {CANDIDATES_MAX} candidates run already")
            self._refused.add(generation)
            return []
        self._refused.discard(generation)
        self._made.add(generation)
        self._report(f"starting the driver and commit-signal of {generation}")
        return self._make(generation)
