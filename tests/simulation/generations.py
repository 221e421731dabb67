"""Generations of one region's world: who claims, promotes, gives up and prunes, and who works for which."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cutwater.adapters.avro import protocol_records
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.errors import CutwaterError, FencedError, UsageError
from cutwater.core.generations.candidates import Candidate, Candidates
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.topics import MIN_COMPACTION_LAG_MS
from cutwater.core.state.backlog import MARGIN_MS
from cutwater.operations.generations.claims import Claims
from cutwater.operations.generations.requests import GenerationRequest
from simulation.checker import FALSE_ALARM, STUCK, Anomaly
from simulation.clients import SimCluster
from simulation.disk import Disk
from simulation.heirs import HeirDisk, HeirDriver
from simulation.job import GENERATION, JOB
from simulation.processes import Process, SimEvent
from simulation.spark import Habits

if TYPE_CHECKING:
    from simulation.world import World

CLAIMS_MAX = 3
CALLS_MAX = 500
"""That a command makes."""
PARTITIONS_OF_HEIRS = (2, 3)
_decode = lru_cache(maxsize=2_000)(protocol_records.decode)


class Generations:
    """Of one history."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.log.lagging = topics.changelog_prefix(JOB.name)
        self.habits = {GENERATION: world.habits}

    # --- what is there

    def known(self) -> Candidates:
        found = Candidates()
        partition, position = self._world.log.topics[topics.candidates(JOB.name)][0], 0
        while (one := partition.next(position, committed=True)) is not None:
            position = one.offset + 1
            found = found.after(_decode(one.value))
        return found

    def _notice(self) -> None:
        """Generations that were claimed since: somebody works for them."""
        for generation, candidate in self.known().by_id.items():
            if generation not in self.habits:
                self.habits[generation] = self._begin(generation, candidate)

    def _begin(self, generation: Generation, candidate: Candidate) -> Habits:
        profile = self._world.profile
        self._world.checker.begin(generation, HeirDisk(), candidate.claim)
        return Habits(profile.retries, hints=profile.hints, job=self._world.job)

    @property
    def promoted(self) -> Generation:
        """By the commit stream as it is now."""
        checker = self._world.checker
        checker.look_at_stream()
        return checker.truths[-1].milestone.generation if checker.truths else GENERATION

    def slots(self, part: str) -> list[str]:
        """Of drivers or signals, one per generation."""
        self._notice()
        return [slot_of(part, one) for one in self.habits]

    def is_over(self, slot: str) -> bool:
        """May nobody work there any more?"""
        generation = generation_of(slot)
        if generation == self.promoted:
            return False
        candidate = self.known().by_id.get(generation)
        return generation.number < self.promoted.number or candidate is None or not candidate.open

    # --- processes

    def start_driver(self, process: Process, generation: Generation) -> None:
        world = self._world
        disk, habits = world.checker.disks[generation], self.habits[generation]
        self._make_driver(process, disk, habits, world.clock(process.slot), generation)

    def _make_driver(
        self, process: Process, disk: Disk, habits: Habits, clock: object, generation: Generation
    ) -> None:
        HeirDriver(process, self._world.log, disk, self._world.events, habits, clock, generation)

    def start_signal(self, process: Process, generation: Generation) -> None:
        """It looks for promotions by a clock of its own, which goes on whenever it is asked."""
        world, cluster = self._world, SimCluster(self._world.log, process)
        seconds = [0.0]

        def clock_s() -> float:
            seconds[0] += 0.3
            return seconds[0]

        signal = world.services.signal(
            cluster,  # type: ignore[arg-type]
            JOB.name,
            generation,
            world.clock(process.slot),
            world.silent,
            clock_s=clock_s,
            sleep=lambda _: process.pause(),
            event=lambda: SimEvent(process),  # type: ignore[arg-type, return-value]
        )
        process.spawn(signal.run)

    # --- what somebody asks for, at once

    def claim(self) -> None:
        asked = self._request(self._world.luck())
        if asked is not None:
            token, partitions, rewinds = asked.token, asked.partitions, asked.rewinds
            self._ask(
                "rollback" if rewinds else "claim",
                lambda claims: claims.start(token, partitions, rewinds, "by luck", UNREPLICATED),
            )

    def _request(self, luck: int) -> GenerationRequest | None:
        """A generation begins with the newest milestone, or with an older one to which the job goes back."""
        truths = self._world.checker.truths
        if not truths or len(self.habits) > CLAIMS_MAX:
            return None
        rewinds = luck % 3 == 0 and len(truths) > 1
        token = str(truths[max(0, len(truths) - 2 - (luck >> 4) % 3)].milestone.token) if rewinds else None
        partitions = PARTITIONS_OF_HEIRS[(luck >> 8) % len(PARTITIONS_OF_HEIRS)]
        return GenerationRequest(token, partitions, rewinds, "by luck", another=True)

    def promote(self) -> None:
        self._ask_for("promote", lambda claims, which: claims.promote(which))

    def abort(self) -> None:
        self._ask_for("abort", lambda claims, which: claims.abort(which, "by luck"))

    def prune(self) -> None:
        """The changelogs of generations before the promoted one are deleted, whoever still reads them."""
        log = self._world.log
        for one in [one for one in self.habits if one.number < self.promoted.number]:
            if topics.changelog(JOB.name, one) in log.topics:
                log.delete(topics.changelog(JOB.name, one))
                self._world.faults["changelog pruned"] += 1

    def _ask_for(self, what: str, ask: Callable[[Claims, Generation], None]) -> None:
        """Mostly of the newest candidate."""
        found = [one for one, at in self.known().by_id.items() if at.open and one.number > self.promoted.number]
        if found:
            which = found[-1 - (self._world.luck() % 4 == 0 and len(found) > 1)]
            self._ask(what, lambda claims: ask(claims, which))

    def _ask(self, what: str, run: Callable[[Claims], object], calls_max: int = 0) -> None:
        """`calls_max`: somebody breaks it off after so many calls; 0: nobody does."""
        log, process = self._world.log, Process("ask", self._world.luck)
        cluster: Any = SimCluster(log, process)
        claims = Claims(cluster, self._world.job, "local", lambda: log.now_ms)
        process.spawn(lambda: run(claims) and None)
        for _ in range(calls_max or CALLS_MAX):
            if not process.alive:
                break
            if not process.run() and log.markers:
                log.write_marker(0)
        if process.alive and calls_max:
            process.kill()
            self._world.faults[what] += 1
            return
        if process.alive:
            process.kill()
            raise Anomaly(STUCK, f"{what} does not come to its end")
        if process.error is not None and not isinstance(process.error, CutwaterError):
            raise process.error
        self._world.faults[f"{what} refused" if process.error else what] += 1

    # --- what may end

    def may_end(self, slot: str, error: CutwaterError) -> bool:
        """Does the process of a slot end for good, and rightly?"""
        if isinstance(error, FencedError) and slot == "reader":
            return True  # the changelog of another generation is another reader's
        if slot.partition(" ")[0] not in ("driver", "signal"):
            return False
        if isinstance(error, UsageError) and " " in slot and slot.startswith("driver"):
            self._require_reason(slot, error)
            return True
        if not isinstance(error, FencedError):
            return False
        # The stream may have lost the milestone that a candidate was started from, or contradict itself since.
        astray = self._world.checker.broken or generation_of(slot) != self.promoted
        return self.is_over(slot) or (self._world.rotten and astray)

    def _require_reason(self, slot: str, error: UsageError) -> None:
        """A parent's state is refused if compaction may have overtaken it, or if its changelog has lost records or
        was deleted."""
        parent = self._world.checker.parent_of(generation_of(slot))
        old = self._world.log.now_ms - parent.written_ms > MIN_COMPACTION_LAG_MS - 3 * MARGIN_MS
        changelog = topics.changelog(JOB.name, parent.generation)
        if not old and changelog in self._world.log.topics and changelog not in self._world.lossy:
            raise Anomaly(FALSE_ALARM, f"{slot} has refused its parent's state: {error}")


def slot_of(part: str, generation: Generation) -> str:
    return part if generation == GENERATION else f"{part} {generation}"


def generation_of(slot: str) -> Generation:
    name = slot.partition(" ")[2]
    return Generation.parse(name) if name else GENERATION
