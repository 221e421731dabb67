"""One row in the snapshots of a job's views. Each costs a download, into a folder that is deleted at the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import with_partitions
from cutwater.core.errors import CutwaterError
from cutwater.core.job.job import Job
from cutwater.core.past.row_history import Gap, LoggedValue
from cutwater.past.row_logs import RowOfKey
from cutwater.past.snapshot_tiers import restorer_of, tiers_of
from cutwater.past.visible_milestones import VisibleMilestone
from cutwater.views.query.presenter import plain
from cutwater.views.query.view import View
from cutwater.views.store.store import Store
from cutwater.views.store.working_folder import working_folder

FOLDER = "blame"
ROWS = 1


class SnapshotRows:
    """Looks the row up. `store`: where the snapshots are, besides those beside a view here; empty for none."""

    def __init__(self, cluster: Cluster, settings: Settings, job: Job, row: RowOfKey, store: str) -> None:
        self._cluster, self._job, self._row = cluster, job, row
        self._settings = settings.model_copy(update={"snapshots": store})
        self._known: dict[int, VisibleMilestone] = {}
        self.read = 0
        """The snapshots that were downloaded."""

    def sequences(self, milestones: Iterable[VisibleMilestone], gaps: Sequence[Gap]) -> list[int]:
        """Return the milestones within the gaps that there are snapshots of."""
        if not gaps:
            return []
        by_sequence = {one.sequence: one for one in milestones}
        within = [
            one for one in by_sequence.values() if any(gap.first <= one.sequence <= gap.last for gap in gaps)
        ]
        for generation in {one.generation for one in within}:
            settings = self._settings.model_copy(update={"generation": generation})
            for tier in tiers_of(settings, self._job, None):
                named = (by_sequence.get(sequence) for sequence in tier.sequences())
                self._known |= {one.sequence: one for one in named if one and one.generation == generation}
        return sorted(one.sequence for one in within if one.sequence in self._known)

    def row(self, sequence: int) -> LoggedValue | None:
        """Return the row at a milestone; None if its snapshot cannot be used, or lacks the window."""
        milestone = self._known[sequence]
        settings = self._settings.model_copy(update={"generation": milestone.generation})
        job = with_partitions(self._job, milestone.partitions)
        tiers = tiers_of(settings, job, None)
        restorer = restorer_of(self._cluster, job, milestone.generation, None, tiers)
        self.read += 1
        with working_folder(settings.data_dir / FOLDER) as folder:
            store = Store(folder / "view", job, milestone.generation, may_empty=False)
            try:
                restorer.restore(store, lambda: False, sequence)
            except CutwaterError:
                store.close()
                return None
            with closing(View(store, job)) as view:
                return self._in(view, sequence)

    def _in(self, view: View, sequence: int) -> LoggedValue | None:
        shown, window = view.milestone, self._row.window
        if shown is None or shown.sequence != sequence or window.end_ms <= view.complete_above_ms(shown):
            return None
        page = view.read(window.key, window.start_ms, window.start_ms + 1, ROWS)
        rows = view.present(page.rows)
        names = [one.name for one in self._job.measures]
        values = {name: plain(rows[0][name]) for name in names} if rows else None
        return LoggedValue(sequence, values, f"snapshot of {shown.token}")
