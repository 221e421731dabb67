"""Runs that a recorded one could have been: its blocks of time in another order, at other costs and rates."""

from __future__ import annotations

import random

from support.cadence.trace_file import Cost, Run, trace_of
from support.cadence.traces import Trace

BLOCKS_S = (10, 20, 30, 45)
COSTS, RATES = (0.7, 1.3), (0.6, 1.3)
"""By so much all costs and all rates are scaled. The product of both hardly fills the driver."""
OF_BLOCK = (0.85, 1.15)
"""By so much those of each block besides."""


def varied(run: Run, seed: int) -> Trace:
    """The run in another order. Equal seeds give equal traces."""
    chance, lasts_s = random.Random(seed), len(run.events)
    block_s = chance.choice(BLOCKS_S)
    begins = list(range(0, lasts_s, block_s))
    chance.shuffle(begins)
    cost, rate = chance.uniform(*COSTS), chance.uniform(*RATES)
    events, costs = list[float](), list[Cost]()
    for begin in begins:
        end = min(begin + block_s, lasts_s)
        of_cost, of_rate = cost * chance.uniform(*OF_BLOCK), rate * chance.uniform(*OF_BLOCK)
        costs += [
            Cost(len(events) + one.at_s - begin, one.fixed_s * of_cost, one.event_s * of_cost)
            for one in _costs(run, begin, end)
        ]
        events += [one * of_rate for one in run.events[begin:end]]
    return trace_of(f"variation {seed}", Run(events, costs))


def _costs(run: Run, begin_s: float, end_s: float) -> list[Cost]:
    """Those of a block; the first one is in force from its beginning."""
    before = [one for one in run.costs if one.at_s <= begin_s][-1:] or run.costs[:1]
    inside = [one for one in run.costs if begin_s < one.at_s < end_s]
    return [before[0]._replace(at_s=begin_s), *inside]
