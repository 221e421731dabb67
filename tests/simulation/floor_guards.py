"""The guards of windows that close by a floor, of events that amend them, and of late replays that open them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from cutwater.adapters.topics.candidates import candidates, promoted
from cutwater.core.driver.lateness import ByFloor
from cutwater.core.generations.late_replay import Opening, opening
from cutwater.core.generations.start_state import StartState
from cutwater.core.job.job import Job
from cutwater.core.protocol.cuts import NOWHERE, EpochPlan, Range
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone, Reopening
from cutwater.operations.generations import late_replay
from cutwater_spark.epoch.decoding_choice import Decodings
from simulation import regional
from simulation.checker import FELL, LOST_WRITE, PARTIAL, REOPENED, UNCOUNTED, WRONG_LIST
from simulation.holes import both, off
from simulation.region_guards import RegionGuard
from simulation.region_histories import Season

_choose = Decodings.choose
_reopened, _start_state = StartState.reopened, regional.start_state
_horizon_at = StartState.horizon_at


def nothing_closed(self: ByFloor, plan: EpochPlan, before: EpochPlan | None) -> Range:
    return Range(before.source_cut if before else self.origin.source_cut, plan.source_cut, 0)


def no_floor_at_first(self: Decodings, begun: int | None) -> Any:
    """As if neither checkpoint nor barriers told of one, until a cleaning raises it."""
    decoding, last = _choose(self, begun)
    return (decoding if decoding.cleans else decoding.closing(0)), last


_OLD = {"old": 6.0, "age": 1.0, "events": 8.0, "prune": 0.0, "resync": 0.0, "anew": 0.0}


def not_held(self: StartState, reopening: Reopening | None) -> StartState:
    """A cleaning may raise the floor as soon as it is worth its cost."""
    return replace(_reopened(self, reopening), held_cut=NOWHERE)


@contextmanager
def forgotten_by_the_next() -> Iterator[None]:
    """Only the first driver of a generation reads the record."""
    begun: set[Generation] = set()

    def state(cluster: Any, job: Job, generation: Generation, parent: Milestone, watermark_ms: int) -> StartState:
        again = generation in begun
        begun.add(generation)
        found = _start_state(cluster, job, generation, parent, watermark_ms)
        return StartState.of(parent, True).raised(watermark_ms, True) if again else found

    with patch.object(regional, "start_state", state):
        yield


def of_whoever_asked_last(
    cluster: Any, job: Job, _generation: Generation, parent: Milestone, watermark_ms: int
) -> StartState:
    """Any generation opens what the newest record says."""
    found = [one.reopening for one in candidates(cluster, job.name).by_id.values() if one.reopening]
    state = StartState.of(parent, True).raised(watermark_ms, True)
    return state.reopened(found[-1] if found else None)


def of_every_window(*asked: Any) -> Opening:
    return opening(*asked)._replace(floor_ms=0)


def no_floor_below(self: StartState, watermark_ms: int, retention_ms: int, *before: Any) -> int:
    """The horizon follows the watermark, whatever may still come."""
    return _horizon_at(self, watermark_ms, retention_ms, *before[:1])


def the_newest(cluster: Any, job: str, _events: Any) -> Milestone | None:
    return promoted(cluster, job)


_MANY = {
    **{"operator:replay": 5.0, "operator:promote": 5.0, "old": 14.0, "age": 5.0},
    **{"run:driver": 40.0, "run:ask": 15.0, "run:signal": 20.0, "run": 6.0},
    **dict.fromkeys(("prune", "resync", "anew", "retention", "leap", "link:cut", "link:slow", "failover"), 0.0),
}
"""Little else happens."""


_CATCHING_UP = {"events": 18.0}
"""So much that a generation needs several epochs, and a cleaning is due between them."""


def _season(more: dict[str, float] | None = None, steps: int = 350) -> Season:
    return Season({"claims": 0, "amends": True, "starts": 4}, {**_MANY, **(more or {})}, steps)


_WRONG = frozenset({UNCOUNTED, WRONG_LIST, REOPENED, FELL})

FLOOR_GUARDS = (
    RegionGuard(
        "events below the floor are late",
        "windows whose rows the state has evicted, counted from zero",
        "I2",
        off(ByFloor, "range", nothing_closed),
        Season({"claims": 0, "amends": True}, _OLD),
        frozenset({REOPENED, WRONG_LIST, PARTIAL, LOST_WRITE}),
    ),
    RegionGuard(
        "a floor outlives its driver",
        "a driver that counts below the floor of the one before",
        "I2",
        off(Decodings, "choose", no_floor_at_first),
        Season({"claims": 0, "amends": True}, {**_OLD, "kill:driver": 6.0}),
        frozenset({REOPENED, WRONG_LIST, PARTIAL, LOST_WRITE, FELL}),
    ),
    RegionGuard(
        "a late replay holds the floor",
        "a cleaning, while a generation catches up, of windows whose late events it has still to read",
        "I2",
        off(StartState, "reopened", not_held),
        _season(_CATCHING_UP),
        _WRONG,
    ),
    RegionGuard(
        "every driver reads which windows are open again",
        "late events that are late again, since another driver goes on with the generation",
        "I2",
        forgotten_by_the_next,
        _season({**_CATCHING_UP, "kill:driver": 2.0, "run:driver": 60.0}, 500),
        _WRONG,
    ),
    RegionGuard(
        "open windows are of the generation that claimed them",
        "an ordinary generation that counts for windows which its parent had closed",
        "I2",
        off(regional, "start_state", of_whoever_asked_last),
        _season({"operator:start": 1.5, "operator:rollback": 0.5}),
        _WRONG,
    ),
    RegionGuard(
        "no window opens below the horizon",
        "late events counted for windows whose rows the state has no more",
        "I2",
        off(late_replay, "opening", of_every_window),
        _season(),
        _WRONG,
    ),
    RegionGuard(
        "the horizon waits for the floor",
        "windows that readers and the changelog drop, and for which late events are still to come",
        "I2",
        off(StartState, "horizon_at", no_floor_below),
        _season(),
        _WRONG,
    ),
    RegionGuard(
        "a late replay begins before the oldest event",
        "a generation that is told to count late events, and never reads them",
        "I2",
        lambda: both(off(late_replay, "_newest_before", the_newest), off(late_replay, "require_before")),
        _season(),
        _WRONG,
    ),
)
