"""What others got wrong in restoring, on every way to a milestone: from a folder, nothing, a snapshot."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.hashing import key_hash, row_hash
from cutwater.adapters.kafka.client import make_consumer, read_range
from cutwater.core.checks.state_comparison import PlaceRow, RowName, RowTotals, sum_by_shard
from cutwater.views.changelog.record_reader import KeyReader
from support.views.changelogs import HOUR_MS, Following, Sold, Writing, following, held_back, make_job, until
from support.views.snapshots import keeping
from support.views.ways import TWO_DAYS_MS, WAYS, Way, every_way, objects, sales

EAGER = {
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "50",
    "delete.retention.ms": "0",
}
"""The cleaner takes what it may at once, tombstones too."""


@pytest.fixture
def cleaned(broker: Any, tmp_path: Path) -> Iterator[Writing]:
    one = Writing(broker.cluster, make_job(tmp_path, partitions=1)[0], **EAGER)
    yield one
    one.close()


@pytest.mark.slow
@every_way
def test_an_open_transaction_hides_nothing_for_good(writing: Writing, tmp_path: Path, way: Way) -> None:
    """Committed records behind it are below the cut: waited for, however often the read gives up, then whole."""
    way.begin(writing, tmp_path)
    with ExitStack() as open_one:
        open_one.enter_context(held_back(writing))
        milestone = writing.epoch(sales(1))
        with way.go_on(writing, tmp_path) as view:
            until(lambda: view.seen.retries > 1, "two reads to give up")
            assert (view.view.milestone.sequence if view.view.milestone else 0) == way.shows
            assert view.seen.divergences == 0
            open_one.close()
            view.wait_for(milestone.sequence)
            assert view.rows() == (2, writing.by_sequence[2])


@pytest.mark.variations
@every_way
def test_a_cut_behind_markers_is_reached(writing: Writing, tmp_path: Path, way: Way) -> None:
    """Markers and aborted records before the rows, between them and at the cut: nothing is waited for."""
    way.begin(writing, tmp_path)
    with held_back(writing):
        pass
    rows = sales(1)
    written = writing.rows(rows[:30], epoch=1)
    with held_back(writing):
        written += writing.rows(rows[30:], epoch=1)
    with held_back(writing):
        pass
    milestone = writing.milestone(rows, written)
    with way.go_on(writing, tmp_path) as view:
        view.wait_for(milestone.sequence)
        assert view.rows() == (2, writing.by_sequence[2])
        assert view.seen.retries == 0


def all_ways(writing: Writing, tmp_path: Path) -> dict[Path, Way]:
    """Each with a copy of its own of what a view of milestone 1 has left: the cleaner takes its time."""
    began = tmp_path / "began"
    Way(1).begin(writing, began)
    found = {tmp_path / f"way-{number}": way for number, way in enumerate(WAYS.values())}
    for folder in found:
        shutil.copytree(began, folder)
    return found


@pytest.mark.slow
def test_deleted_keys_never_reappear(cleaned: Writing, tmp_path: Path) -> None:
    """Away until the tombstones themselves were compacted away: windows below the horizon stay gone.

    The log says nothing of them any more; the view's folder and its snapshot still hold their rows.
    """
    writing = cleaned
    ways = all_ways(writing, tmp_path)
    closed = [one for one in sales(0) if one.hour < 3]
    writing.epoch([Sold("later", 30, 1)], watermark_ms=27 * HOUR_MS)  # 24 h are kept: the horizon is at hour 3
    for one in closed:
        writing.tombstone(one)
    until(lambda: not _left(writing, closed), "rows and tombstones to be compacted away")
    last = writing.epoch([Sold("later", 31, 2)])
    gone = {(one.shop, one.hour * HOUR_MS) for one in closed}
    for folder, way in ways.items():
        with way.go_on(writing, folder, ahead_ms=TWO_DAYS_MS) as view:
            assert not way.folder or gone <= view.rows()[1].keys(), "it has them at first"
            view.wait_for(last.sequence)
            assert view.rows() == (last.sequence, writing.by_sequence[last.sequence])
            assert not gone & view.rows()[1].keys()
            assert view.view.read(closed[0].shop, None, None, 9).rows == []


def _left(writing: Writing, closed: list[Sold]) -> int:
    """How many records of these windows, tombstones included, are on the log; each look gives the cleaner work."""
    writing.epoch([Sold("roll", 30, 1)])  # the active segment is never compacted: begin another
    time.sleep(0.1)
    windows = {(one.shop, one.hour * HOUR_MS) for one in closed}
    reader, consumer = KeyReader(), make_consumer(writing.cluster)
    try:
        found = [reader.window(bytes(one.key())) for one in read_range(consumer, writing.topic, 0, 0)]
    finally:
        consumer.close()
    return sum((one.key, one.start_ms) in windows for one in found)


@pytest.mark.slow
def test_a_milestone_that_compaction_has_overtaken_is_skipped(cleaned: Writing, tmp_path: Path) -> None:
    """Values below its cut are gone: neither it nor newer values in its place are shown; the next one is."""
    writing = cleaned
    ways = all_ways(writing, tmp_path)
    writing.epoch(sales(1))
    rows = sales(2)
    written = writing.rows(rows, epoch=2)
    until(lambda: _first_of(writing, 1) is None, "the values of epoch 1 to be compacted away")
    with ExitStack() as views:
        opened = [
            (way, views.enter_context(way.go_on(writing, folder, ahead_ms=TWO_DAYS_MS)))
            for folder, way in ways.items()
        ]
        for way, view in opened:
            until(lambda: "compaction has overtaken" in view.view.status.reason, "the view to find out")  # noqa: B023
            assert (view.view.milestone.sequence if view.view.milestone else 0) == way.shows
        rolled = [Sold("roll", 30, 1)]
        last = writing.milestone([*rows, *rolled], [*written, *writing.rows(rolled, epoch=2)])
        for _, view in opened:
            view.wait_for(last.sequence)
            assert view.rows() == (last.sequence, writing.by_sequence[last.sequence])


def _first_of(writing: Writing, epoch: int) -> int | None:
    """The first record that this epoch has left on the log."""
    writing.rows([Sold("roll", 30, 1)], epoch=2)
    time.sleep(0.1)
    consumer = make_consumer(writing.cluster)
    try:
        for one in read_range(consumer, writing.topic, 0, 0):
            if dict(one.headers() or [])["writer"].endswith(f"/{epoch}".encode()):
                return int(one.offset())
    finally:
        consumer.close()
    return None


KILLED = """
    import os, random, signal, sys
    from pathlib import Path
    sys.path[:0] = {paths!r}
    from cutwater.adapters.kafka.client_config import Cluster
    from cutwater.adapters.job_files.loader import load_job
    from cutwater.views.snapshots.restore import Restorer
    from cutwater.views.snapshots.object_store_tier import SnapshotRepository
    from cutwater.views.store.store import Store
    from cutwater.views.store.table import RocksTable
    from support.views.ways import WAYS
    import threading

    class Written:
        cluster, job = Cluster({bootstrap!r}), load_job(Path({job!r}))
        topic = {topic!r}

    luck = random.Random({seed})
    kind, name = luck.choice((
        (SnapshotRepository, "fetch"), (SnapshotRepository, "fetch"), (Restorer, "_open"), (RocksTable, "replace"),
        (Store, "load"), (RocksTable, "load"), (Store, "commit"),
    ))
    left, known, after, turn = luck.randint(1, 2), getattr(kind, name), luck.random() < 0.5, threading.Lock()

    def dying(*args, **options):
        global left
        with turn:
            left -= 1
            if left == 0 and not after:
                os.kill(os.getpid(), signal.SIGKILL)
        found = known(*args, **options)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(kind, name, dying)
    with WAYS["an old snapshot and its tail in bulk"].go_on(Written, Path({folder!r})) as view:
        view.wait_for({last})
