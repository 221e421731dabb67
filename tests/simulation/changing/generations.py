"""Generations of one region's world that compute different things: who asks for them, and who has which file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cutwater.adapters.topics.candidates import parent_of
from cutwater.adapters.topics.generation_jobs import working_for
from cutwater.client.values import Change
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.generations.candidates import Candidate
from cutwater.core.job.job import TOMBSTONE, Job
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.operations.generations.claims import Claims
from cutwater.operations.generations.redefinition import Redefined
from cutwater.operations.generations.requests import GenerationRequest
from simulation.changing.checker import GONE, ChangingChecker
from simulation.changing.definitions import Definition
from simulation.changing.drivers import ChangingDriver
from simulation.disk import Disk
from simulation.generations import Generations
from simulation.heirs import HeirDisk
from simulation.job import GENERATION
from simulation.processes import Process
from simulation.spark import Habits

if TYPE_CHECKING:
    from simulation.world import World


class ChangingGenerations(Generations):
    """As `Generations`; a claim may carry a job file of its own."""

    def __init__(self, world: World, first: Definition) -> None:
        super().__init__(world)
        self._checker: ChangingChecker = world.checker  # type: ignore[assignment]
        self._by_files = {first.files: first}
        """All that were ever asked for."""

    def _begin(self, generation: Generation, candidate: Candidate) -> Habits:
        profile, own = self._world.profile, candidate.redefinition
        of = self._by_files[own.files] if own else self._definition(parent_of(candidate.claim).generation)
        from_ms = own.complete_from_ms if own else 0
        self._checker.begin_as(generation, HeirDisk(), candidate.claim, of, from_ms)
        return Habits(hints=profile.hints, job=of.job)

    def _definition(self, generation: Generation) -> Definition:
        return self._checker.definitions[generation]

    def deployed(self) -> Definition:
        """The job file that somebody has put on a machine: of any generation, before its promotion or after it."""
        self._notice()
        known = list(self._checker.definitions.values())
        return known[self._world.luck() % len(known)]

    def working(self, cluster: Any) -> tuple[Job, Job, Generation]:
        """The job file of a process that starts now, and what it works for as the services find it."""
        settings: Any = SimpleNamespace(
            cluster=cluster,
            region=GENERATION.region,
            generation=GENERATION,
            model_fields_set=frozenset(),
            model_copy=lambda update: SimpleNamespace(**{**vars(settings), **update}),
        )
        own = self.deployed().job if self._checker.truths else self._definition(GENERATION).job
        job, found = working_for(own, settings)
        return own, job, found.generation

    def reads(self, client: str) -> Job:
        """The job file of a client that starts now."""
        self._checker.reads[client] = of = self.deployed()
        return of.job

    def shown(self, milestone: Milestone, rows: Iterable[Mapping[str, Any]]) -> dict[Any, Any]:
        """What a view shows, by window."""
        names = [one.name for one in self._definition(milestone.generation).measures]
        return {
            (row["key"], row["window_start"], row["window_end"]): {name: row[name] for name in names}
            for row in rows
        }

    def _make_driver(
        self, process: Process, disk: Disk, habits: Habits, clock: object, generation: Generation
    ) -> None:
        world, of = self._world, self._definition(generation)
        ChangingDriver(process, world.log, disk, world.events, habits, clock, generation, definition=of)

    def _request(self, luck: int) -> GenerationRequest | None:
        asked = super()._request(luck)
        if asked is None or not luck >> 16 & 1:
            return asked
        truths = self._checker.truths
        at = next(
            (one.milestone for one in truths if str(one.milestone.token) == asked.token), truths[-1].milestone
        )
        wanted, own = self._definition(at.generation).other(self._world.luck()), self.deployed()
        self._by_files[wanted.files] = wanted
        return asked._replace(redefined=Redefined(wanted.files, wanted.job, own.files, own.job))

    def claim(self) -> None:
        """With the parent's job file, or with one that differs; asked for once more, or broken off and again."""
        luck = self._world.luck()
        asked = self._request(luck)
        if asked is None:
            return
        again = asked._replace(another=False)
        what = "rollback" if asked.rewinds else "claim"
        if luck >> 16 & 1 and asked.redefined:
            self._world.faults[f"{what} of another definition"] += 1
        calls = luck >> 20 & 63
        if 0 < calls < 24:
            self._ask(f"{what} broken off", self._claiming(asked), calls)
            self._ask(f"{what} again", self._claiming(again))
        else:
            self._ask(what, self._claiming(asked))
            if luck >> 26 & 1:
                self._ask(f"{what} again", self._claiming(again))

    def _claiming(self, asked: GenerationRequest) -> Callable[[Claims], object]:
        return lambda claims: claims.ask(asked, UNREPLICATED, lambda planned: claims.require_kept(planned.claim))


def changed_rows(changes: Iterable[Change]) -> dict[Any, Any]:
    """What a client is given, by window."""
    return {
        (one.key, one.window_start_ms, one.window_end_ms): GONE if one.kind == TOMBSTONE else dict(one.values)
        for one in changes
    }
