"""The size of the view's state: counted in the background, bounded where the job says so, told to whoever asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutwater.adapters.process import now_ms
from cutwater.core.job import Job
from cutwater.core.records import Milestone
from cutwater.rehydrator.metrics import Metrics
from cutwater.views.bounding import Bounding
from cutwater.views.census import Census
from cutwater.views.store import Store

Evict = Callable[[Milestone], int | None]


class Sized:
    """The census of one view, and what follows from it."""

    def __init__(self, job: Job, store: Store, every_ms: int, metrics: Metrics, log: Any) -> None:
        self.census = Census(store, job.shards, every_ms, now_ms, log)
        self.evict: Evict = lambda _: None
        """For whoever applies milestones: from where on windows are kept."""
        if job.max_bytes is not None:
            self.evict = Bounding(store, job.max_bytes, self.census, metrics, log).lower_ms