"""


@pytest.mark.slow
def test_killed_at_ten_random_moments_it_ends_as_if_undisturbed(writing: Writing, tmp_path: Path) -> None:
    """I4, from a snapshot and the changelog behind it: before and behind each file, the take-over, each load.

    A start that does not come to its moment any more begins again with another: ten deaths are counted.
    """
    way = WAYS["an old snapshot and its tail in bulk"]
    way.begin(writing, tmp_path)
    for epoch in range(1, 5):
        last = writing.epoch(sales(epoch))
    tests = Path(__file__).parents[3]
    script = {
        "paths": [str(tests)],
        "bootstrap": writing.cluster.bootstrap,
        "job": str(next(tmp_path.glob("*.yaml"))),
        "topic": writing.topic,
        "folder": str(tmp_path),
        "last": last.sequence,
    }
    deaths, places = 0, random.Random(0)
    for _ in range(40):
        code = textwrap.dedent(KILLED).format(seed=places.randint(0, 10**6), **script)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=90, check=False)
        if done.returncode == -signal.SIGKILL:
            deaths += 1
        else:  # it came to its end, and the next one begins from nothing again
            assert done.returncode == 0, done.stderr[-2000:].decode()
            shutil.rmtree(tmp_path / "two")
        if deaths == 10:
            break
    assert deaths == 10, "the kills did not happen"
    with following(writing.cluster, writing.job, tmp_path / "undisturbed") as whole:
        whole.wait_for(last.sequence)
        rows, undisturbed = whole.rows(), digests(writing, whole)
    with keeping(writing, tmp_path / "two", objects(tmp_path), near=False) as (view, _):
        view.wait_for(last.sequence)
        assert view.rows() == rows == (last.sequence, writing.by_sequence[last.sequence])
        assert digests(writing, view) == undisturbed


def digests(writing: Writing, view: Following) -> dict[int, RowTotals]:
    """By shard, as `cutwater verify` compares places."""
    shards = writing.job.shards
    rows = (
        PlaceRow(shards.shard(key_hash(window.key)), RowName(*window), value)
        for window, value in view.view.panes()[1]
    )
    return sum_by_shard(rows, lambda name, value: row_hash(repr(name).encode(), value))
