"""The state of one generation in a folder, moved from pair to pair; it tells which rows each move has changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Set
from pathlib import Path

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.fetch.native_rows import usable
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.canary.milestone_pairs import Steps
from cutwater.core.job.job import Job
from cutwater.core.output.state_diff import Rows
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.state.backlog import Entry, Jump, Step, fresh
from cutwater.views.bulk.loader import BulkLoader, Unobserved, workers_by_default
from cutwater.views.changelog.proof import Overtaken
from cutwater.views.changelog.range_reader import Ranges
from cutwater.views.follow.applier import Applier
from cutwater.views.query.change_feed import ChangedRows
from cutwater.views.store import key_layout
from cutwater.views.store.store import Store

CHANGED_BYTES = 64 << 20
"""The most bytes of rows of one move that are told one by one; after more, every row is compared."""
PIECE_ROWS = 2_000


class ComparedState:
    """One generation's rows, at the milestone of a pair. A start empties the folder: nothing of it is trusted."""

    def __init__(
        self,
        cluster: Cluster,
        job: Job,
        generation: Generation,
        folder: Path,
        segment_ms: int,
        settings: Settings,
        now_ms: Callable[[], int],
        stopping: Callable[[], bool],
    ) -> None:
        """`segment_ms`: the layout, equal for states that are compared."""
        self.job, self._now_ms = job, now_ms
        topic = topics.changelog(job.name, generation)
        shutil.rmtree(folder, ignore_errors=True)
        self._store = Store(folder, job, generation, segment=segment_ms)
        self._ranges = Ranges(cluster, topic, stopping)
        bulk = BulkLoader(
            cluster,
            job,
            topic,
            self._store,
            Unobserved(),
            settings.restore_workers or workers_by_default(),
            stopping,
            native=settings.native and usable(),
        )
        self._applier = Applier(
            self._store, job, self._ranges, now_ms, bulk=bulk, gathering=lambda: ChangedRows(CHANGED_BYTES)
        )

    def close(self) -> None:
        self._ranges.close()
        self._store.close()

    @property
    def has_milestone(self) -> bool:
        """Whether it is at a milestone."""
        return self._store.applied is not None and self._store.applying is None

    def move(self, steps: Steps) -> Set[bytes] | None:
        """Bring the rows to the last of the steps. Return the storage keys of changed rows; None if not known.

        Raises DivergenceError for rows that a milestone does not prove; Overtaken if compaction may have removed
        some; UnavailableError if brokers do not answer.
        """
        if not self.has_milestone or not steps.complete or not fresh(steps.entries[0].milestone, self._now_ms()):
            self._jump(steps.last)
            return None
        changed: set[bytes] = set()
        told = True
        for entry in steps.entries:
            try:
                rows = self._applier.apply(Step(entry)).rows
            except Overtaken:
                self._jump(steps.last)
                return None
            told = told and rows is not None
            changed.update(rows or ())
        return changed if told else None

    def _jump(self, entry: Entry) -> None:
        self._applier.apply(Jump(entry))

    def value(self, name: bytes) -> bytes | None:
        return self._store.value(name)

    def pieces(self, above_ms: int) -> Iterator[Rows]:
        """Yield the rows of windows that end above the bound, by storage key, in pieces."""
        above, end_bytes = key_layout.end_suffix(above_ms), key_layout.END_BYTES
        for piece in self._store.scan(key_layout.WINDOWS_START, key_layout.WINDOWS_END, PIECE_ROWS):
            rows = [row for row in piece if row[0][-end_bytes:] > above]
            if rows:
                yield rows
