"""Two that act at once: one does all of its work between any two calls of the other's.

Each history is of a job with a promoted generation, whose commit-signal runs. The services' own code acts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.operations.generations.claims import Claims
from cutwater.operations.regions.failover import release
from simulation.clients import SimCluster
from simulation.job import GENERATION, JOB
from simulation.processes import Process
from simulation.promotions import Promotions

CALLS_MAX = 400
EPOCHS = 2

Act = Callable[["Meeting", Any, Claims], object]
"""What somebody does, with his cluster and his claims."""


class Meeting(Promotions):
    """One history: a promoted generation with milestones, and who is asked for."""

    def __init__(self) -> None:
        super().__init__(1)
        self.luck.set(1)
        self.log.create(topics.changelog(JOB.name, GENERATION), 2)
        self.settle(lambda: len(self.stream()) >= EPOCHS - 1)

    def settle(self, done: Callable[[], bool] = lambda: False, turns: int = 12) -> None:
        """Let all signallers work, until `done` or for so many turns of 0.7 s."""
        for _ in range(turns):
            if done():
                return
            self.log.now_ms += 700
            self._markers()
            for slot in self._slots():
                self.go(self.live, slot, 40)

    def drive(self, generation: Generation = GENERATION) -> None:
        """An epoch of a generation, which reads all there is."""
        self.drivers.write(generation, 0)

    def begin(self, act: Act) -> Process:
        process = Process("ask", self.luck)
        cluster: Any = SimCluster(self.log, process)
        claims = Claims(cluster, JOB, "local", lambda: self.log.now_ms)
        process.spawn(lambda: act(self, cluster, claims) and None)
        return process

    def act(self, act: Act) -> BaseException | None:
        """Somebody acts, and nobody else meanwhile."""
        return self.finish(self.begin(act))

    def finish(self, process: Process) -> BaseException | None:
        """Let somebody come to his end; return his error."""
        for _ in range(CALLS_MAX):
            self._markers()
            if not process.alive:
                return process.error
            process.run()
        raise AssertionError("it does not come to its end")

    def _markers(self) -> None:
        while self.log.markers:
            self.log.write_marker(0)


class Met(NamedTuple):
    world: Meeting
    first: BaseException | None
    second: BaseException | None
    note: object
    """What stood there when the second one came to the end."""


Second = Callable[[Meeting], "BaseException | None"]


def nothing(_world: Meeting) -> None:
    pass


def meetings(
    first: Act,
    second: Second,
    prepare: Callable[[Meeting], object] = nothing,
    note: Callable[[Meeting], object] = nothing,
) -> Iterator[Met]:
    """Yield each history in which the second one acts between two calls of the first one."""
    for calls in range(CALLS_MAX):
        world = Meeting()
        prepare(world)
        process = world.begin(first)
        for _ in range(calls):
            world._markers()
            process.run()
            if not process.alive:
                return
        error = second(world)
        noted = note(world)
        yield Met(world, world.finish(process), error, noted)
    raise AssertionError("it does not come to its end")


def start(world: Meeting, _cluster: Any, claims: Claims) -> Generation:
    claim = claims.start(None, None, False, "by hand", UNREPLICATED, lambda _: None)
    world.drive(claim.generation)
    return claim.generation


def start_and_promote(world: Meeting, cluster: Any, claims: Claims) -> None:
    claims.promote(start(world, cluster, claims))


def newest(world: Meeting) -> Generation:
    return list(world.known().by_id)[-1]


def ask_for_newest(world: Meeting, _cluster: Any, claims: Claims) -> None:
    claims.promote(newest(world))


def begin(world: Meeting) -> None:
    assert world.act(start) is None


def begin_and_ask(world: Meeting) -> None:
    assert world.act(start_and_promote) is None


def is_promoted(world: Meeting) -> bool:
    return world.stream()[-1].generation != GENERATION


def promote(world: Meeting) -> None:
    """Its commit-signal comes to it."""
    world.settle(lambda: is_promoted(world))


def give_away(world: Meeting, cluster: Any, _claims: Claims) -> None:
    release(cluster, JOB, "local", "eu", lambda: world.log.now_ms)
