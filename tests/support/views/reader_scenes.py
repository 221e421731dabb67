"""Changelogs written by hand, on a real broker: two milestones each, and what stands between, above or nowhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutwater.adapters.object_store import Objects
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.log_evidence import TopicEvidence
from cutwater.core.protocol.records import Milestone
from support.views.changelogs import HOUR_MS, Rows, Sold, Writing, encoded, now_ms
from support.views.snapshots import keeping

TWO_DAYS_MS = 48 * HOUR_MS
SHOPS = [f"s{number}" for number in range(9)]
FIRST = [Sold(shop, 1, at + 1) for at, shop in enumerate(SHOPS)]
SECOND = [Sold(shop, 2, 100 + at) for at, shop in enumerate(SHOPS[:5])]
Writes = Callable[[Writing], Milestone]


@dataclass(frozen=True)
class Scene:
    """What is written."""

    go_on: Writes
    """What follows the first milestone, and gives the second."""
    begin: Writes
    ahead_ms: int = 0
    """How far a reader's clock is ahead."""


@dataclass
class Played:
    """A scene that was written."""

    writing: Writing
    objects: Objects
    first: Milestone
    last: Milestone
    ahead_ms: int = 0

    @property
    def truth(self) -> Rows:
        return self.writing.by_sequence[self.last.sequence]

    def now_ms(self) -> int:
        return now_ms() + self.ahead_ms


def play(writing: Writing, scene: Scene, folder: Path) -> Played:
    """The first milestone, a snapshot of a view there, and what the scene writes behind it."""
    objects = Objects(str(folder / "objects"))
    with keeping(writing, folder / "one", objects) as (view, kept):
        first = scene.begin(writing)
        view.wait_for(first.sequence)
        kept.snapshot()
    return Played(writing, objects, first, scene.go_on(writing), scene.ahead_ms)


def whole(writing: Writing) -> Milestone:
    return writing.epoch(FIRST)


def without_one(writing: Writing) -> Milestone:
    """Compaction has taken a row: a newer one, or a tombstone, stands further on."""
    return writing.milestone(FIRST, writing.rows(FIRST[1:], epoch=0))


def other_values(writing: Writing) -> Milestone:
    """The log of today, and not the one that the milestones were of."""
    return writing.milestone(FIRST, writing.rows([one._replace(pieces=7_000) for one in FIRST], epoch=0))


def second(writing: Writing, **changes: Any) -> Milestone:
    return writing.epoch(SECOND, **changes)


def above_the_cut(writing: Writing) -> Milestone:
    found = second(writing)
    writing.rows([one._replace(pieces=9_000) for one in SECOND], epoch=1)
    return found


def repeated(writing: Writing) -> Milestone:
    """Another attempt has written rows of the first epoch again, behind its milestone."""
    writing.rows(FIRST[6:], epoch=0, attempt=2)
    return second(writing, attempt=2)


def by_somebody(header: bytes) -> Writes:
    def written(writing: Writing) -> Milestone:
        key, value = encoded(writing.job, FIRST[7]._replace(pieces=8_000))
        writing.record(writing.partition(FIRST[7].shop), key, value, ("writer", header))
        return second(writing)

    return written


def row_lost(writing: Writing) -> Milestone:
    writing.rows(SECOND[1:], epoch=1)
    return writing.milestone(SECOND, [encoded(writing.job, one) for one in SECOND])


def of_another_topic(writing: Writing) -> Milestone:
    partitions = writing.job.shards.partitions
    return second(writing, evidence=(TopicEvidence(writing.topic, "another-one", (0,) * partitions),))


def overtaken(writing: Writing) -> Milestone:
    found = second(writing, written_ms=now_ms() - TWO_DAYS_MS)
    writing.rows([one._replace(pieces=6_000) for one in FIRST], epoch=2)
    return found


def end_missing(writing: Writing) -> Milestone:
    written = writing.rows(SECOND, epoch=1)
    ends = writing.ends()
    cut = Cut.of_topic(writing.topic, [ends[at] + 2 for at in sorted(ends)])
    return writing.milestone(SECOND, written, changelog_cut=cut)


def live_row_deleted(writing: Writing) -> Milestone:
    writing.tombstone(FIRST[0])
    return second(writing)


def other_schema(writing: Writing) -> Milestone:
    return second(writing, schema_fingerprint="0" * 16)


def closed(writing: Writing) -> Milestone:
    """The windows of the first milestone are below the horizon of the second."""
    return second(writing, watermark_ms=26 * HOUR_MS)
