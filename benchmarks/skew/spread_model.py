"""A model of what spreading hot keys does to a drain: simulated cores over estimated costs. No Spark, no broker.

    python -m benchmarks.skew.spread_model --exponent 1.5 --partitions 4

The machine here has two cores, so what four cores do cannot be measured on it. Each epoch is two stages, as Spark
runs them: a task for each source partition, whose time is its events times the estimated cost of an event; then
tasks for each shuffle partition, whose time is their rows times the cost of a row. Rows are distinct keys: events
of a key are combined in each task before the shuffle. A stage ends with its last task, so the fullest partition
bounds it. The costs are those of `cutwater.core.sizing.machine`, which `cutwater calibrate` measures. Which keys
are spread, and over how many partitions, is what `cutwater skew` recommends for the same events.

Limits: memory bandwidth, garbage collection, the broker and the network cost nothing here, and cores are as fast
together as alone. So the figure is an upper bound of the gain. It holds where the tasks of the source are the
bottleneck.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutwater.core.sizing.machine import Machine
from cutwater.core.skew.recommendations import SPREAD, HotKey, SkewFacts, recommend
from cutwater.core.skew.spread_plan import Placement, home_partition, spread_partitions, with_key

HEAVIEST = 100


@dataclass(frozen=True)
class Drain:
    """A modelled drain. Times in seconds."""

    seconds: float
    fullest: float
    """The fullest source partition's share of the events."""
    spread: tuple[str, ...]


def zipf_keys(events: int, keys: int, exponent: float, seed: int) -> list[str]:
    chance = random.Random(seed)
    weights = [1 / (rank + 1) ** exponent for rank in range(keys)]
    return [f"key-{one}" for one in chance.choices(range(keys), weights, k=events)]


def makespan(tasks: Sequence[float], cores: int) -> float:
    """Return when the last task ends, if each core takes the next task in order, as Spark's scheduler does."""
    free = [0.0] * cores
    for one in tasks:
        heapq.heappush(free, heapq.heappop(free) + one)
    return max(free)


def plan_of(keys: Sequence[str], partitions: int) -> Mapping[str, tuple[int, ...]]:
    """Return the partitions of the keys that the policy recommends to spread."""
    counts = Counter(keys)
    load = [0] * partitions
    for key, many in counts.items():
        load[home_partition(key.encode(), partitions)] += many
    hot = tuple(HotKey(*one) for one in counts.most_common(HEAVIEST))
    found: dict[str, tuple[int, ...]] = {}
    for one in recommend(SkewFacts(tuple(load), hot, {}, (1,) * 64, 4)):
        if one.kind == SPREAD and one.key is not None and one.over is not None:
            chosen = spread_partitions(one.key, one.over, load)
            for number in chosen:
                load[number] += counts[one.key] // len(chosen)
            load[home_partition(one.key.encode(), partitions)] -= counts[one.key]
            found[one.key] = chosen
    return found


def drain(
    keys: Sequence[str],
    partitions: int,
    cores: int,
    spread: Mapping[str, tuple[int, ...]],
    machine: Machine,
    epoch_events: int,
    shuffle_partitions: int,
) -> Drain:
    """Return the drain of these events, by the keys in the order of sending."""
    plan = None
    for key, chosen in spread.items():
        plan = with_key(plan, "model", key, chosen, partitions, "model", "", 0)
    placement = Placement(plan, partitions)
    lanes: list[list[str]] = [[] for _ in range(partitions)]
    for key in keys:
        at = placement.partition(key.encode())
        lanes[home_partition(key.encode(), partitions) if at is None else at].append(key)
    # Spark divides an epoch's events over the partitions by what is left in each.
    epochs = max(1, -(-len(keys) // epoch_events))
    seconds = 0.0
    for number in range(epochs):
        parts = [lane[len(lane) * number // epochs : len(lane) * (number + 1) // epochs] for lane in lanes]
        rows = Counter(hash_of(key) % shuffle_partitions for key in set().union(*parts))
        reads = [len(part) * machine.event_us / 1e6 for part in parts]
        writes = [rows[at] * machine.row_us / 1e6 for at in range(shuffle_partitions)]
        seconds += makespan(reads, cores) + makespan(writes, cores) + machine.epoch_wall_ms / 1_000
    return Drain(seconds, max(map(len, lanes)) / len(keys), tuple(spread))


def hash_of(key: str) -> int:
    return home_partition(key.encode(), 1 << 30)


def compare(
    exponent: float, partitions: int, cores: int, events: int, keys: int, seed: int, machine: Machine
) -> tuple[Drain, Drain]:
    """Return the drain without and with the recommended plan."""
    made = zipf_keys(events, keys, exponent, seed)
    plan = plan_of(made, partitions)
    alone, spread = (
        drain(made, partitions, cores, one, machine, 1_000_000, shuffle_partitions=cores) for one in ({}, plan)
    )
    return alone, spread


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--exponent", type=float, default=1.5)
    arguments.add_argument("--partitions", type=int, default=4)
    arguments.add_argument("--cores", type=int, default=4)
    arguments.add_argument("--events", type=int, default=1_000_000)
    arguments.add_argument("--keys", type=int, default=10_000)
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--event-us", type=float, default=Machine().event_us, help="CPU time of one event")
    given = arguments.parse_args()
    machine = Machine(event_us=given.event_us)
    for seed in range(given.seeds):
        alone, spread = compare(
            given.exponent, given.partitions, given.cores, given.events, given.keys, seed, machine
        )
        print(
            json.dumps(
                {
                    "seed": seed,
                    "seconds": round(alone.seconds, 3),
                    "fullest": round(alone.fullest, 3),
                    "spread_seconds": round(spread.seconds, 3),
                    "spread_fullest": round(spread.fullest, 3),
                    "keys": spread.spread,
                    "gain": round(alone.seconds / spread.seconds, 2),
                    "gain_of_reading": round(alone.fullest / spread.fullest, 2),
                }
            )
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
