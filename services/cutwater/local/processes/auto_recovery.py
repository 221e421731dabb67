"""Decides whether a stack continues after a driver or commit-signal has ended permanently.

If foreign rows or a lost checkpoint ended the promoted generation, the next one is started and promoted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import candidates, promoted
from cutwater.core.checks.replication import Replication
from cutwater.core.errors import CutwaterError, ForeignRowsError
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.local.processes.exit_policy import Fate, ProcessEnd, Stage, decide_fate
from cutwater.operations.generations.claims import Claims

RENEWALS_MAX = 3
"""The maximum in the life of a stack: an operator must find a process that writes foreign rows all the time."""


class AutoRecovery:
    """Called at each permanent end; remembers which generations' drivers have been given up for a successor."""

    def __init__(
        self,
        cluster: Cluster,
        job: str,
        claims: Claims,
        copies: Callable[[], Replication],
        made: Callable[[], Collection[Generation]],
        report: Callable[[str], None],
    ) -> None:
        """`made`: returns the generations whose processes this stack has started since its start."""
        self._cluster = cluster
        self._job = job
        self._claims = claims
        self._copies = copies
        self._made = made
        self._report = report
        self._forsaken: set[Generation] = set()
        self._stage = Stage(None, ())
        self._begun = 0

    def reason_to_continue(self, ended: ProcessEnd) -> str | None:
        """Return why the other processes continue without this one; None if they cannot."""
        found = decide_fate(ended, self._look())
        if found is Fate.ENDS or (found is Fate.RENEW and not self._renew(ended)):
            return None
        return str(found.value)

    def _look(self) -> Stage:
        # If no broker answers, use the last known state. The next start of the stack reads it again.
        try:
            last = promoted(self._cluster, self._job)
            if last is not None:
                forsaken = last.generation in self._forsaken
                successor = self._successor(last) if forsaken else None
                self._stage = Stage(last.generation, self._made(), forsaken, successor)
        except CutwaterError as error:
            self._report(f"the promoted generation cannot be read: {error}")
        return self._stage

    def _successor(self, last: Milestone) -> Generation | None:
        asked = candidates(self._cluster, self._job).promoting_behind(last)
        return asked.claim.generation if asked else None

    def _renew(self, ended: ProcessEnd) -> bool:
        """Start and promote the next generation, unless that is in progress. Return False if it cannot be."""
        why = "foreign rows have ended" if ended.exit_code == ForeignRowsError.exit_code else "no checkpoint fits"
        try:
            last = promoted(self._cluster, self._job)
            if last is None:
                return False
            successor = self._successor(last)
            if successor is None or successor == ended.generation:
                if self._begun >= RENEWALS_MAX:
                    self._report(f"this stack has started {RENEWALS_MAX} generations by itself: it starts no more")
                    return False
                self._begun += 1
                successor = self._follow(last, ended.generation, f"{why} {ended.generation}")
        except CutwaterError as error:
            self._report(f"the next generation cannot be started automatically: {error}")
            return False
        self._forsaken.add(last.generation)
        self._report(f"{why} {ended.generation}: {successor} follows from {last.token}")
        return True

    def _follow(self, last: Milestone, ended: Generation, reason: str) -> Generation:
        if ended != last.generation:
            self._claims.abort(ended, reason)  # a candidate; while its promotion is requested it blocks others
        generation = self._claims.start(None, None, False, reason, self._copies()).generation
        self._claims.promote(generation)
        return generation
