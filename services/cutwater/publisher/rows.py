"""Which rows a milestone puts on the output: every changed one, or those whose windows it closed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import Protocol

from cutwater.adapters.avro import Codec
from cutwater.adapters.hashing import key_hash
from cutwater.core.cuts import Cut
from cutwater.core.job import WINDOW_KEY_SCHEMA, Job
from cutwater.core.output import Published
from cutwater.core.records import Milestone
from cutwater.core.restore import Jump, Step
from cutwater.views import layout
from cutwater.views.applier import Applier
from cutwater.views.pieces import Piece, pieces_of
from cutwater.views.ranges import Ranges
from cutwater.views.store import Store
from cutwater.views.updates import Updates

_EVER = -(1 << 62)


class Source(Protocol):
    """Where the rows of a milestone come from."""

    kind: str
    ahead: bool
    """May the rows of a milestone be asked for while the one before is still being written?"""

    def pieces(self, plan: Step | Jump, position: Published, whole: Milestone | None) -> Generator[Piece]:
        """The rows that are not published yet, in an order that a restart repeats.

        Raises DivergenceError where the changelog is not what the milestone proves; Overtaken, perhaps after some
        rows, where compaction has taken values: they go on with a later milestone.
        """

    def close(self) -> None:
        """Release what the rows come from."""


class Changed:
    """Every row of the milestone; of several milestones as one, every row between their cuts."""

    kind = "update"
    ahead = True

    def __init__(self, updates: Updates) -> None:
        self._updates = updates

    def pieces(self, plan: Step | Jump, position: Published, whole: Milestone | None) -> Generator[Piece]:
        since = whole.changelog_cut if whole else Cut()
        return self._updates.pieces(plan, since, position.progress if position.parts else None)

    def close(self) -> None:
        """Nothing is held."""


class Finals:
    """The rows of windows that the watermark has closed since the milestone published before."""

    kind = "final"
    ahead = False
    """No: the store drops what a horizon passed, and a crash would lose the finals of the milestone before."""

    def __init__(self, job: Job, store: Store, ranges: Ranges, now_ms: Callable[[], int]) -> None:
        self._job = job
        self._store = store
        self._keys = Codec(WINDOW_KEY_SCHEMA)
        self._closed_ms = _EVER
        self._applier = Applier(store, job, ranges, now_ms, floor_ms=self._floor_ms)

    def pieces(self, plan: Step | Jump, position: Published, whole: Milestone | None) -> Generator[Piece]:
        milestone = plan.to.milestone
        # What was closed since is kept until it is published, even below the horizon.
        self._closed_ms = whole.watermark_ms if whole else _EVER
        self._bring_store_to(plan)
        # Closed windows never change, and later ones sort behind: what parts have published comes first again.
        closed = self._closed(self._closed_ms, milestone.watermark_ms)
        yield from pieces_of(islice(closed, sum(position.rows), None))

    def close(self) -> None:
        self._store.close()

    def _bring_store_to(self, plan: Step | Jump) -> None:
        """It may be ahead, after a crash between store and output, or behind, where its folder was lost."""
        milestone, applied = plan.to.milestone, self._store.applied
        sequence = applied.milestone.sequence if applied and not self._store.applying else 0
        if sequence < milestone.sequence:
            steps = isinstance(plan, Step) and sequence == milestone.sequence - 1
            self._applier.apply(plan if steps else Jump(plan.to))

    def _floor_ms(self, milestone: Milestone) -> int:
        return min(milestone.horizon_ms, self._closed_ms)

    def _closed(self, after_ms: int, up_to_ms: int) -> Iterator[tuple[int, int, bytes, bytes]]:
        """Rows of windows with an end in (after, up to], in time order: partition, -1, key, value."""
        length, pinned = self._store.segment_ms, self._store.pin()
        first = layout.segment_prefix(layout.first_live(after_ms, length))
        stop = layout.segment_prefix(layout.first_live(up_to_ms, length) + 1)
        for storage, value in pinned.rows(first, stop):
            window = layout.parse(storage)
            if after_ms < window.end_ms <= up_to_ms:
                yield self._partition(window.key), -1, self._key(window), value

    def _key(self, window: layout.Window) -> bytes:
        return self._keys.encode({"key": window.key, "window_start": window.start_ms, "window_end": window.end_ms})

    def _partition(self, key: str) -> int:
        return self._job.shards.partition(self._job.shards.shard(key_hash(key)))
