"""The guards of windows that close by a floor, which events between it and the watermark amend."""

from __future__ import annotations

from typing import Any

from cutwater.core.driver.lateness import ByFloor
from cutwater.core.protocol.cuts import EpochPlan, Range
from cutwater_spark.epoch.decoding_choice import Decodings
from simulation.checker import LOST_WRITE, PARTIAL, REOPENED, WRONG_LIST
from simulation.holes import off
from simulation.region_guards import RegionGuard
from simulation.region_histories import Season

_choose = Decodings.choose


def nothing_closed(self: ByFloor, plan: EpochPlan, before: EpochPlan | None) -> Range:
    return Range(before.source_cut if before else self.origin.source_cut, plan.source_cut, 0)


def no_floor_at_first(self: Decodings, begun: int | None) -> Any:
    """As if neither checkpoint nor barriers told of one, until a cleaning raises it."""
    decoding, last = _choose(self, begun)
    return (decoding if decoding.cleans else decoding.closing(0)), last


_OLD = {"old": 6.0, "age": 1.0, "events": 8.0, "prune": 0.0, "resync": 0.0, "anew": 0.0}

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
        frozenset({REOPENED, WRONG_LIST, PARTIAL, LOST_WRITE}),
    ),
)
