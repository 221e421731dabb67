"""How many events come in each second: a spike, or a day of real flights."""

from __future__ import annotations

import numpy as np

from benchmarks.latency.load import Plan
from cutwater.demo import flights

SPIKE_FACTOR, SPIKE_S = 10, 8
WARM_S, TAIL_S = 20, 3
SPIKE, FLIGHTS = "spike", "flights"
"""The profiles."""


def spike(rate: int, seconds: int) -> tuple[int, ...]:
    """`rate` events in each second, and ten times as many from a third of the time on."""
    found = [rate] * seconds
    first = seconds // 3
    found[first : first + SPIKE_S] = [SPIKE_FACTOR * rate] * SPIKE_S
    return tuple(found)


def day_of_flights(rate: int, seconds: int) -> tuple[int, ...]:
    """The departures and arrivals of New York's second day of 2013, at the moments when they were, in so many
    seconds: each of them as so many events that `rate` come in a second on the mean."""
    moments = flights.events(2)["actual_at"].to_numpy()
    moments = moments[moments >= moments[0] + 86_400_000]
    moments = moments[moments < moments[0] + 86_400_000]
    second = (moments - moments[0]) * seconds // 86_400_000
    counts = np.bincount(second, minlength=seconds) * rate * seconds // len(moments)
    return tuple(max(1, int(one)) for one in counts)


def plan_of(profile: tuple[int, ...], seed: int) -> Plan:
    """The profile between a warm-up and a tail at its first second's pace."""
    first = profile[0]
    warm, tail = (first,) * WARM_S, (first,) * TAIL_S
    whole = (*warm, *profile, *tail)
    return Plan(sum(profile) // len(profile), sum(warm), sum(profile), sum(tail), seed, whole)
