"""The promotion of a candidate: its own commit-signal promotes it, once it is requested and allowed.

Only the commit stream's transactional id decides between two signallers. A promotion is one record, written with
that id after the newest milestone, which is read after fencing. So a signaller that is killed or too slow leaves
exactly one promoted generation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.runtime.crash_points import reach
from cutwater.adapters.topics.candidates import candidacy, origin_parent, parent_of, promoted
from cutwater.adapters.topics.commit_stream import Tail
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.core.errors import FencedError, UnavailableError, UsageError
from cutwater.core.generations.candidates import (
    Candidate,
    Candidates,
    goes_back_to,
    promotion_delay,
    promotion_obstacle,
)
from cutwater.core.generations.holds import active_hold, hold_text
from cutwater.core.pacing.schedules import closed_text
from cutwater.core.protocol import topics
from cutwater.core.protocol.commit import SignalState, promote
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone

LOOK_S = 0.5


class Promoted(NamedTuple):
    state: SignalState
    writer: TransactionalWriter
    replaced: Generation
    """The generation that it has replaced."""


class CandidatePromotion:
    """Follows the requests for one candidate, and promotes it."""

    def __init__(
        self,
        cluster: Cluster,
        job: str,
        generation: Generation,
        now_ms: Callable[[], int],
        log: Any,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._job = job
        self._generation = generation
        self._now_ms = now_ms
        self._log = log
        self._clock_s = clock_s
        self._tail = Tail(cluster, topics.candidates(job))
        self._known = Candidates()
        self._writer: TransactionalWriter | None = None
        self._looked_s = float("-inf")
        self._waits = ""

    def close(self) -> None:
        self._tail.close()

    def look(self, state: SignalState, at_once: bool) -> Promoted | None:
        """Promote the candidate if that is requested and allowed. `at_once`: it has a new milestone. Raise
        FencedError if it can never be promoted: it was given up, or another generation was promoted first; raise
        LostRecordsError if its logs have lost records."""
        now = self._clock_s()
        if not at_once and now - self._looked_s < LOOK_S:
            return None
        self._looked_s = now
        candidate = self._read_candidate()
        if not candidate.promoting:
            return None
        try:
            return self._promote(state, candidate)
        except FencedError as error:
            if self._writer is None:
                raise
            # Another signaller fenced this one: the old generation's, or a withdrawal of this one. Check again.
            self._log.warning("held back", reason=str(error))
            self._writer = None
            return None

    def _read_candidate(self) -> Candidate:
        for record in self._tail.to_end():
            self._known = self._known.after(candidacy(record))
        candidate = self._known.require(self._generation)
        if candidate.withdrawn is not None:
            raise FencedError(f"{self._generation} was given up: {candidate.withdrawn}")
        return candidate

    def _promote(self, state: SignalState, candidate: Candidate) -> Promoted | None:
        if held := self._held(candidate):
            self._wait_for(held)
            return None
        last = self._last(state, candidate)
        if last is None:
            return None
        if self._writer is None:
            self._require_kept(state.last)  # before the promoted generation's signaller is fenced
            self._writer = TransactionalWriter(self._cluster, topics.signal_id(self._job))
            self._writer.initialise()
            reach("stream-taken")
            # What the fenced signaller wrote is final now, and so is a withdrawal of this candidate.
            candidate, last = self._read_candidate(), self._last(state, candidate)
            if last is None:
                return None
        state, first = promote(
            state, last, goes_back_to(candidate.claim, last), self._now_ms(), protocol_records.hash_of
        )
        self._writer.write(topics.milestones(self._job), [protocol_records.encode(first)])
        reach("promoted")
        self._log.info("promoted", token=str(first.token), behind=str(last.token), epoch=first.epoch)
        return Promoted(state, self._writer, last.generation)

    def _held(self, candidate: Candidate) -> str:
        """Return why the promotion is held or outside of its windows; empty if it is neither. Once the stream is
        taken it does not wait: the promoted generation's signaller is fenced then, and nobody would commit."""
        if self._writer:
            return ""
        hold = active_hold(candidate, self._now_ms())
        return hold_text(hold) if hold else closed_text(candidate, self._now_ms())

    def _wait_for(self, reason: str) -> None:
        if reason and not self._waits:
            self._log.info("waiting to be promoted", reason=reason)
        self._waits = reason

    def _require_kept(self, newest: Milestone | None) -> None:
        """Raise LostRecordsError if records below the candidate's cuts are lost: no reader could follow it."""
        if newest is None:
            return
        cut = newest.source_cut.and_(newest.changelog_cut)
        try:
            LogCheck(self._cluster).require(newest.evidence, cut, f"epoch {newest.epoch} of {newest.generation}")
        except UsageError as error:
            # A resync deletes a copy and creates it again, and takes the candidate back or leaves it.
            raise UnavailableError(f"{self._generation} is not promoted yet: {error}") from None

    def _last(self, state: SignalState, candidate: Candidate) -> Milestone | None:
        """Return the milestone that the candidate follows: the stream's newest, or its parent. None: wait."""
        last = promoted(self._cluster, self._job)
        if last and last.generation == self._generation:
            raise UnavailableError(
                f"{self._generation} was promoted by an earlier run of this process: it continues after a restart"
            )
        why = promotion_obstacle(candidate, parent_of(candidate.claim), last)
        if why is not None:
            self._writer = None
            raise FencedError(why)
        waits = promotion_delay(state.last, candidate.claim, last) or ""
        self._wait_for(waits)
        return None if waits else (last or origin_parent(candidate.claim))
