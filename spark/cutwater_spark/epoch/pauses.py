"""The pauses of a driver before its epochs: a candidate's own, and the promoted driver's for a candidate.

The same process is a candidate first and the promoted driver later, so both are in one place. A pause is before
the epoch's lock: heartbeats continue, and a stop ends it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from cutwater.adapters.avro.protocol_records import Record
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import candidacy, parent_of, promoted
from cutwater.adapters.topics.commit_stream import Tail
from cutwater.core.errors import CutwaterError
from cutwater.core.generations.candidates import Candidate, Candidates
from cutwater.core.job.job import Objectives
from cutwater.core.pacing.candidate_pace import CandidatePace
from cutwater.core.pacing.catch_up import approach, read_rate
from cutwater.core.pacing.live_yield import LiveYield, Progress
from cutwater.core.pacing.schedules import BOUND_USED, UNBOUND, WorkBounds, bounds_of, closed_text, yield_s
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone

LOOK_S = 2.0
"""The interval of looks at the job's candidates."""
YIELD_LOOK_S = 0.25
"""The same while the promoted driver waits for a candidate."""
RETRY_S = 30.0
CUTS_MAX = 500
RATE_S = 30.0
"""The rate of events is taken over the epochs of this time."""


class CandidateTopic:
    """Follows the topic of candidates. Brokers that do not answer leave what was known."""

    def __init__(self, cluster: Cluster, job: str, log: Any) -> None:
        self._cluster, self._job, self._log = cluster, job, log
        self._tail: Tail | None = None
        self._known = Candidates()
        self._looked_s = self._retry_s = float("-inf")

    def known(self, age_s: float) -> Candidates:
        """Return the candidates, at most `age_s` old if the brokers answer."""
        now_s = time.monotonic()
        if now_s - self._looked_s < age_s or now_s < self._retry_s:
            return self._known
        self._looked_s = now_s
        try:
            for record in self._records():
                self._known = self._known.after(candidacy(record))
        except CutwaterError as error:
            self._retry_s = now_s + RETRY_S
            self._log.warning("the job's candidates are not read", error=str(error)[:300])
        return self._known

    def _records(self) -> Iterator[Record]:
        """Return what came since the last look; at the first one, all up to the topic's end.

        Only the first look asks for that end. The answer waits behind the consumer's own fetch, for up to half a
        second, and every epoch would wait for it. What is written later arrives by itself.
        """
        if self._tail is not None:
            return self._tail.poll(wait_s=0)
        self._tail = Tail(self._cluster, topics.candidates(self._job))
        return self._tail.to_end()

    def newest(self) -> Milestone | None:
        """Return the newest milestone of the commit stream; None if there is none, or no answer."""
        try:
            return promoted(self._cluster, self._job)
        except CutwaterError:
            return None

    def close(self) -> None:
        if self._tail is not None:
            self._tail.close()


class EpochRead(NamedTuple):
    """What this driver's newest epoch has read."""

    events: int = 0
    source_cut: Cut | None = None
    """None before its first epoch."""


class PausedBy(NamedTuple):
    """Where pauses are counted."""

    candidate: Callable[[float], None]
    yielding: Callable[[float], None]


