"""The ways on which a view comes to a milestone, for tests that hold on all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.object_store import Objects
from cutwater.core.state.bulk_load import Done
from cutwater.views.bulk.loader import BulkLoader
from cutwater.views.store.store import Store
from support.views.changelogs import Following, Sold, Writing, following, now_ms
from support.views.snapshots import keeping

SHOPS = [f"s{number}" for number in range(60)]
TWO_DAYS_MS = 2 * 86_400_000


def sales(epoch: int) -> list[Sold]:
    return [Sold(shop, number % 5, epoch * 1_000 + number) for number, shop in enumerate(SHOPS)]


class Loading:
    """Where a bulk restore tells how it comes on."""

    def loaded(self, _done: Done, _records_max: int) -> None: ...


@dataclass(frozen=True)
class Way:
    """How a view comes to a milestone."""

    shows: int
    """The milestone that it has before it reads the changelog; 0 for none."""
    folder: bool = False
    snapshot: bool = False
    workers: bool = False
    jump: bool = False

    def begin(self, writing: Writing, tmp_path: Path) -> None:
        """Milestone 1, and a view of it that has ended."""
        with keeping(writing, tmp_path / "one", objects(tmp_path)) as (view, kept):
            view.wait_for(writing.epoch(sales(0)).sequence)
            kept.snapshot()

    @contextmanager
    def go_on(self, writing: Writing, tmp_path: Path, ahead_ms: int = 0) -> Iterator[Following]:
        """The view, on its way. `ahead_ms`: how far its clock is ahead."""
        later_ms = max(ahead_ms, TWO_DAYS_MS if self.jump else 0)
        options: dict[str, Any] = {"stall_s": 1.0, "clock": lambda: now_ms() + later_ms}
        if self.workers:
            options["bulk"] = self._bulk(writing)
        if self.snapshot:
            with keeping(writing, tmp_path / "two", objects(tmp_path), near=False, **options) as (view, kept):
                yield view
                assert not kept.told.damaged, "it began from the snapshot"
        else:
            folder = tmp_path / ("one" if self.folder else "two")
            with following(writing.cluster, writing.job, folder, **options) as view:
                yield view

    @staticmethod
    def _bulk(writing: Writing) -> Callable[[Store, Callable[[], bool]], BulkLoader]:
        def make(store: Store, stopping: Callable[[], bool]) -> BulkLoader:
            options: dict[str, Any] = {"least_records": 1, "file_rows": 25, "stall_s": 1.0}
            return BulkLoader(
                writing.cluster, writing.job, writing.topic, store, Loading(), 2, stopping, **options
            )

        return make


WAYS = {
    "a view that follows": Way(1, folder=True),
    "a view that was away for long": Way(1, folder=True, jump=True),
    "an empty view": Way(0),
    "a bulk restore": Way(0, workers=True),
    "a snapshot and its tail": Way(1, snapshot=True),
    "an old snapshot and its tail in bulk": Way(1, snapshot=True, jump=True, workers=True),
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def objects(tmp_path: Path) -> Objects:
    return Objects(str(tmp_path / "objects"))
