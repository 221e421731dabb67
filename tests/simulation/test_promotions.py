"""Histories of promotions: nobody is promoted who may not be, and somebody always goes on."""

from __future__ import annotations

from collections import Counter

import pytest

from cutwater.adapters.topics.own_writes import OwnLog
from simulation.checker import Anomaly
from simulation.holes import off
from simulation.promotions import BROKEN, TOPICS, play

SEEDS, STEPS = 12, 400
FIRST = 7
"""The seeds before it are known to show nothing without the look."""


@pytest.mark.variations
@pytest.mark.parametrize("seeds", [range(SEEDS), range(SEEDS, 8 * SEEDS)], ids=["first", "others"])
def test_no_history_of_promotions_breaks_the_stream(seeds: range) -> None:
    """And the faults happened; generations followed each other, by promotion and by rollback."""
    faults, followed = Counter[str](), 0
    for seed in seeds:
        world = play(seed, STEPS)
        faults += world.faults
        followed += len({one.generation for one in world.stream()}) - 1
    assert {"kill", "stall", "promote", "abort", "rollback", "left as fenced"} <= faults.keys()
    assert followed >= len(seeds) // 3


@pytest.mark.variations
@pytest.mark.parametrize("seeds", [range(SEEDS), range(SEEDS, 16 * SEEDS)], ids=["first", "others"])
def test_no_history_of_promotions_that_loses_tails_promotes_who_may_not_be(seeds: range) -> None:
    """Commit-signals hand over and roll back while all topics lose their ends: right, or somebody says why."""
    faults = Counter[str]()
    for seed in seeds:
        faults += play(seed, STEPS, tails=True).faults
    wanted = {"power lost", "made again", "promote", "rollback", "told: LostRecordsError"}
    assert wanted | {f"lost tail of {topic}" for topic in TOPICS} <= faults.keys()


def test_a_signaller_that_does_not_look_at_its_own_log_breaks_the_stream() -> None:
    """Without the look a history with lost tails goes wrong, and with it the same is right."""
    for seed in range(FIRST, FIRST + 2 * SEEDS):
        with off(OwnLog, "require")():
            found = anomaly_of(seed)
        if found is not None:
            assert found.kind == BROKEN
            assert anomaly_of(seed) is None
            return
    pytest.fail(f"{2 * SEEDS} histories without the look, and nothing went wrong")


def anomaly_of(seed: int) -> Anomaly | None:
    try:
        play(seed, STEPS, tails=True)
    except Anomaly as found:
        return found
    return None
