"""Asks another region, before a driver or commit-signal goes on, whether that has gone on with the job.

`core.failover.rejoin` decides; `operations.regions.forks` knows how to read a region's claims.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.admin import described
from cutwater.adapters.kafka.client import wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import candidates, promoted, told_parent
from cutwater.adapters.topics.commit_stream import last_heard_ms
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.failover.rejoin import Found, Stood, Went, require_not_left, stood, unanswered, went_on
from cutwater.core.generations.candidates import Candidates
from cutwater.core.generations.start_state import claimed
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.util.log_throttle import Rarely
from cutwater.operations.regions.forks import Forking
from cutwater.operations.service_main import now_ms as clock_ms

ASK_S = 5.0
"""So long it is waited for at a time: a job that was silent for a moment only then goes on without an answer."""
PAUSE_S, PAUSE_S_MAX = 1.0, 30.0
SAY_S = 600.0
"""How often somebody who waits says so."""
LOOKS, LOOK_S = 3, 2.0
"""A broker that is just back may know no topic for a moment: so often one is looked for."""


class Returning:
    """The question of one region to the other one. Nothing is written in either."""

    def __init__(
        self,
        own: Cluster,
        job: Job,
        region: str,
        other: str,
        there: Cluster,
        least_ms: int,
        go_on_behind: str = "",
        now_ms: Callable[[], int] = clock_ms,
        clock_s: Callable[[], float] = time.monotonic,
        ask_s: float = ASK_S,
    ) -> None:
        """`least_ms`: CUTWATER_FAILOVER_MIN_AGE_S; `go_on_behind`: the token behind which nobody is waited for."""
        self._own, self._job, self._region = own, job, region
        self._other, self._there = other, there
        self._least_ms, self._go_on_behind = least_ms, go_on_behind
        self._now_ms, self._clock_s, self._ask_s = now_ms, clock_s, ask_s

    def settled(
        self,
        generation: Generation,
        stop: threading.Event,
        log: Any,
        waiting: Callable[[bool], None] = lambda _now: None,
    ) -> bool:
        """Whether a process of the generation may go on; waits until that is known. False when stopped meanwhile.

        `waiting` is told when it begins to wait, and when that has ended. Raises as `look` does.
        """
        said, pause_s, began_s, waited = Rarely(SAY_S), PAUSE_S, self._clock_s(), False
        while (found := self.look(generation, stop.wait)).waits:
            if not waited:
                waiting(waited := True)
            if said.take("", self._clock_s()) is not None:
                log.warning("waiting", reason=found.why, brokers=self._there.bootstrap)
            if stop.wait(pause_s):
                return False
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
        if waited:
            waiting(False)
            log.info("going on", waited_s=round(self._clock_s() - began_s, 1))
        if found.why:
            log.warning("going on without an answer", reason=found.why)
        return True

    def look(self, generation: Generation, pause: Callable[[float], object] = time.sleep) -> Found:
        """Whether a process of the generation has to wait now. Asks once, and waits for no more than some seconds.

        Raises FencedError where the other region has gone on with the job, UsageError where it has to answer
        and does not let us in.
        """
        here = self._stood(generation)
        if here is None:
            return Found(False)
        may_be_left = here.may_be_left(self._now_ms(), self._least_ms)
        try:
            went = self._ask(here, pause, LOOKS if may_be_left else 1)
        except UnavailableError as error:
            return unanswered(here, self._other, error, may_be_left, self._go_on_behind)
        except UsageError as error:
            if not may_be_left:  # an answer that is not needed: a broken link would not stop it either
                return unanswered(here, self._other, error, False, self._go_on_behind)
            raise UsageError(
                f"asking region {self._other}, which CUTWATER_ORIGIN_* name, whether it has gone on with job "
                f"{self._job.name}: {error}"
            ) from None
        require_not_left(went, self._job.name, self._region)
        return Found(False)

    def again(self, generation: Generation, log: Any) -> None:
        """Raise FencedError where the other region has gone on since `settled`: the last thing behind the fencing.

        Silence keeps nobody now, nor does a refusal: it was asked, or need not have answered.
        """
        if (here := self._stood(generation)) is None:
            return
        try:
            went = self._ask(here, time.sleep, 1)
        except (UnavailableError, UsageError) as error:
            log.warning("the other region was not asked again", reason=str(error))
            return
        require_not_left(went, self._job.name, self._region)

    def _stood(self, generation: Generation) -> Stood | None:
        name, stream = self._job.name, topics.milestones(self._job.name)
        known = candidates(self._own, name) if claimed(generation) else Candidates()
        last, heard_ms = None, 0
        if described(self._own, [stream]):  # not before a job is begun, nor in a region that was lost whole
            last, heard_ms = promoted(self._own, name), last_heard_ms(self._own, stream)
        return stood(generation, last, heard_ms, known, self._other, told_parent)

    def _ask(self, here: Stood, pause: Callable[[float], object], looks: int) -> Went | None:
        wait_for_broker(self._there, self._ask_s)
        if not self._has_claims(pause, looks):
            return None
        claim = went_on(Forking(self._there, self._job).standing(), self._region, here.held)
        if claim is None:
            return None
        stream = topics.milestones(self._job.name)  # before anything is promoted there it may be missing
        newest = promoted(self._there, self._job.name) if described(self._there, [stream]) else None
        return Went(claim, told_parent(claim).token, newest.token if newest else None)

    def _has_claims(self, pause: Callable[[float], object], looks: int) -> bool:
        """Is there a topic of candidates? There is none where the job was never gone on with."""
        topic = topics.candidates(self._job.name)
        for look in range(looks):
            if look:
                pause(LOOK_S)
            if described(self._there, [topic]):
                return True
        return False


def returning(job: Job, settings: Settings, cluster: Cluster | None = None) -> Returning | None:
    """As the settings say; None where no other region is named, or none could go on with the job.

    `cluster`: this region's, where it is not that of the settings. Raises UsageError where they name this region.
    """
    if not (job.topic and settings.origin_region and settings.origin_bootstrap_servers):
        return None
    return Returning(
        cluster or settings.cluster,
        job,
        settings.region,
        settings.origin,
        settings.origin_cluster,
        round(1000 * settings.failover_min_age_s),
        settings.go_on_behind,
    )
