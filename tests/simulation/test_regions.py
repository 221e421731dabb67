"""Histories of two regions from seeds: what has arrived is whole (I5), and losses are what is told of them (I6).

CUTWATER_REGION_SEEDS sets how many; `python -m simulation --regions --seed 17` repeats one, shrunken if it fails.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from simulation.fetching import WIRE, SimFetcher
from simulation.floor_guards import FLOOR_GUARDS
from simulation.hole_search import SEEDS_MAX, first_shown
from simulation.log import Log
from simulation.processes import Luck, Process
from simulation.region_guards import CLAIMED, REGION_GUARDS, RESYNCED, RegionGuard
from simulation.region_histories import Season, anomaly_of, explain, history_of, play
from simulation.running import run_seeds
from simulation.tail_guards import TAIL_GUARDS
from simulation.truncations import KINDS
from simulation.world import START_MS

_GUARDS = [*REGION_GUARDS, *TAIL_GUARDS, *FLOOR_GUARDS]
SEEDS = int(os.environ.get("CUTWATER_REGION_SEEDS", "24"))
STEPS = 500
RARE_SEEDS, RARE_SEEDS_MAX = 300, 1_500
"""Among so many histories each fault happens; the rarest ones in some hundreds more."""
HAPPENED = (
    *(f"kill {part}" for part in ("mirror", "driver", "signal")),
    *(f"zombie {part}" for part in ("mirror", "driver", "signal")),
    *(f"unknown {part}" for part in ("mirror", "driver", "signal")),
    *("link cut", "link slow", "compacted", "positions compacted", "fenced mirror", "passed over"),
    "damaged answer",
    *(
        "failover",
        "switchover",
        "leaves: gone on elsewhere",
        "waits for the other region",
        "gone on",
        "loss of events",
        "arrival",
        "late",
        "resync done",
        "retention",
        "prune",
        "safe time",
        "read of a claimed one",
    ),
)

RARE = (
    "kill ask",
    "transaction timed out",
    "late elsewhere",
    "made anew",
    "stopped: lost",
    *(f"lost tail: {kind}" for kind in KINDS),
    # Late lists are short, and often empty.
    *(f"{loss}: {kind}" for loss in ("lost much", "made again") for kind in KINDS if kind != "lists"),
    "lost power",
    *(f"told {part}" for part in ("ask", "driver", "mirror", "reader", "signal")),
    "stopped: anew",
    *("late replay", "late event counted"),
)
"""Among a few hundred seeds. Failbacks are rarer; two of the guards are of them, in seasons of their own."""


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(RARE_SEEDS, marks=pytest.mark.slow)])
def test_no_history_of_two_regions_shows_what_is_wrong(seeds: int) -> None:
    """Arrivals, both commit streams, safe times and losses, against the events; and the faults happened."""
    happened, milestones = Counter[str](), 0
    failures: list[tuple[int, str]] = []
    wanted = HAPPENED + (RARE if seeds >= RARE_SEEDS else ())
    for first in range(0, RARE_SEEDS_MAX if seeds >= RARE_SEEDS else seeds, seeds):
        for outcome in run_seeds(range(first, first + seeds), STEPS, regions=True):
            happened += outcome.faults
            milestones += outcome.milestones
            failures += outcome.failures
        assert not failures, explain(failures[0][0], STEPS) + f"\nseeds that failed: {failures[:20]}"
        assert milestones > 4 * (first + seeds)
        if all(happened[one] for one in wanted):
            break
    assert not [one for one in wanted if not happened[one]]


@pytest.mark.slow
@pytest.mark.parametrize("season", [RESYNCED, CLAIMED], ids=["between-failovers", "asked-at-once"])
def test_copies_that_are_begun_anew_again_and_again(season: Season) -> None:
    """Killed at any call, beside mirrors that come back, other tries and claims: one in a hundred went wrong."""
    found = {seed: anomaly_of(*history_of(seed, season=season)) for seed in range(4 * SEEDS)}
    assert not {seed: str(one) for seed, one in found.items() if one is not None}


def test_a_seed_of_two_regions_tells_the_same_history_again() -> None:
    """Two runs leave the same bytes on every partition of both."""

    def bytes_of(seed: int) -> list[tuple[object, ...]]:
        world = play(*history_of(seed, 300))
        return [
            (name, place, one.offset, one.key, one.value, one.time_ms)
            for name, region in world.by_name.items()
            for place, records in region.log.kept.items()
            for one in records
        ]

    assert bytes_of(5) == bytes_of(5)


def test_a_fetcher_brings_nothing_of_another_topic_of_the_name() -> None:
    """As brokers answer whoever fetches by the identity."""
    log = Log(START_MS)
    log.create("events", 1)
    log.append(("events", 0), b"k", b"old")
    fetcher = SimFetcher(log, Process("fetch", Luck()), WIRE, "events", log.identities["events"])
    for anew in (False, True):
        fetcher.assign({0: 0})
        assert any(fetcher.take(0.0) for _ in range(20)) != anew
        log.create("events", 1)
        log.append(("events", 0), b"k", b"new")


@pytest.mark.parametrize("guard", _GUARDS, ids=lambda guard: guard.name.replace(" ", "-"))
def test_without_the_guard_a_history_of_two_regions_goes_wrong(guard: RegionGuard) -> None:
    """The hole shows as an anomaly of the expected kind; with the guard the same history is right."""
    shown = first_shown(guard)
    assert shown is not None, f"{SEEDS_MAX:,} histories without '{guard.name}', and nothing went wrong"
    assert shown.without.kind in guard.anomalies, f"seed {shown.seed}: {shown.without}"
    assert shown.beside is None, f"seed {shown.seed} fails with the guard, too"
