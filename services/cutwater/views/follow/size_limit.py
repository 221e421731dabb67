"""`max_bytes` of one view: asked by whoever applies milestones, answered from what the last census found.

What was written since a census only brings the next one forward: most writes replace a row, so a sum of them says
that the state may have grown, never that it has. Windows are evicted by what was counted. What was evicted is told
when the next milestone comes: by then the store holds it, or the same is decided again.
"""

from __future__ import annotations

from typing import Any, Protocol

from cutwater.core.protocol.records import Milestone
from cutwater.core.state.eviction import Eviction, evict
from cutwater.core.util.timestamps import iso
from cutwater.views.follow.size_census import Counted
from cutwater.views.store.store import Store


class Counting(Protocol):
    """Who counts the state."""

    counted: Counted | None

    def want(self) -> None: ...


class Watched(Protocol):
    """Who counts evictions."""

    def evicted(self, found: Eviction) -> None: ...

    def bounded(self, over_bytes: int) -> None: ...


class Bounding:
    """Decides at each step where the view begins. Called by one thread."""

    def __init__(self, store: Store, max_bytes: int, census: Counting, watched: Watched, log: Any) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._census = census
        self._watched = watched
        self._log = log
        self._over = False
        self._decided: tuple[Eviction, Milestone] | None = None
        """What the store has not been seen to hold yet."""

    def lower_ms(self, milestone: Milestone) -> int | None:
        """Windows that end at or below it leave the view with this milestone; None: none ever did."""
        counted, store = self._census.counted, self._store
        self._tell_decided()
        if counted is None:
            return store.lower_ms
        sizes = {number: size.bytes for number, size in counted.sizes.segments.items()}
        found = evict(
            sizes,
            store.segment_ms,
            self._max_bytes,
            milestone.watermark_ms,
            milestone.horizon_ms,
            store.lower_ms,
        )
        self._decided = (found, milestone) if found.segments else None
        self._tell_over(found)
        if found.segments or found.left_bytes + store.written_bytes - counted.written_bytes > self._max_bytes:
            self._census.want()
        return found.lower_ms

    def _tell_decided(self) -> None:
        """Once the batch that moves the bound is written, not before: a milestone may have to be tried again."""
        if self._decided is None or self._store.lower_ms is None:
            return
        found, milestone = self._decided
        if self._store.lower_ms == found.lower_ms:
            self._watched.evicted(found)
            self._log.warning(
                "windows evicted",
                milestone=str(milestone.token),
                segments=len(found.segments),
                bytes=found.bytes,
                lower_bound=iso(self._store.lower_ms),
                max_bytes=self._max_bytes,
            )
            self._decided = None

    def _tell_over(self, found: Eviction) -> None:
        self._watched.bounded(found.over_bytes)
        over, self._over = self._over, found.over_bytes > 0
        if self._over and not over:
            self._log.error(
                "open windows alone are more than max_bytes, and none of them is evicted",
                over_bytes=found.over_bytes,
                max_bytes=self._max_bytes,
            )
