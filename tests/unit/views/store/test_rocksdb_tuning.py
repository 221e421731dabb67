"""What a view's RocksDB holds in memory, and what it says of itself."""

from __future__ import annotations

import json
import math
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cutwater.rehydrator.metrics.rocksdb import StoreMetrics
from cutwater.views.store.pinned_rows import PinnedRows
from cutwater.views.store.store import Store
from cutwater.views.store.table import RocksTable
from support.views.changelogs import GENERATION, Sold, make_job
from unit.views.store.test_store import entry, rows

pytestmark = pytest.mark.slow

BOUND = 16 << 20
MILESTONES, ROWS = 250, 4_000
READERS = 2
"""Of older moments: exports."""
WORKING = 24 << 20
"""What compaction and the allocator take besides, whatever the bound is; about 20 MB were measured."""


def resident() -> int:
    """Bytes of this process that are nobody's files."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) << 10


def follow_and_read(folder: Path) -> dict[str, int]:
    """Write milestone after milestone and read at random; the most that was held."""
    luck, table = random.Random(3), RocksTable(folder, BOUND)
    values = [luck.randbytes(120) for _ in range(500)]

    def key(segment: int) -> bytes:
        return b"\x01%05d%016x" % (segment, luck.getrandbits(60))

    older: list[PinnedRows] = []
    before = most = most_resident = 0
    for number in range(MILESTONES):
        segment = number // 100
        table.write({key(segment): luck.choice(values) for _ in range(ROWS)})
        shown = PinnedRows(table.cursor(b"\x02"), folder)
        if number % 50 == 25:
            older = [*older, shown][-READERS:]
        for _ in range(100):
            next(shown.rows(key(luck.randrange(segment + 1)), b"\x02", 20), None)
        if number == 3:
            before = resident()
        most, most_resident = max(most, table.figures().memory_bytes), max(most_resident, resident())
    figures = table.figures()
    shown = PinnedRows(table.cursor(b"\x02"), folder)
    older.clear()
    return {"held": most, "resident": most_resident - before, "files": figures.live_bytes}


def test_memory_stays_within_its_bound(tmp_path: Path) -> None:
    """Blocks, indexes and write buffers have one bound, a fifth more at most with readers of older milestones."""
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path / "table")],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["files"] > 6 * BOUND, "there must be more to hold than may be held"
    assert 0.5 * BOUND < found["held"] <= 1.2 * BOUND, found
    assert found["resident"] <= 1.2 * BOUND + WORKING, found


def test_rocksdb_says_what_it_wrote_and_found(tmp_path: Path) -> None:
    """Puts, log, flushes, hits: counted; and a store that is closed says nothing, which breaks no scrape."""
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION)
    figures = store.figures()
    assert figures is not None
    assert math.isnan(figures.amplification) or figures.flushed_bytes == 0
    put = rows(job, store, [Sold(f"s{number}", number % 50, number) for number in range(5_000)])
    store.commit(entry(job, 1), put)
    store.checkpoint(tmp_path / "checkpoint")  # which flushes
    for _ in range(2):
        assert len(list(store.pin().rows(b"\x01", b"\x02"))) == 5_000
    figures = store.figures()
    assert figures is not None
    size = sum(len(key) + len(value) for key, value in put.items())
    assert figures.put_bytes >= size
    assert figures.logged_bytes >= size
    assert 0 < figures.flushed_bytes < 2 * size
    assert figures.amplification == figures.flushed_bytes / figures.put_bytes
    assert figures.live_bytes == figures.files_bytes > 0
    assert figures.cache_misses > 0
    assert figures.cache_hits > 0
    registry = CollectorRegistry()
    registry.register(StoreMetrics(store.figures))
    text = generate_latest(registry).decode()
    assert f"cutwater_view_store_put_bytes_total {float(figures.put_bytes)}" in text
    store.close()
    assert store.figures() is None
    assert "cutwater_view_store_put_bytes_total " not in re.sub("#.*", "", generate_latest(registry).decode())


if __name__ == "__main__":
    print(json.dumps(follow_and_read(Path(sys.argv[1]))))