class EpochPauses:
    """Wraps each epoch in `epoch`."""

    def __init__(
        self,
        generation: Generation,
        share: float,
        objectives: Objectives,
        candidates: CandidateTopic,
        newest: Callable[[], EpochRead],
        stop: threading.Event,
        counts: PausedBy,
        now_ms: Callable[[], int],
        log: Any,
        is_candidate: bool,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`newest`: what the driver's newest epoch has read. `is_candidate`: False for a generation that was never
        claimed; one that is promoted already is recognised at the first look."""
        self._generation = generation
        self._candidates, self._newest, self._stop = candidates, newest, stop
        self._counts, self._now_ms, self._log = counts, now_ms, log
        self._is_candidate, self._looked, self._clock_s = is_candidate, False, clock_s
        self._pace = CandidatePace(share)
        self._share = share
        self._waits = ""
        self._yielding = _Yielding(objectives)

    @contextmanager
    def epoch(self) -> Iterator[None]:
        self._rest()
        self._yield()
        began_s = self._clock_s()
        yield
        ended_s = self._clock_s()
        read = self._newest()
        self._pace.record_epoch(began_s, ended_s, read.events)
        self._yielding.record_epoch(ended_s, ended_s - began_s, read.source_cut)

    def events_max(self) -> int | None:
        """Return the most events of the next epoch; None without a bound on the candidate's rate."""
        own = self._look()
        return self._pace.events_max if own is not None else None

    def await_window(self) -> bool:
        """Wait until the candidate's window opens; return False if stopped meanwhile."""
        while not self._stop.is_set() and (own := self._look()) is not None:
            if not self._closed(own) or self._is_promoted(own):
                return True
            self._pause(LOOK_S)
        return not self._stop.is_set()

    def _look(self) -> Candidate | None:
        """Return this generation's candidate with its bounds in force; None once it is promoted."""
        if not self._is_candidate:
            return None
        own = self._candidates.known(LOOK_S).by_id.get(self._generation)
        if own is None:
            return None  # brokers do not answer
        if not self._looked and self._is_promoted(own):
            return None
        self._looked = True
        self._pace.bounds = bounds_of(own)
        return own

    def _rest(self) -> None:
        while not self._stop.is_set() and (own := self._look()) is not None:
            seconds = self._pace.rest_s(self._clock_s(), self._now_ms(), own.promoting)
            if not seconds or self._is_promoted(own):
                return
            self._closed(own)
            self._adapt_share(own)
            self._pause(min(seconds, LOOK_S))

    def _is_promoted(self, own: Candidate) -> bool:
        """Return whether the candidate is promoted: then nothing bounds it any more."""
        if not own.promoting:
            return False
        last = self._candidates.newest()
        if last is not None and last.generation.number >= self._generation.number:
            self._is_candidate, self._pace.bounds = False, UNBOUND
        return not self._is_candidate

    def _adapt_share(self, own: Candidate) -> None:
        if self._share >= 1 or (last := self._candidates.newest()) is None:
            return
        before = self._pace.share
        if (nearer := approach(own, parent_of(own.claim), last)) is not None:
            self._pace.adapt_share(nearer.reads_per_s, nearer.comes_per_s)
        if self._pace.share != before:
            self._log.info("the candidate's share changes", share=round(self._pace.share, 2), why=str(nearer))

    def _closed(self, own: Candidate) -> bool:
        """Return whether the candidate's windows are closed, and log that once."""
        waits = closed_text(own, self._now_ms())
        if waits != self._waits:
            self._log.info("the candidate works again" if not waits else "the candidate is paused", reason=waits)
        self._waits = waits
        return bool(waits)

    def _pause(self, seconds: float) -> None:
        self._counts.candidate(seconds)
        self._stop.wait(seconds)

    def _yield(self) -> None:
        """Wait for a slower candidate, if its schedule allows that, for a bounded time."""
        until_s = None
        while not self._stop.is_set():
            every_s = LOOK_S if until_s is None else YIELD_LOOK_S
            follower = self._follower(self._candidates.known(every_s))
            now_s = self._clock_s()
            wait_s = self._yielding.wait_s(follower, now_s, self._now_ms())
            until_s = now_s + wait_s if until_s is None else min(until_s, now_s + wait_s)
            if now_s >= until_s:
                return
            seconds = min(until_s - now_s, YIELD_LOOK_S)
            self._counts.yielding(seconds)
            self._stop.wait(seconds)

    def _follower(self, known: Candidates) -> Candidate | None:
        """Return the newest candidate that continues from this generation and may be waited for."""
        found = [
            one
            for generation, one in known.by_id.items()
            if generation.number > self._generation.number and one.schedule is not None and bounds_of(one).yield_ms
        ]
        last = max(found, key=lambda one: one.claim.generation.number, default=None)
        return last if last is not None and parent_of(last.claim).generation == self._generation else None


class _Yielding:
    """How long the promoted driver waits before an epoch."""

    def __init__(self, objectives: Objectives) -> None:
        self._objectives = objectives
        self._cuts: deque[tuple[float, Cut]] = deque(maxlen=CUTS_MAX)
        self._epoch_s = 0.0
        self._decisions: dict[Generation, LiveYield] = {}

    def record_epoch(self, at_s: float, seconds: float, cut: Cut | None) -> None:
        self._epoch_s = max(seconds, (seconds + self._epoch_s) / 2)
        if cut is None:
            return
        self._cuts.append((at_s, cut))
        while len(self._cuts) > 2 and at_s - self._cuts[0][0] > RATE_S:
            self._cuts.popleft()

    def wait_s(self, follower: Candidate | None, now_s: float, now_ms: int) -> float:
        """Return the time to wait now, at most."""
        if follower is None:
            return 0.0
        bounds = bounds_of(follower)
        decision = self._decisions.setdefault(follower.claim.generation, LiveYield())
        if not decision.wants_wait(self._progress(follower, bounds, now_ms), now_s):
            return 0.0
        return yield_s(bounds, self._objectives, self._epoch_s)

    def _progress(self, follower: Candidate, bounds: WorkBounds, now_ms: int) -> Progress | None:
        if len(self._cuts) < 2 or follower.newest is None or not bounds.windows.is_open(now_ms):
            return None
        (first_s, first), (last_s, cut) = self._cuts[0], self._cuts[-1]
        reads = read_rate(follower)
        limited = bool(reads and bounds.max_events_per_s and reads >= BOUND_USED * bounds.max_events_per_s)
        left = sum(max(0, offset - follower.newest.source_cut.offset(place)) for place, offset in cut)
        comes = cut.records_since(first) / (last_s - first_s) if last_s > first_s else 0.0
        return Progress(left, reads, comes, follower.promoting, limited)
