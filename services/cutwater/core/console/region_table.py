"""The regions that are copied here: safe time, lag, and the progress of the mirror by topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from cutwater.core.mirror.replica_lag import SafeTime
from cutwater.core.protocol.mirror_records import Mirrored, Steering

TOPICS_MAX = 200
NO_MIRROR = "Nothing is copied from another region: this region has no mirror of the job."


def regions(
    region: str,
    replicas: Iterable[tuple[SafeTime, Steering | None]],
    copies: Mapping[str, Collection[Mirrored]],
    resyncs: Mapping[str, Mapping[str, int]],
) -> dict[str, Any]:
    """Return this region's replicas. `copies`: the positions by origin. `resyncs`: topics whose copy begins again,
    with the time of its start, by origin."""
    return {
        "region": region,
        "replicas": [
            {
                **asdict(safe),
                "paused": bool(steering and steering.paused),
                "topics": by_topic(copies.get(safe.origin, ())),
                "resyncs": [
                    {"topic": topic, "at_ms": at_ms} for topic, at_ms in resyncs.get(safe.origin, {}).items()
                ],
            }
            for safe, steering in replicas
        ],
    }


def by_topic(copies: Iterable[Mirrored]) -> list[dict[str, Any]]:
    """Return the progress of each copied topic, with its slowest partition."""
    found: dict[str, list[Mirrored]] = defaultdict(list)
    for one in copies:
        found[one.topic].append(one)
    return [_topic(name, found[name]) for name in sorted(found)[:TOPICS_MAX]]


def _topic(name: str, copies: list[Mirrored]) -> dict[str, Any]:
    slowest = min(copies, key=lambda one: (one.source_ms, one.partition))
    return {
        "topic": name,
        "partitions": len(copies),
        "records": sum(one.records for one in copies),
        "bytes": sum(one.size for one in copies),
        "copied_ms": max(one.at_ms for one in copies),
        "slowest_partition": slowest.partition,
        "slowest_ms": slowest.source_ms if slowest.records else None,
    }
