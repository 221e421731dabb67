"""What to do about the load of a job: spread keys, more partitions, or nothing. A pure policy.

Theory of operation. Each partition of the source is read by one task, so the fullest one bounds a backlog's drain;
the aggregation after it is combined before the shuffle, where a hot key is one row for each task. The policy looks
for the fullest source partition, and asks which key makes it so. If there is one, spreading helps. If many small
keys meet in one partition by chance, spreading does not help, and more partitions do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.job.shards import ShardMap
from cutwater.core.skew.spread_plan import home_partition

SPREAD, UNSPREAD, SOURCE, CHANGELOG, NOTHING = (
    *("spread", "unspread", "source-partitions", "changelog-partitions", "nothing"),
)
EVENTS_MIN = 1_000
"""With fewer events nothing is recommended: their distribution is chance."""
FULL = 1.25
"""A source partition with so many times the mean is too full."""
EVEN = 1.05
"""Once something is done, keys are spread until the fullest has no more than so many times the mean."""
FULL_ROWS = 1.5
"""The same for the changelog, where a partition bounds a restore, and which only a generation changes."""
HOT_SHARE = 0.25
"""A key with so much of a partition's fair share may be spread."""
COOL_SHARE = 0.1
"""A spread key with less may be put together again. Below `HOT_SHARE`, so that no key goes back and forth."""
GAIN_MIN = 0.05
"""How much less the fullest partition must get by a step."""
KEYS_MAX = 10
"""Keys recommended at a time."""


class HotKey(NamedTuple):
    key: str
    events: int


@dataclass(frozen=True)
class SkewFacts:
    """What the policy knows."""

    source: tuple[int, ...]
    """Records by source partition."""
    keys: tuple[HotKey, ...]
    """The heaviest keys, with the events that are sure; empty if the job does not count events."""
    spread: Mapping[str, tuple[int, ...]]
    """Partitions by key of the plan in force."""
    shard_rows: tuple[int, ...]
    partitions: int
    """Of the changelog."""
    obstacles: tuple[str, ...] = ()
    """Why no key of the job may be spread."""
    counts_events: bool = True


@dataclass(frozen=True)
class Recommendation:
    """One step. Both fullness figures are the fullest partition by the mean: 1 is even."""

    kind: str
    reason: str
    key: str | None = None
    over: int | None = None
    """Source partitions of the key; for more partitions, their number."""
    fullness: float = 0.0
    expected: float = 0.0
    """The fullness after this step and those before it."""


def recommend(facts: SkewFacts) -> tuple[Recommendation, ...]:
    """Return the steps in the order in which to take them; a single one of kind nothing if there are none."""
    found = (*_for_source(facts), *_for_cool_keys(facts), *_for_changelog(facts))
    return found or (_nothing(facts),)


def fullness(loads: Sequence[float]) -> float:
    """Return the fullest by the mean; 0 without load."""
    total = sum(loads)
    return max(loads) * len(loads) / total if total > 0 else 0.0


def best_spread(loads: Sequence[float], home: int, events: float) -> tuple[int, list[float]]:
    """Return over how many partitions to spread a key, and the load after it: the fewest that are nearly best.

    `events`: those of the key, all of them in `home`.
    """
    tried = [_spread(loads, home, events, over) for over in range(2, len(loads) + 1)]
    least = min(map(max, tried))
    over, after = next((over, one) for over, one in enumerate(tried, 2) if max(one) <= least * (1 + GAIN_MIN))
    return over, after


def _spread(loads: Sequence[float], home: int, events: float, over: int) -> list[float]:
    after, part = list(loads), events / over
    after[home] -= events - part
    others = sorted((at for at in range(len(loads)) if at != home), key=lambda at: (loads[at], at))
    for at in others[: over - 1]:
        after[at] += part
    return after


def _for_source(facts: SkewFacts) -> list[Recommendation]:
    loads = list(map(float, facts.source))
    if sum(loads) < EVENTS_MIN or fullness(loads) <= FULL:
        return []
    fair, found = sum(loads) / len(loads), list[Recommendation]()
    for one in [] if facts.obstacles else facts.keys:
        home = home_partition(one.key.encode(), len(loads))
        fits = one.key not in facts.spread and HOT_SHARE * fair <= one.events <= loads[home]
        if not fits or len(found) == KEYS_MAX or fullness(loads) <= EVEN:
            continue
        over, after = best_spread(loads, home, one.events)
        if max(after) <= max(loads) * (1 - GAIN_MIN):
            now, loads = fullness(loads), after
            why = f"it has {one.events / sum(loads):.0%} of the events, all in source partition {home}"
            found.append(Recommendation(SPREAD, why, one.key, over, now, fullness(loads)))
    return found or [_more_source(facts, loads)]


def _more_source(facts: SkewFacts, loads: Sequence[float]) -> Recommendation:
    now, at = fullness(loads), max(range(len(loads)), key=lambda one: loads[one])
    if facts.obstacles:
        why = f"source partition {at} is the fullest, and no key may be spread: {facts.obstacles[0]}"
    elif not facts.counts_events:
        why = f"source partition {at} is the fullest; the job has no count of events, so no key can be named"
    else:
        why = f"source partition {at} is the fullest, and no single key makes it so"
    return Recommendation(SOURCE, why, None, 2 * len(loads), now, 0.0)


def _for_cool_keys(facts: SkewFacts) -> list[Recommendation]:
    total, events = sum(facts.source), {one.key: one.events for one in facts.keys}
    if total < EVENTS_MIN or not facts.counts_events or not facts.keys:
        return []
    # A key that is not among the heaviest has no more than the last of them.
    least = min(events.values())
    cool = COOL_SHARE * total / len(facts.source)
    now = fullness(facts.source)
    return [
        Recommendation(UNSPREAD, "it has few events now, and its order by partition costs more", key, 1, now, now)
        for key in sorted(facts.spread)
        if events.get(key, least) < cool
    ]


def _for_changelog(facts: SkewFacts) -> list[Recommendation]:
    shards, rows = len(facts.shard_rows), facts.shard_rows
    if sum(rows) < EVENTS_MIN:
        return []
    now = _rows_by_partition(rows, facts.partitions)
    if fullness(now) <= FULL_ROWS:
        return []
    for many in range(facts.partitions + 1, min(4 * facts.partitions, shards) + 1):
        after = _rows_by_partition(rows, many)
        if max(after) <= 0.75 * max(now):
            why = f"partition {max(range(len(now)), key=lambda at: now[at])} of the changelog gets most rows"
            return [Recommendation(CHANGELOG, why, None, many, fullness(now), fullness(after))]
    return []


def _rows_by_partition(rows: Sequence[int], partitions: int) -> list[int]:
    shards = ShardMap(len(rows), partitions)
    return [sum(rows[one] for one in shards.shards_of_partition(at)) for at in range(partitions)]


def _nothing(facts: SkewFacts) -> Recommendation:
    now = fullness(facts.source)
    if sum(facts.source) < EVENTS_MIN:
        return Recommendation(NOTHING, f"fewer than {EVENTS_MIN:,} records tell nothing", None, None, now, now)
    return Recommendation(NOTHING, "the source partitions are even enough", None, None, now, now)
