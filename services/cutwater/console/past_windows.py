"""The windows of one key at an older milestone, rebuilt from the changelog as `cutwater restore --keys` does.

Only the key's partition is read, up to the milestone's cut. Its rows are proved, and those of the key kept. The
view is built in a folder of its own, which is deleted at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.fetch.native_rows import usable
from cutwater.adapters.hashing import key_hash
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.generation_jobs import working_for
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.state.point_in_time_restore import RestorePlan, Target, plan
from cutwater.core.state.selection import Selection
from cutwater.core.util.timestamps import iso, moment_ms
from cutwater.views.bulk.loader import Unobserved
from cutwater.views.query.milestone_json import milestone_fields
from cutwater.views.query.view import View
from cutwater.views.snapshots.point_in_time import Rebuild, read_sources
from cutwater.views.store.working_folder import working_folder

AT_ONCE_MAX = 2
"""Rebuilds at one time: each takes a core."""
WAIT_S = 20.0
RECORDS_MAX = 2_000_000
"""A longer partition is not read for a page; at some 200,000 records per second it would take over ten seconds."""
FOLDER = "console"


class PastWindows:
    """Older milestones of one job."""

    def __init__(self, cluster: Cluster, job: Job, settings: Settings) -> None:
        """`settings`: with the job's data folder, below which the views are built."""
        self._cluster, self._job, self._settings = cluster, job, settings
        self._turns = threading.Semaphore(AT_ONCE_MAX)

    def read(self, at: str, key: str, start: str | None, end: str | None, limit: int) -> dict[str, Any]:
        """Return an answer in the form of the API. `at`: a token, or a time: the newest milestone by then.

        Raises UsageError for a milestone that the changelog cannot give any more, or a partition that is too long;
        UnavailableError if brokers do not answer or too many are at work.
        """
        target, stored = Target.of(at), self._job.stored_key(key)
        first, until = _time("from", start), _time("to", end)
        if not self._turns.acquire(timeout=WAIT_S):
            raise UnavailableError("other milestones are being rebuilt: try again in a moment")
        try:
            with self._view(target, stored) as view:
                page = view.read(stored, first, until, limit)
                rows = [{**row, **_window(row)} for row in view.present(page.rows)]
                one = page.milestone
                fields = milestone_fields(one, view.horizon_ms(one), view.lower_ms(one))
                age = {"age_ms": max(0, now_ms() - one.committed_ms)}
                following = None if page.next_from_ms is None else iso(page.next_from_ms)
                return {"key": key, "milestone": {**fields, **age}, "rows": rows, "next_from": following}
        finally:
            self._turns.release()

    @contextmanager
    def _view(self, target: Target, key: str) -> Iterator[View]:
        settings = self._settings
        if target.token:
            settings = settings.model_copy(update={"generation": target.token.generation})
        job, settings = working_for(self._job, settings, self._cluster)
        partitions = frozenset({job.shards.partition(job.shards.shard(key_hash(key)))})
        # Without snapshots: they hold all keys, and would be fetched whole.
        known = read_sources(self._cluster, job, settings.generation, partitions, now_ms(), (), None)
        chosen = plan(target, known)
        _require_short(chosen)
        selection = Selection.of([key])
        parent = settings.data_dir / FOLDER
        with working_folder(parent) as own:
            folder = own / "view"
            told = (self._cluster, job, settings.generation, folder, partitions, now_ms, Unobserved())
            with closing(Rebuild(*told, native=settings.native and usable(), selection=selection)) as rebuild:
                rebuild.run(chosen)
                yield rebuild.view()


def _require_short(chosen: RestorePlan) -> None:
    if chosen.records_max > RECORDS_MAX:
        raise UsageError(
            f"up to {chosen.to.milestone.token} the key's partition has up to {chosen.records_max:,} records, too "
            "many for a page: run 'cutwater restore' with --to and --keys"
        )


def _time(name: str, text: str | None) -> int | None:
    try:
        return moment_ms(text) if text else None
    except ValueError:
        raise UsageError(f"{name}: {text!r} is not a time, as 2026-01-31T08:00:00Z is") from None


def _window(row: dict[str, Any]) -> dict[str, Any]:
    return {name: iso(row[name]) for name in ("window_start", "window_end")}
