"""Query whether another region has taken over the job, before a driver or commit-signal continues it here.
`core.failover.rejoin` decides; `operations.regions.forks` reads a region's claims."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.admin import descriptions
from cutwater.adapters.kafka.client import wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms as clock_ms
from cutwater.adapters.topics.candidates import candidates, origin_parent, promoted
from cutwater.adapters.topics.commit_stream import last_heard_ms
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.failover.rejoin import (
    LocalPosition,
    RemoteTakeover,
    ResumeDecision,
    find_takeover,
    local_position,
    require_not_left,
    unanswered,
)
from cutwater.core.generations.candidates import Candidates
from cutwater.core.generations.start_state import is_claimed
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.util.log_throttle import LogThrottle
from cutwater.operations.regions.forks import ForkReader

ASK_S = 5.0
"""Timeout of one query. A job that was silent only briefly then continues without an answer."""
BEGINS_S = 1.0
"""The same for a generation that begins here: after a failover the other region may be dead, and time counts."""
PAUSE_S, PAUSE_S_MAX = 1.0, 30.0
SAY_S = 600.0
"""Interval of log lines while waiting."""
LOOKS, LOOK_S = 3, 2.0
"""A restarted broker may briefly know no topics, so a missing topic is queried again."""


class RejoinCheck:
    """Query of one region to the other one. Writes nothing."""

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
        """`least_ms`: CUTWATER_FAILOVER_MIN_AGE_S in ms. `go_on_behind`: the token that needs no answer."""
        self._own, self._job, self._region = own, job, region
        self._other, self._there = other, there
        self._least_ms, self._go_on_behind = least_ms, go_on_behind
        self._now_ms, self._clock_s, self._ask_s = now_ms, clock_s, ask_s

    def await_answer(
        self,
        generation: Generation,
        stop: threading.Event,
        log: Any,
        waiting: Callable[[bool], None] = lambda _now: None,
    ) -> bool:
        """Wait until a process of the generation may continue; return False if stopped before. `waiting`:
        called at the start and the end of a wait. Raises as `look` does."""
        said, pause_s, began_s, waited = LogThrottle(SAY_S), PAUSE_S, self._clock_s(), False
        while (found := self.check(generation, stop.wait)).waits:
            if not waited:
                waiting(waited := True)
            if said.admit("", self._clock_s()) is not None:
                log.warning("waiting", reason=found.why, brokers=self._there.bootstrap)
            if stop.wait(pause_s):
                return False
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
        if waited:
            waiting(False)
            log.info("continuing after the wait", waited_s=round(self._clock_s() - began_s, 1))
        if found.why:
            log.warning("continuing without an answer", reason=found.why)
        return True

    def check(self, generation: Generation, pause: Callable[[float], object] = time.sleep) -> ResumeDecision:
        """Query once, for a few seconds at most, whether a process of the generation has to wait. Raises
        FencedError if the other region has taken the job over, UsageError if its answer is required and it
        refuses access."""
        here = self._read_local_position(generation)
        may_be_left = here.may_be_left(self._now_ms(), self._least_ms)
        try:
            went = self._ask(here, pause, LOOKS if may_be_left else 1)
        except UnavailableError as error:
            return unanswered(here, self._other, error, may_be_left, self._go_on_behind)
        except UsageError as error:
            if not may_be_left:  # the answer is not required, as with a broken link
                return unanswered(here, self._other, error, False, self._go_on_behind)
            raise UsageError(
                f"asking region {self._other} (CUTWATER_ORIGIN_*) whether it has taken over job {self._job.name}: "
                f"{error}"
            ) from None
        require_not_left(went, self._job.name, self._region)
        return ResumeDecision(False)

    def check_again(self, generation: Generation, log: Any) -> None:
        """Raise FencedError if the other region has taken over since `settled`. The last check after fencing.
        Silence or a refusal no longer matters: the region has answered before, or need not have."""
        here = self._read_local_position(generation)
        try:
            went = self._ask(here, time.sleep, 1)
        except (UnavailableError, UsageError) as error:
            log.warning("the other region did not answer the second query", reason=str(error))
            return
        require_not_left(went, self._job.name, self._region)

    def _read_local_position(self, generation: Generation) -> LocalPosition:
        name, stream = self._job.name, topics.milestones(self._job.name)
        known = candidates(self._own, name) if is_claimed(generation) else Candidates()
        last, heard_ms = None, 0
        if descriptions(self._own, [stream]):  # missing before the first start, and in a region that was lost
            last, heard_ms = promoted(self._own, name), last_heard_ms(self._own, stream)
        return local_position(generation, last, heard_ms, known, self._other, origin_parent)

    def _ask(self, here: LocalPosition, pause: Callable[[float], object], looks: int) -> RemoteTakeover | None:
        wait_for_broker(self._there, self._ask_s if here.begins is None else BEGINS_S)
        if not self._has_claims(pause, looks):
            return None
        claims = ForkReader(self._there, self._job).continuing_claims()
        claim = find_takeover(claims, self._region, here, origin_parent)
        if claim is None:
            return None
        stream = topics.milestones(self._job.name)  # missing until the first promotion there
        newest = promoted(self._there, self._job.name) if descriptions(self._there, [stream]) else None
        return RemoteTakeover(claim, origin_parent(claim).token, newest.token if newest else None)

    def _has_claims(self, pause: Callable[[float], object], looks: int) -> bool:
        """Return whether the topic of candidates exists. Without it the job was never taken over."""
        topic = topics.candidates(self._job.name)
        for look in range(looks):
            if look:
                pause(LOOK_S)
            if descriptions(self._there, [topic]):
                return True
        return False


def rejoin_check(job: Job, settings: Settings, cluster: Cluster | None = None) -> RejoinCheck | None:
    """Create the query from the settings; None if no other region is set, or none could take over the job.
    `cluster`: this region's, if not from the settings. Raises UsageError if the settings name this region."""
    if not (job.source and settings.origin_region and settings.origin_bootstrap_servers):
        return None
    return RejoinCheck(
        cluster or settings.cluster,
        job,
        settings.region,
        settings.origin,
        settings.origin_cluster,
        round(1000 * settings.failover_min_age_s),
        settings.go_on_behind,
    )
