"""Starts the driver and commit-signal of each candidate that is claimed while a stack runs.

The processes of the previous generation exit by themselves once another is promoted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.kafka_client_log import QUIET
from cutwater.adapters.topics.candidates import candidacy, promoted
from cutwater.adapters.topics.commit_stream import Tail
from cutwater.core.errors import UnavailableError
from cutwater.core.generations.candidates import Candidates
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.local.processes.supervisor import Supervised

LOOK_S = 1.0
CANDIDATES_MAX = 2
"""The maximum at a time, since each candidate runs its own Spark. One whose promotion is requested comes on top:
nothing else is promoted before it. One whose driver has ended for good does not count."""

Make = Callable[[Generation], Sequence[Supervised]]


class CandidateProcesses:
    """Called at each check for members to start; `make` makes those of a generation."""

    def __init__(
        self,
        cluster: Cluster,
        job: str,
        make: Make,
        report: Callable[[str], None],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._make = make
        self._report = report
        self._clock_s = clock_s
        self._tail: Tail | None = None
        self._known = Candidates()
        self._made: dict[Generation, Sequence[Supervised]] = {}
        self._refused: set[Generation] = set()
        self._looked_s = float("-inf")

    def __call__(self) -> list[Supervised]:
        """Return new members; mostly none."""
        if self._clock_s() - self._looked_s < LOOK_S:
            return []
        self._looked_s = self._clock_s()
        try:
            return self._look()
        except UnavailableError:
            return []  # other processes report that the brokers are away

    def close(self) -> None:
        if self._tail is not None:
            self._tail.close()

    def is_canary(self, generation: Generation) -> bool:
        """Return whether a candidate is compared with the promoted generation."""
        return self._known.by_id[generation].canary is not None

    @property
    def started_generations(self) -> frozenset[Generation]:
        return frozenset(self._made)

    def _look(self) -> list[Supervised]:
        if self._tail is None:
            # Quiet: it outlives the stack's own broker, and would log that when it is closed.
            self._tail = Tail(self._cluster, topics.candidates(self._job), **QUIET)
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
                found += self._start_candidate(generation, above)
        return found

    def _start_candidate(self, generation: Generation, above: int) -> Sequence[Supervised]:
        running = [one for one in self._made if one.number > above and self._runs(one)]
        if len(running) >= CANDIDATES_MAX and not self._known.by_id[generation].promoting:
            if generation not in self._refused:
                self._report(f"{generation} waits: {CANDIDATES_MAX} candidates run already")
            self._refused.add(generation)
            return []
        self._refused.discard(generation)
        self._report(f"starting the processes of {generation}")
        self._made[generation] = self._make(generation)
        return self._made[generation]

    def _runs(self, generation: Generation) -> bool:
        """Return whether a candidate may still be promoted, and all processes that this takes run."""
        needed = (one for one in self._made[generation] if one.essential)
        return self._known.by_id[generation].open and not any(one.finished for one in needed)
