"""Promotions under crashes: commit-signals of several generations, and people who promote and give up.

Run by seeds like the other histories. Whatever is killed, stalled or told twice, the commit stream is one chain,
of one generation at a time, and no candidate is promoted that was given up or that had not caught up. Some seeds
lose tails of the topics: then the same holds of what still stands, and whoever does not go on says why.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from random import Random
from typing import Any

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics.candidates import parent_of
from cutwater.commit_signal.signaller import CommitSignal
from cutwater.core.errors import CutwaterError, FencedError, HeldUpError, UnavailableError, UsageError
from cutwater.core.generations.candidates import Candidates
from cutwater.core.protocol import topics
from cutwater.core.protocol.chain import ChainFault
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier, Claim, Committed, Milestone, Promotion
from cutwater.core.protocol.stream_audit import check
from cutwater.operations.generations.claims import Claims
from cutwater.operations.generations.requests import GenerationRequest
from simulation.checker import Anomaly
from simulation.clients import SimCluster
from simulation.job import GENERATION, JOB
from simulation.log import Log, Outcome
from simulation.processes import Process, Several, SimEvent
from simulation.world import START_MS, _Silent

TOPICS = (topics.barriers(JOB.name), topics.milestones(JOB.name), topics.candidates(JOB.name))
BROKEN = "the commit stream is broken"
ASKS = ("start", *["promote"] * 6, "abort", "rollback")
HOLDS = (*["hold"] * 3, "release", "force")
HOLD_MS = 30_000
LONG_HOLD_MS = 7_200_000
"""Longer than a history."""
EPOCH_EVENTS = 10


_decode = lru_cache(maxsize=2_000)(protocol_records.decode)


class Drivers:
    """One per generation, each as far as it has come: barriers of an epoch, and that it is committed."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._epochs: Counter[Generation] = Counter()
        self.ahead = 0
        """Events there are."""

    def write(self, generation: Generation, first: int) -> None:
        """The next epoch, which reads all that there is; the first one ends at `first` at least."""
        epoch = self._epochs[generation]
        self._epochs[generation] += 1
        self.ahead += EPOCH_EVENTS
        end = max(first, self.ahead)
        cut = Cut.of_topic(JOB.topic, [end, end])
        told = Barrier(
            job=JOB.name,
            generation=generation,
            attempt=1,
            epoch=epoch,
            source_cut=cut,
            changelog_cut=Cut.of_topic(topics.changelog(JOB.name, generation), [epoch + 1, epoch + 1]),
            watermark_ms=end,
            horizon_ms=0,
            rows=2,
            digest=5,
            events=1,
            rejected=0,
            late=0,
            skew_ms=0,
            schema_fingerprint="ab",
            definition="cd",
            epoch_started_ms=1,
            written_ms=self._log.now_ms,
            partition_rows=(2, 0),
            partition_digests=(5, 0),
        )
        for one in (told, Committed(JOB.name, generation, 1, epoch, self._log.now_ms)):
            self._log.append((topics.barriers(JOB.name), 0), None, protocol_records.encode(one))


