"""A replica that was away until the origin's tombstones were compacted away: what was deleted stays deleted."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from broker.mirror.arrivals.test_arrivals_of_a_mirror import EAGER
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.protocol.records import Milestone
from cutwater.core.util.timestamps import iso_ms
from cutwater.views.bulk.loader import BulkLoader
from cutwater.views.changelog.record_reader import KeyReader
from cutwater.views.follow.replica_feed import CopiedStream
from cutwater.views.store import key_layout
from cutwater.views.store.store import Store
from support.regions.mirroring import ORIGIN, Events, Log, arrivals, mirroring, read_all, wait_arrived
from support.regions.standing_by import Standby
from support.views.changelogs import HOUR_MS, Following, Rows, Sold, Writing, following, make_job, now_ms, until
from support.views.rehydrating import Process
from support.views.ways import SHOPS, TWO_DAYS_MS, Loading

SALES = [Sold(shop, number % 8, number) for number, shop in enumerate(SHOPS)]
CLOSED = [one for one in SALES if one.hour < 5]
"""What is deleted. With 24 h kept, a watermark at hour 29 puts the horizon at hour 5: views drop a segment whole,
which holds 4 h, and of the next one a part lies below the horizon."""
WATERMARK_MS = 29 * HOUR_MS
GONE = {(one.shop, one.hour * HOUR_MS) for one in CLOSED}


@pytest.fixture
def standby(broker: Any, origin: Cluster, tmp_path: Path) -> Iterator[Standby]:
    """The origin's cleaner takes what it may at once, tombstones too; the one here takes nothing."""
    writing = Writing(origin, make_job(tmp_path, partitions=1)[0], **EAGER)
    yield Standby(broker.cluster, writing, tmp_path)
    writing.close()


@pytest.mark.slow
def test_deleted_keys_never_reappear_in_a_replica(standby: Standby) -> None:
    """At the next arrival all show what the origin shows: views on every way, the rehydrator that was away, too,
    and the snapshot that it takes of that milestone for a failover.

    The copy here holds the deleted rows for good, as their tombstones were never copied, and the folders hold them
    from before. The horizon alone keeps them away.
    """
    own, writing = standby.own, standby.writing
    begin(standby)
    last = delete(writing)
    with mirroring(own, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, own, writing.job, last.sequence)
    assert [one.sequence for one in arrivals(own, writing.job)] == [1, last.sequence]
    copied = read_all(own, writing.topic, 0)
    assert windows(copied) >= GONE
    assert all(one.value is not None for one in copied), "no tombstone has come"
    wanted = (last.sequence, writing.by_sequence[last.sequence])
    assert not GONE & wanted[1].keys()
    with following(writing.cluster, writing.job, standby.folder / "origin") as there:
        there.wait_for(last.sequence)
        assert there.rows() == wanted
    for name, options in ways(standby):
        with replica(standby, name, **options) as view:
            view.wait_for(last.sequence)
            assert view.rows() == wanted, name
            assert view.view.read(CLOSED[0].shop, None, None, 9).rows == []
            require_dropped(view, last)
    with standby.replica(last.sequence) as process:
        assert served(process) == wanted[1]
        standby.create(process)
    with standby.stored().opened(standby.folder / "seeding", structlog.get_logger()) as (_, rows):
        assert standby.pieces(rows) == wanted[1]


def begin(standby: Standby) -> None:
    """Milestone 1 has arrived, and is shown here by a view and by a rehydrator; then all are away."""
    own, writing = standby.own, standby.writing
    Events(writing)
    writing.epoch(SALES)
    with mirroring(own, writing.cluster, writing.job) as mirror:
        wait_arrived(mirror, own, writing.job, 1)
    with replica(standby, "one") as view:
        view.wait_for(1)
        assert view.rows() == (1, writing.by_sequence[1])
    with standby.replica(1) as process:
        assert served(process) == writing.by_sequence[1]
    assert writing.by_sequence[1].keys() >= GONE


def delete(writing: Writing) -> Milestone:
    """In the origin: windows fall below the horizon, nothing of them is left on the log; then a last milestone."""
    writing.epoch([Sold("later", 30, 1)], watermark_ms=WATERMARK_MS)
    for one in CLOSED:
        writing.tombstone(one)

    def left() -> bool:
        writing.epoch([Sold("roll", 30, 1)])  # the active segment is never compacted: begin another
        time.sleep(0.1)
        return bool(GONE & windows(read_all(writing.cluster, writing.topic, 0)))

    until(lambda: not left(), "rows and tombstones to be compacted away", 120)
    return writing.epoch([Sold("later", 31, 2)])


def ways(standby: Standby) -> Iterator[tuple[str, dict[str, Any]]]:
    """Folder and options of each view that comes to the next arrival: from its folder, soon or late; from nothing,
    alone or by workers. A replica begins from no snapshot."""
    shutil.copytree(standby.folder / "one", standby.folder / "late")
    yield "one", {}
    yield "late", {"clock": lambda: now_ms() + TWO_DAYS_MS}
    yield "empty", {}
    yield "workers", {"bulk": bulk_of(standby)}


def replica(standby: Standby, name: str, **options: Any) -> Any:
    """A view of what is copied here."""
    job = standby.writing.job
    return following(standby.own, job, standby.folder / name, stream=CopiedStream(job.name, ORIGIN), **options)


def bulk_of(standby: Standby) -> Callable[[Store, Callable[[], bool]], BulkLoader]:
    """Loads by workers however little there is."""

    def make(store: Store, stopping: Callable[[], bool]) -> BulkLoader:
        options: dict[str, Any] = {"least_records": 1, "file_rows": 25, "stall_s": 1.0}
        job, topic = standby.writing.job, standby.writing.topic
        return BulkLoader(standby.own, job, topic, store, Loading(), 2, stopping, **options)

    return make


def windows(records: list[Log]) -> set[tuple[str, int]]:
    """Those that records speak of, tombstones too."""
    reader = KeyReader()
    found = [reader.window(one.key or b"") for one in records]
    return {(one.key, one.start_ms) for one in found}


def require_dropped(view: Following, last: Milestone) -> None:
    """Whole segments below the horizon are not even stored."""
    length = view.store.segment_ms
    stored = [key_layout.parse(key).end_ms for key, _ in view.store.pin().rows(b"\x01", key_layout.WINDOWS_END)]
    assert (
        min(key_layout.segment_of(end, length) for end in stored)
        == key_layout.first_live(last.horizon_ms, length)
        == 1
    )


def served(process: Process) -> Rows:
    """All that the API shows."""
    rows = process.get("/v1/state", limit=10_000).json()["rows"]
    return {(row["key"], iso_ms(row["window_start"])): row["pieces"] for row in rows}
