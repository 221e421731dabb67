"""Hot keys, from answers of the rehydrator: its ranking by a count, the last census of the state, and the reads.

The first two are no record of load: the ranking counts the events of the windows that are kept, the census
measures bytes. The reads are those of the last minutes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from cutwater.core.job.job import Job

KEYS_MAX = 100
NO_COUNT = "The job has no measure of kind count, so the rehydrator cannot rank keys by their events."


def ranking_measure(job: Job) -> str | None:
    """Return the name of the measure that counts events; None if the job has none."""
    return next((one.name for one in job.measures if one.kind == "count" and not one.field), None) or next(
        (one.name for one in job.measures if one.kind == "count"), None
    )


def ranked(rows: Iterable[Mapping[str, Any]], measure: str, many: int = KEYS_MAX) -> list[dict[str, Any]]:
    """Return the keys of ranked rows by their largest sum over the windows, each with its windows' number."""
    sums: dict[str, int | float] = defaultdict(int)
    windows: dict[str, int] = defaultdict(int)
    newest: dict[str, Any] = {}
    for row in rows:
        key, value = str(row["key"]), row.get(measure)
        if isinstance(value, int | float) and not isinstance(value, bool):
            sums[key] += value
            windows[key] += 1
            newest[key] = max(newest.get(key, row["window_start"]), row["window_start"], key=str)
    all_of = sum(sums.values()) or 1
    best = sorted(sums, key=lambda key: (-sums[key], key))[:many]
    return [
        {
            "key": key,
            "value": sums[key],
            "per_mille": int(sums[key] * 1_000 / all_of),
            "windows": windows[key],
            "newest_window": newest[key],
        }
        for key in best
    ]


def largest(census: Mapping[str, Any] | None, many: int = KEYS_MAX) -> dict[str, Any] | None:
    """Return the largest keys of a census with their part of all bytes; None without a census."""
    if census is None:
        return None
    all_of = int(census.get("bytes") or 0) or 1
    return {
        "counted": census.get("counted"),
        "rows": census.get("rows"),
        "bytes": census.get("bytes"),
        "error_bytes": census.get("largest_keys_error_bytes"),
        "keys": [
            {"key": one["key"], "bytes": one["bytes"], "per_mille": one["bytes"] * 1_000 // all_of}
            for one in list(census.get("largest_keys") or ())[:many]
        ],
    }


def beside_reads(
    reads: Mapping[str, Any],
    ranking: Iterable[Mapping[str, Any]],
    census: Mapping[str, Any] | None,
    many: int = KEYS_MAX,
) -> list[dict[str, Any]]:
    """Return the most read keys, those with the most events, and the largest: each with all three, None if it is
    not among the first. The hottest first: by its place in the three lists."""
    found = {
        "reads": {one["key"]: one["reads"] for one in reads["keys"]},
        "events": {one["key"]: one["value"] for one in ranking},
        "bytes": {one["key"]: one["bytes"] for one in (census or {}).get("keys") or ()},
    }
    places: dict[str, float] = defaultdict(float)
    for values in found.values():
        for place, key in enumerate(sorted(values, key=lambda one: (-values[one], one)), 1):
            places[key] += 1 / place
    hottest = sorted(places, key=lambda key: (-places[key], key))[:many]
    return [{"key": key, **{name: values.get(key) for name, values in found.items()}} for key in hottest]


def bytes_by_shard(census: Mapping[str, Any], shards: int) -> list[int]:
    """Return the state's bytes by shard; shards that the census does not name have none."""
    found = [0] * shards
    for one in census.get("shards") or ():
        if 0 <= one["shard"] < shards:
            found[one["shard"]] = one["bytes"]
    return found
