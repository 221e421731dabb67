"""The limit `max_bytes` of one view, applied with each milestone from the last census.

Windows are evicted by counted sizes alone. Later writes only bring the next census forward, since most replace a
row. An eviction is reported at the next milestone, once the store holds it.
"""

from __future__ import annotations

from typing import Any, Protocol

from cutwater.core.protocol.records import Milestone
from cutwater.core.state.eviction import Eviction, evict
from cutwater.core.util.timestamps import iso
from cutwater.views.follow.size_census import CensusResult
from cutwater.views.store.store import Store


class Counting(Protocol):
    """The census."""

    counted: CensusResult | None

    def request_count(self) -> None: ...


class EvictionMetrics(Protocol):
    """Metrics of evictions."""

    def evicted(self, found: Eviction) -> None: ...

    def record_excess(self, over_bytes: int) -> None: ...


class SizeLimit:
    """The lower bound of the view at each step. Called by one thread."""

    def __init__(
        self,
        store: Store,
        max_bytes: int,
        census: Counting,
        watched: EvictionMetrics,
        log: Any,
        overlap_ms: int = 0,
    ) -> None:
        """`overlap_ms`: how long after its own end a row may be part of an open window."""
        self._overlap_ms = overlap_ms
        self._store = store
        self._max_bytes = max_bytes
        self._census = census
        self._watched = watched
        self._log = log
        self._over = False
        self._decided: tuple[Eviction, Milestone] | None = None
        """The eviction that the store does not yet hold."""

    def lower_ms(self, milestone: Milestone) -> int | None:
        """Return the bound at or below which windows leave the view with this milestone; None for none."""
        counted, store = self._census.counted, self._store
        self._tell_decided()
        if counted is None:
            return store.lower_ms
        sizes = {number: size.bytes for number, size in counted.sizes.segments.items()}
        found = evict(
            sizes,
            store.segment_ms,
            self._max_bytes,
            milestone.watermark_ms - self._overlap_ms,
            milestone.horizon_ms,
            store.lower_ms,
        )
        self._decided = (found, milestone) if found.segments else None
        self._tell_over(found)
        if found.segments or found.left_bytes + store.written_bytes - counted.written_bytes > self._max_bytes:
            self._census.request_count()
        return found.lower_ms

    def _tell_decided(self) -> None:
        """Report an eviction once its batch is written, not before, since a milestone may be retried."""
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
        self._watched.record_excess(found.over_bytes)
        over, self._over = self._over, found.over_bytes > 0
        if self._over and not over:
            self._log.error(
                "open windows alone exceed max_bytes, and none of them is evicted",
                over_bytes=found.over_bytes,
                max_bytes=self._max_bytes,
            )