class Promotions(Several):
    """One history. `step` does the next thing that luck wants; `check` looks at all that stands there."""

    def __init__(self, seed: int, tails: bool = False, holds: bool = False) -> None:
        """`tails`: logs lose their ends. `holds`: promotions are held, most of them for half a minute at most."""
        super().__init__()
        self.random = Random(seed)
        self.log = Log(START_MS)
        for topic in TOPICS:
            self.log.create(topic, 1)
        self._tails = tails
        self._asks = ASKS + HOLDS if holds else ASKS
        self.lost: set[str] = set()
        """Topics that have lost their end, or were made again."""
        self._unaware: set[object] = set()
        """Processes that ran when the stream lost its end: they may have looked just before."""
        self._claims: dict[Generation, Claim] = {}
        self._asked: set[Generation] = set()
        """Claims and promotions that stood there once."""
        self._broken, self._lost_at = False, 0
        self.said: list[str] = []
        """Why somebody ended who is no mere victim of the brokers."""
        self.drivers = Drivers(self.log)
        self.faults: Counter[str] = Counter()
        self._checked = -1
        self.given_up: set[Generation] = set()
        """By who was told that it is."""
        for _ in range(2):
            self.drivers.write(GENERATION, 0)

    def step(self) -> None:
        self.luck.set(self.random.getrandbits(48))
        self.log.now_ms += self.random.choice((1, 200, 700, 3_000))
        kind = self.random.choices(
            ("run", "marker", "driver", "ask", "kill", "stall", "wake", "timeout", "unknown", "lose"),
            (70, 20, 6, 2, 0.4, 0.4, 1, 1, 0.4, 0.5 * self._tails),
        )[0]
        getattr(self, f"_{kind}")()
        self.check()

    def drain(self, turns: int = 120) -> None:
        """Everybody may work on, and nobody is killed any more: somebody writes the stream in the end.

        `turns`: how many there are until then, each of 0.7 s.
        """
        before, said = len(self.stream()), len(self.said)
        if self.lost:
            self.left.clear()  # it may have been because of what is lost since: an operator starts them again
        for turn in range(turns):
            self.luck.set(self.random.getrandbits(48))
            self.log.now_ms += 700
            for _ in range(3):
                self._marker()
            if turn % 4 == 0:
                self._timeout()
                self._driver()
            if self.lost and turn == 40:  # who waits for what is lost gives up after a bounded time
                for slot in list(self.live):
                    self.live.pop(slot).kill()
            for slot in self._slots() * 4:
                self._go(self.live, slot)
            for slot in list(self.stalled):  # one that stood still may be the one that has the place
                self._go(self.stalled, slot)
            self.check()
        if len(self.stream()) <= before and not (self.lost and len(self.said) > said):
            raise Anomaly("nobody writes the stream", f"{len(self.stream())} milestones; left: {self.left}")

    # --- what is there

    def _decoded(self, topic: str) -> list[Any]:
        """What readers may see: nothing behind a transaction whose marker is lost."""
        partition = self.log.topics[topic][0]
        return [
            _decode(one.value)
            for one in partition.records
            if one.value is not None and (one.transaction is None or one.transaction.outcome is Outcome.COMMITTED)
            if one.offset < partition.stable_end
        ]

    def stream(self) -> list[Milestone]:
        return [one for one in self._decoded(topics.milestones(JOB.name)) if isinstance(one, Milestone)]

    def known(self) -> Candidates:
        found = Candidates()
        for one in self._decoded(topics.candidates(JOB.name)):
            found = found.after(one)
        return found

    def _slots(self) -> list[str]:
        """Who may run."""
        generations = {GENERATION: None, **dict.fromkeys(self.known().by_id)}
        if self.lost:  # a claim may be lost, and its generation's milestones are not
            generations |= {one.generation: None for one in self.stream()}
        signals = [f"signal {one}" for one in generations]
        asks = [one for one in self.live if one.startswith("ask")]
        return [one for one in (*signals, *asks) if one not in self.left]

    def check(self) -> None:
        """Raises Anomaly."""
        if self._checked == self.log.version:
            return
        self._checked = self.log.version
        stream, order = self.stream(), self._decoded(topics.candidates(JOB.name))
        self._claims |= {one.generation: one for one in order if isinstance(one, Claim)}
        self._asked |= {one.generation for one in order if isinstance(one, Promotion)}
        found = self._chain_faults()
        if found and not self._may_be_broken(found[0].sequence):
            raise Anomaly(BROKEN, str(found[0]))
        before: Milestone | None = None
        for one in () if self._broken else stream:
            if before is not None and one.generation != before.generation:
                self._check_first(one, before)
            before = one

    def _chain_faults(self) -> list[ChainFault]:
        return check([(one, protocol_records.encode(one)) for one in self.stream()])

    def _may_be_broken(self, sequence: int) -> bool:
        """Whoever ran when the stream lost its end may have looked just before, and have written once behind it.

        Every reader says so, and is shown nothing behind it. The writer sees it before he writes more.
        """
        begun: dict[object, object] = {}
        for record in self.log.topics[topics.milestones(JOB.name)][0].records:
            writer = record.transaction.owner if record.transaction else None
            if record.marker or record.serial <= self._lost_at or writer not in self._unaware:
                continue
            told = _decode(record.value or b"")
            first = begun.setdefault(writer, record.transaction)
            if record.transaction is not first:
                return False
            self._broken |= isinstance(told, Milestone) and told.sequence == sequence
        return self._broken

    def _check_first(self, first: Milestone, last: Milestone) -> None:
        claim = self._claims[first.generation]
        if first.rewinds_to != claim.rewinds_to:
            raise Anomaly("a promotion says what it is not", str(first.token))
        if not claim.rewinds_to and not first.source_cut.covers(last.source_cut):
            raise Anomaly("a candidate was promoted that had not caught up", str(first.token))
        if not claim.rewinds_to and parent_of(claim).generation != last.generation:
            raise Anomaly("a candidate was promoted that is of another line", str(first.token))
        if first.generation not in self._asked:
            raise Anomaly("a candidate was promoted that nobody asked for", str(first.token))
        if first.generation in self.given_up:
            raise Anomaly("a candidate was promoted that was given up", str(first.token))

    # --- what happens

    def _run(self) -> None:
        slots = self._slots()
        if not slots and self.lost:
            return
        if not slots:
            raise Anomaly("everybody has left", f"{self.left}")
        self._go(self.live, slots[self.luck() % len(slots)])

    def _go(self, where: dict[str, Process], slot: str) -> None:
        self.go(where, slot, 1 + self.luck() % 8)

    def ended(self, slot: str, error: BaseException | None, was_stalled: bool) -> None:
        if self.lost and isinstance(error, CutwaterError):
            self.said.append(f"{slot}: {error}")
        if isinstance(error, FencedError) and not was_stalled and slot not in self.stalled:
            self.faults["left as fenced"] += 1
            if slot.startswith("signal"):
                self.left[slot] = str(error)
        elif error is not None and not isinstance(error, CutwaterError):
            raise error
        elif self.lost and error is not None:
            self.faults[f"told: {type(error).__name__}"] += 1  # it is started again
        elif error is not None and not isinstance(
            error, FencedError | HeldUpError | UnavailableError | UsageError
        ):
            raise Anomaly("a signaller stopped", f"{slot}: {error}")

    def start(self, slot: str) -> None:
        process = Process(slot, self.luck)
        cluster: Any = SimCluster(self.log, process)
        signal = CommitSignal(
            cluster,
            JOB.name,
            Generation.parse(slot.removeprefix("signal ")),
            lambda: self.log.now_ms,
            _Silent(),
            clock_s=lambda: self.log.now_ms / 1000,
            sleep=lambda _s: None,  # an open transaction stays open while this process waits
            event=lambda: SimEvent(process),
        )
        process.spawn(signal.run)
        self.live[slot] = process

    def _ask(self) -> None:
        """Somebody wants something of a generation."""
        slot, what = f"ask {self.log.version}", self.random.choice(self._asks)
        generations = list(self.known().by_id)
        process = Process(slot, self.luck)
        cluster: Any = SimCluster(self.log, process)
        claims = Claims(cluster, JOB, "local", lambda: self.log.now_ms)
        which = generations[self.luck() % len(generations)] if generations else None
        token = self._older() if what == "rollback" else None
        again = self.log.version % 2 == 0  # of an earlier claim, if there is one

        def run() -> None:
            if what == "abort" and which:
                claims.abort(which, "by luck")
                self.given_up.add(which)
            elif what == "promote" and which:
                claims.promote(which)
            elif what in HOLDS and generations:
                self._hold(claims, what, generations[-1])
            elif (what == "start" and len(generations) < 6) or token:
                writer = TransactionalWriter(cluster, topics.claims_id(JOB.name))
                writer.initialise()
                asked = (token, None, what == "rollback", "by luck")
                claim = claims.planned(GenerationRequest(*asked)).claim if again else claims.plan(*asked)
                writer.write(topics.candidates(JOB.name), [protocol_records.encode(claim)])

        process.spawn(run)
        self.faults[what] += 1
        self.live[slot] = process

    def _hold(self, claims: Claims, what: str, which: Generation) -> None:
        if what == "hold":
            for_ms = LONG_HOLD_MS if self.luck() % 4 == 0 else 1 + self.luck() % HOLD_MS
            claims.hold(which, for_ms, "by luck", "")
        elif what == "release":
            claims.release(which, "by luck", "")
        else:
            claims.promote(which, despite_hold_by="by luck")
        self.faults[f"{what} done"] += 1

    def _older(self) -> str | None:
        stream = self.stream()
        return str(stream[self.luck() % len(stream)].token) if stream else None

    def _driver(self) -> None:
        known = self.known()
        promoted = {one.generation for one in self.stream()}  # also one that was given up too late
        generations = [GENERATION, *(one for one, at in known.by_id.items() if at.open or one in promoted)]
        chosen = generations[self.luck() % len(generations)]
        first = parent_of(known.by_id[chosen].claim).source_cut.entries[0][1] if chosen in known.by_id else 0
        self.drivers.write(chosen, first)

    def _marker(self) -> None:
        if self.log.markers:
            self.log.write_marker(self.luck())

    def _timeout(self) -> None:
        self.log.time_out()

    def _lose(self) -> None:
        """A topic loses its end, all of them at once do, or somebody makes one again."""
        which = self.luck() % 5
        if which == 3:
            self.faults["power lost"] += 1
            for topic in TOPICS:
                self._lose_tail(topic, 1 + self.luck() % max(1, self.log.topics[topic][0].end))
        elif which == 4:
            topic = TOPICS[self.luck() % 3]
            self.faults["made again"] += 1
            self.log.delete(topic)
            self.log.create(topic, 1)
            self._note_loss(topic)
        else:
            end = self.log.topics[TOPICS[which]][0].end
            self.faults[f"lost tail of {TOPICS[which]}"] += 1
            self._lose_tail(TOPICS[which], 1 + self.luck() % (4 if self.luck() % 2 else max(1, end)))

    def _lose_tail(self, topic: str, records: int) -> None:
        if self.log.lose_tail((topic, 0), max(0, self.log.topics[topic][0].end - records)):
            self._note_loss(topic)

    def _note_loss(self, topic: str) -> None:
        self.lost.add(topic)
        if topic == topics.milestones(JOB.name):
            self._broken = self._broken and bool(self._chain_faults())  # an earlier one may still be there
            self._lost_at = self.log.version
            self._unaware |= {*self.live.values(), *self.stalled.values()}
        if topic == topics.candidates(JOB.name):
            # Nobody can know any more what was withdrawn there.
            known = self.known().by_id
            self.given_up = {one for one in self.given_up if one in known and not known[one].open}

    def _kill(self) -> None:
        if self.live:
            slot = list(self.live)[self.luck() % len(self.live)]
            self.faults["kill"] += 1
            self.live.pop(slot).kill()

    def _stall(self) -> None:
        slots = [one for one in self.live if one not in self.stalled]
        if slots:
            slot = slots[self.luck() % len(slots)]
            self.stalled[slot] = self.live.pop(slot)
            self.faults["stall"] += 1

    def _wake(self) -> None:
        if self.stalled:
            self._go(self.stalled, list(self.stalled)[self.luck() % len(self.stalled)])

    def _unknown(self) -> None:
        if self.live:
            self.live[list(self.live)[self.luck() % len(self.live)]].lose_next_answer = True


def play(seed: int, steps: int, tails: bool = False, holds: bool = False) -> Promotions:
    """Raises Anomaly, naming the seed."""
    world = Promotions(seed, tails, holds)
    try:
        for _ in range(steps):
            world.step()
        world.drain()
    except Anomaly as found:
        raise Anomaly(found.kind, f"{found} (seed {seed}, {steps} steps)") from found
    return world
