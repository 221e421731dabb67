"""The signaller: appends a milestone to the commit stream for each epoch that its driver has committed.

Every decision is in `cutwater.core.protocol.commit`; this file moves bytes. A milestone contains the service's own
input position: both are one record of one Kafka transaction, so they always agree.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from confluent_kafka import Consumer

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client import bounds, read_tail
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.long_lived_consumer import LongLivedConsumer
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.runtime.crash_points import reach
from cutwater.adapters.topics.candidates import candidates, parent_of, promoted
from cutwater.adapters.topics.commit_stream import last_record
from cutwater.adapters.topics.own_writes import OwnLog
from cutwater.commit_signal.broker_liveness import Brokers
from cutwater.commit_signal.metrics import Metrics
from cutwater.commit_signal.promotion import LOOK_S, CandidatePromotion
from cutwater.commit_signal.topic_records import signal_of, stream_record_of
from cutwater.core.errors import FencedError, LostRecordsError, UnavailableError
from cutwater.core.generations.candidates import Candidate, promotion_obstacle
from cutwater.core.generations.holds import active_hold
from cutwater.core.generations.start_state import is_claimed
from cutwater.core.protocol import topics
from cutwater.core.protocol.commit import SignalState, resume, step
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone, Release
from cutwater.core.protocol.recovery_log import StartRecord, unrecorded
from cutwater.operations.generations.first_generation import require_may_begin
from cutwater.operations.regions.rejoin import RejoinCheck

POLL_S = 0.1
GIVE_WAY_S = 30.0
"""The wait for the outcome of a promotion, before this signaller takes the stream back."""
GIVE_WAYS_MAX = 5
"""The limit without a record in between: the other may be a signaller of this generation, which gives way, too."""
PLACE_S = 5.0
"""The interval at which a signaller that writes nothing checks that its generation is still the promoted one."""
ENDED_MAX = 4
"""The number of earlier generations whose drivers are fenced."""


@dataclass
class Duty:
    """The state that a signaller took over, and where it writes."""

    state: SignalState
    writer: TransactionalWriter
    topic: str
    own_log: OwnLog | None = None
    """The check for lost records on the commit stream; None for a candidate, as others write there, too."""
    promoting: CandidatePromotion | None = None
    """The promotion of a candidate; None once its generation is the promoted one."""


class CommitSignal:
    """One signaller of one job. The transactional id lets at most one of them write."""

    def __init__(
        self,
        cluster: Cluster,
        job: str,
        generation: Generation,
        now_ms: Callable[[], int],
        log: Any,
        account: StartRecord | None = None,
        metrics: Metrics | None = None,
        clock_s: Callable[[], float] = time.monotonic,
        event: Callable[[], threading.Event] = threading.Event,
        sleep: Callable[[float], None] = time.sleep,
        beside: Collection[str] = (),
        returning: RejoinCheck | None = None,
    ) -> None:
        """`beside`: the regions whose copies here do not prevent a first generation. `returning`: the check with
        the other region, if one is configured."""
        self._cluster = cluster
        self._job = job
        self._generation = generation
        self._now_ms = now_ms
        self._log = log
        self._account = account or unrecorded()
        self._metrics = metrics or Metrics()
        self._clock_s, self._sleep = clock_s, sleep
        self._returning = returning
        self._stop = event()
        self._looked_s = clock_s()
        self._gave_way = 0
        self._beside = beside
        self._replaced: Generation | None = None
        """The one that was promoted before this one, if the end of the commit stream has it."""

    def stop(self, *_signal: object) -> None:
        self._stop.set()

    def run(self) -> None:
        """Run until stopped. Raise CutwaterError if the protocol or a newer signaller forbids it to continue."""
        topic = topics.barriers(self._job)
        brokers = Brokers(self._cluster, topic, self._log, self._metrics, self._now_ms, self._clock_s)
        read = LongLivedConsumer(self._cluster, topic, clock_s=self._clock_s, error_cb=brokers.on_error)
        try:
            while not self._stop.is_set():
                with self._account as start:
                    duty = self._take_over(read.consumer, start)
                if duty is None:
                    return
                # Without a position of its own it starts at the oldest record.
                read.begin({0: duty.state.position or bounds(read.consumer, topic, 0)[0]})
                try:
                    self._follow(read, duty, brokers)
                except FencedError:
                    if duty.promoting is not None or not self._await_promotion():
                        raise
                finally:
                    if duty.promoting is not None:
                        duty.promoting.close()
        finally:
            read.close()

    def _take_over(self, consumer: Consumer, start: StartRecord) -> Duty | None:
        """Return None if stopped before."""
        parent, before = self._read_start_state(consumer, start)
        if self._returning is not None:
            if not self._await_region(start, self._returning):
                return None
            parent, before = self._read_start_state(consumer, start)  # the wait may have taken days
        with start.step("fencing older signallers"):
            writer = TransactionalWriter(self._cluster, self._id(parent is not None))
            writer.initialise()
        if self._returning is not None:
            with start.step("asking the other region again, after fencing"):
                self._returning.check_again(self._generation, self._log)
        with start.step("reading the commit stream after fencing"):
            own_log = self._start_own_log() if parent is None else None
            state = self._read_state(consumer, parent)  # what the fenced signaller wrote is final now
        newest = state.last.token if state.last else "none"
        start.record_facts(milestone=newest, attempt=state.attempt, barriers_position=state.position)
        start.record_decision(f"continue after milestone {newest}, with the barriers from offset {state.position}")
        self._metrics.took(state, state.position - 1)
        self._log.info("ready", sequence=state.last.sequence if state.last else 0, was=before.position)
        if parent is None:
            self._end_others(self._replaced)
            return Duty(state, writer, topics.milestones(self._job), own_log)
        promoting = CandidatePromotion(
            self._cluster, self._job, self._generation, self._now_ms, self._log, self._clock_s
        )
        return Duty(state, writer, topics.candidates(self._job), promoting=promoting)

    def _start_own_log(self) -> OwnLog:
        stream = [TopicPartition(topics.milestones(self._job), 0)]
        own_log = OwnLog(self._cluster, stream, "commit-signal", self._sleep)
        own_log.begin()
        return own_log

    def _read_start_state(self, consumer: Consumer, start: StartRecord) -> tuple[Milestone | None, SignalState]:
        """Return a candidate's parent and the state. Raise, before fencing, if another generation is promoted."""
        with start.step("reading the commit stream"):
            parent = self._candidate()
            state = self._read_state(consumer, parent)
            if state.last is None:
                require_may_begin(self._cluster, self._job, self._generation, self._beside)
        return parent, state

    def _await_region(self, start: StartRecord, returning: RejoinCheck) -> bool:
        """Ask the other region, if one is configured: it may have taken over the job of an epoch prepared here.

        Return False if stopped during the wait. Raise FencedError if the other region has continued the job.
        """
        with start.step("asking the other region"):
            settled = returning.await_answer(self._generation, self._stop, self._log, self._metrics.set_asking)
        if not settled:
            start.stopped(UnavailableError("stopped while waiting for another region"))
        return settled

    def _id(self, candidate: bool) -> str:
        return topics.candidate_id(self._job, self._generation) if candidate else topics.signal_id(self._job)

    def _candidate(self) -> Milestone | None:
        """Return a candidate's parent. Raise FencedError if the candidate can never be promoted."""
        if not is_claimed(self._generation):
            return None
        last = promoted(self._cluster, self._job)
        if last and last.generation == self._generation:
            return None
        candidate = candidates(self._cluster, self._job).require(self._generation)
        parent = parent_of(candidate.claim)
        if why := promotion_obstacle(candidate, parent, last):
            raise FencedError(why)
        return parent

    def _read_state(self, consumer: Consumer, parent: Milestone | None) -> SignalState:
        if parent is not None:
            newest = candidates(self._cluster, self._job).require(self._generation).newest
            state = resume(self._job, self._generation, [newest] if newest else [], protocol_records.hash_of)
            return replace(state, begin=parent.barriers_position)
        values = read_tail(consumer, topics.milestones(self._job), 0, self._has_milestone)
        tail = [stream_record_of(value) for value in values]
        # Far behind its promotion the tail has no other generation: the one before was ended then.
        self._replaced = next((one.generation for one in tail[::-1] if one.generation != self._generation), None)
        return resume(self._job, self._generation, tail, protocol_records.hash_of)

    def _has_milestone(self, values: list[bytes]) -> bool:
        return any(isinstance(protocol_records.decode(value), Milestone) for value in values)

    def _end_others(self, replaced: Generation | None) -> None:
        """Fence the drivers of earlier generations. `replaced`: the one promoted before; None: unknown."""
        # The signaller that promoted this generation may have stopped before it fenced the earlier drivers.
        if not is_claimed(self._generation):
            return
        known = candidates(self._cluster, self._job)
        parent = parent_of(known.require(self._generation).claim).generation
        # After a failback the parent is of another region, and this region's first generation has no claim.
        first = Generation(1, self._generation.region)
        ended = {first, parent, replaced or parent, *known.earlier_generations(self._generation, ENDED_MAX)}
        for one in sorted(ended, key=str):
            TransactionalWriter(self._cluster, topics.driver_id(self._job, one)).initialise()
            self._log.info("ended", generation=str(one))

    def _await_promotion(self) -> bool:
        """Wait for a promotion that fenced this signaller. Return True to take the stream back."""
        self._gave_way += 1
        if self._gave_way > GIVE_WAYS_MAX:
            return False
        deadline = self._clock_s() + GIVE_WAY_S
        while self._clock_s() < deadline:
            last = promoted(self._cluster, self._job)
            if last is not None and last.generation != self._generation:
                return False
            known = candidates(self._cluster, self._job)
            if not known.contests(self._generation):
                return False
            if not self._promotes_now(known.promoting):
                return True
            if self._stop.wait(LOOK_S):
                return False
        return True

    def _promotes_now(self, asked: Candidate | None) -> bool:
        """Return False if the promotion was withdrawn, or is held.

        The signaller of a held candidate may have ended behind the fence, and its next one waits for the hold's
        end; one that lives is fenced, and waits too. That counts once since the last record: two clocks that
        disagree about a hold would take the stream from each other again and again.
        """
        if asked is None or asked.claim.generation.number <= self._generation.number:
            return False
        return self._gave_way > 1 or active_hold(asked, self._now_ms()) is None

    def _follow(self, read: LongLivedConsumer, duty: Duty, brokers: Brokers) -> None:
        while not self._stop.is_set():
            silent = True
            for message in read.read(POLL_S):
                silent = False
                brokers.heard()
                before = duty.state.last
                duty.state = self._take(duty, bytes(message.value()), message.offset())
                written = duty.state.last is not before
                self._look(duty, written)
                if self._stop.is_set():
                    return
                if written and duty.promoting is None:
                    self._looked_s = self._clock_s()  # on the stream, where only the promoted one can write
                else:
                    self._require_place(duty)
            if silent:
                duty.writer.listen()
                if brokers.check(read.consumer):
                    self._require_place(duty)
                self._look(duty)

    def _require_kept(self, duty: Duty) -> None:
        if duty.own_log is not None:
            duty.own_log.require(partial(self._require_last, duty))

    def _require_last(self, duty: Duty) -> None:
        """Raise LostRecordsError if the stream does not end with the newest milestone of this process."""
        if duty.state.last is None:
            return
        newest = promoted(self._cluster, self._job)
        if newest != duty.state.last:
            if newest is not None and newest.sequence > duty.state.last.sequence:
                raise FencedError(f"a newer commit-signal has written milestone {newest.token}: this one exits")
            found = newest.token if newest else "no milestone"
            raise LostRecordsError(
                f"{duty.topic}/0 ends with {found}, but milestone {duty.state.last.token} was written there: it "
                "has lost its end. Start commit-signal again: it reports from the barriers what is "
                "missing. Views and publishers that had read further report it"
            )

    def _require_promotion(self, duty: Duty) -> None:
        """Raise LostRecordsError if the stream has lost the promotion: the rest would be taken for all of it."""
        self._require_last(duty)

    def _require_place(self, duty: Duty) -> None:
        """Raise FencedError if another generation was promoted. Who writes nothing would not notice it otherwise:
        the topic may be silent, or have the barriers of that other generation.

        Called when the brokers have just answered; if they fail again, the next call repeats the check.
        """
        now = self._clock_s()
        if now - self._looked_s < PLACE_S:
            return
        self._looked_s = now
        try:
            self._require_kept(duty)
            last = last_record(self._cluster, topics.milestones(self._job))
        except UnavailableError:
            return
        if isinstance(last, Release) and duty.promoting is None:
            raise FencedError(f"the job was released to region {last.to} after milestone {last.token}")
        before = duty.promoting is not None and last and last.generation.number < self._generation.number
        if last is not None and last.generation != self._generation and not before:
            raise FencedError(f"generation {last.generation} was promoted at sequence {last.sequence}")

    def _look(self, duty: Duty, written: bool = False) -> None:
        """Continue on the commit stream once the candidate is promoted, at the same position of the barriers."""
        promoting = duty.promoting
        if promoting is None:
            return
        done = promoting.look(duty.state, written)
        if done is None:
            return
        duty.state, duty.writer, duty.topic, duty.promoting = (
            done.state,
            done.writer,
            topics.milestones(self._job),
            None,
        )
        duty.own_log = self._start_own_log()
        self._require_promotion(duty)
        promoting.close()
        self._end_others(done.replaced)

    def _take(self, duty: Duty, value: bytes, offset: int) -> SignalState:
        state, records = step(duty.state, signal_of(value), offset, self._now_ms(), protocol_records.hash_of)
        if duty.promoting is not None:
            records = [one for one in records if isinstance(one, Milestone)]  # a candidate needs no heartbeats
        if any(isinstance(record, Milestone) for record in records):
            reach("signal-read")
        if records:
            self._require_kept(duty)
            # If the outcome is unknown this raises, and a restart reads what the stream contains.
            duty.writer.write(duty.topic, [protocol_records.encode(record) for record in records])
            self._gave_way = 0
        self._metrics.took(state, offset)
        for record in records:
            self._metrics.wrote(record)
            if isinstance(record, Milestone):
                reach("milestone-written")
                self._log.info("milestone", token=str(record.token), epoch=record.epoch, rows=record.rows)
        return state
