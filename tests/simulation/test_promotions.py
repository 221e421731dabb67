"""Histories of promotions: nobody is promoted who may not be, and somebody always goes on."""

from __future__ import annotations

from collections import Counter

from simulation.promotions import play

SEEDS, STEPS = 24, 400


def test_no_history_of_promotions_breaks_the_stream() -> None:
    """And the faults happened; generations followed each other, by promotion and by rollback."""
    faults, followed = Counter[str](), 0
    for seed in range(SEEDS):
        world = play(seed, STEPS)
        faults += world.faults
        followed += len({one.generation for one in world.stream()}) - 1
    assert {"kill", "stall", "promote", "abort", "rollback", "left as fenced"} <= faults.keys()
    assert followed >= SEEDS // 3
