"""Whoever comes back asks the other region: what it is told, held against what stands there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.topics.candidates import origin_parent
from cutwater.core.errors import FencedError
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Heartbeat, Milestone
from cutwater.operations.regions.rejoin import RejoinCheck
from simulation.clients import SimCluster
from simulation.job import JOB
from simulation.processes import Process

if TYPE_CHECKING:
    from simulation.regions import Regions

T = TypeVar("T")
MIN_AGE_MS = 10_000
"""A job that was silent for longer waits for an answer."""


def gone_on_with(world: Regions, name: str, generation: Generation) -> set[Generation]:
    """With which generations the other region has gone on from here, which the line of `generation` does not hold.

    Empty for one that goes on from there itself and has committed nothing.
    """
    world.lines.look()
    there = world.other(name).name
    claims = {one.generation: one for region in world.by_name for one in world.lines.claims(region)}
    mine, promoted = claims.get(generation), world.lines.promoted(there)
    if mine is not None and mine.origin and generation not in world.lines.promoted(name):
        return set()
    line, at = [generation], generation
    while at in claims:
        at = origin_parent(claims[at]).generation
        line.append(at)
    taken_back = max((one.number for one in line if one.region == there), default=0)
    return {
        one.claim.generation
        for one in world.known(world.by_name[there]).by_id.values()  # what a reader may see
        if one.claim.origin == name and (one.open or one.claim.generation in promoted)
        if one.claim.generation.number > taken_back
    }


class Asking(RejoinCheck):
    """As it runs; a process that goes on although it should not is remembered by the checker."""

    def __init__(self, world: Regions, process: Process, name: str) -> None:
        self._world, self._process, self._name = world, process, name
        self._link = world.links[name]
        own: Any = SimCluster(world.by_name[name].log, process)
        there: Any = SimCluster(world.other(name).log, process, self._link)
        other = world.other(name).name
        super().__init__(
            own,
            JOB,
            name,
            other,
            there,
            MIN_AGE_MS,
            now_ms=lambda: world.now_ms,
            clock_s=lambda: world.now_ms / 1000,
            ask_s=0.0,
        )

    def await_answer(
        self,
        generation: Generation,
        stop: threading.Event,
        log: Any,
        waiting: Callable[[bool], None] = lambda _now: None,
    ) -> bool:
        world, faults = self._world, self._world.faults

        def told(now: bool) -> None:
            faults["waits for the other region"] += now
            waiting(now)

        heard_ms = self._heard_ms()
        silent = not heard_ms or world.now_ms - heard_ms >= MIN_AGE_MS
        passed = self._held(
            generation,
            lambda: super(Asking, self).await_answer(generation, stop, log, told),
            "leaves: gone on elsewhere",
            lambda: silent and self._heard_ms() == heard_ms,
        )
        faults["goes on"] += 1
        return passed

    def check_again(self, generation: Generation, log: Any) -> None:
        self._held(
            generation, lambda: super(Asking, self).check_again(generation, log), "leaves: gone on meanwhile"
        )

    def _held(
        self, generation: Generation, ask: Callable[[], T], leaves: str, all_the_same: Callable[[], bool] = bool
    ) -> T:
        """Against what stood there before and behind the question, where it was answered, or `all_the_same`."""
        world = self._world
        cut, cuts = self._link.cut, world.cuts
        stood = gone_on_with(world, self._name, generation)
        try:
            told = ask()
        except FencedError:
            world.faults[leaves] += 1
            raise
        against = stood & gone_on_with(world, self._name, generation)
        if against and ((not cut and world.cuts == cuts) or all_the_same()):
            world.lines.astray[self._process] = f"{self._process.slot} goes on beside {sorted(map(str, against))}"
        return told

    def _heard_ms(self) -> int:
        """Of the newest word on the commit stream here."""
        found = 0
        for one in self._world.by_name[self._name].log.committed((topics.milestones(JOB.name), 0)):
            told = protocol_records.decode(one.value or b"")
            if isinstance(told, Milestone | Heartbeat):
                found = told.at_ms if isinstance(told, Heartbeat) else told.committed_ms
        return found
