"""The census of a view on real RocksDB: exact where nothing is written, beside writers, and never in the way."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry, generate_latest

from cutwater.adapters.hashing import key_hash
from cutwater.core.errors import MachineError
from cutwater.core.job.shards import ShardMap
from cutwater.core.state.size_census import Size
from cutwater.rehydrator.metrics.state_size import SHARDS_SHOWN, SizeMetrics, sizes_plain
from cutwater.views.changelog.range_reader import Stopped
from cutwater.views.follow import size_census as counting
from cutwater.views.follow.size_census import Census, CensusResult
from cutwater.views.store import key_layout
from cutwater.views.store.store import Store
from support.views.changelogs import GENERATION, HOUR_MS, Sold, make_job, now_ms, until
from unit.views.store.test_store import entry, rows

SHARDS = ShardMap(64, 3)


def census_of(store: Store, every_ms: int = 3_600_000) -> Census:
    return Census(store, SHARDS, every_ms, now_ms, structlog.get_logger())


def sold() -> list[Sold]:
    """Keys of very different sizes, some of them awkward, over many segments."""
    names = [f"s{number}" for number in range(40)] + ["", "a\x00b", "a\x00", "ü", "x" * 500, "x" * 500 + "y"]
    return [Sold(name, hour, hour) for at, name in enumerate(names) for hour in range(0, 60, at % 7 + 1)]


@pytest.fixture
def store(tmp_path: Path) -> Any:
    job, _ = make_job(tmp_path)
    one = Store(tmp_path / "v", job, GENERATION)
    one.commit(entry(job, 1), rows(job, one, sold()))
    yield one
    one.close()


@pytest.mark.parametrize("piece", [1, 7, 2_000])
def test_everything_is_counted_once(store: Store, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    """Against a plain sum: by segment, by shard and by key, wherever a piece ends; metadata is not state."""
    monkeypatch.setattr(counting, "PIECE_ROWS", piece)
    sizes = census_of(store).count().sizes
    segments: dict[int, Size] = {}
    shards: dict[int, Size] = {}
    keys = Counter[str]()
    for storage, value in store.pin().rows(key_layout.WINDOWS_START, key_layout.WINDOWS_END):
        window, size = key_layout.parse(storage), len(storage) + len(value)
        segment, shard = key_layout.segment_of(window.end_ms, store.segment_ms), SHARDS.shard(key_hash(window.key))
        segments[segment] = segments.get(segment, Size()).plus(1, size)
        shards[shard] = shards.get(shard, Size()).plus(1, size)
        keys[window.key] += size
    assert (sizes.segments, sizes.shards) == (segments, shards)
    assert sizes.total == Size(len(sold()), keys.total())
    assert (sizes.error_bytes, len(sizes.largest)) == (0, 20)
    named = [(one.key if len(one.key) <= 200 else "x" * 500, one.bytes) for one in sizes.largest]
    assert [size for _, size in named] == [size for _, size in keys.most_common(20)]
    assert len({one.key for one in sizes.largest}) == 20, "long keys are told apart"


def test_it_is_told_as_json_and_as_metrics(store: Store) -> None:
    """Segments by their ends, shards and keys; a bounded number of series, without the names of keys."""
    counted = census_of(store).count()
    plain = sizes_plain(counted, store.segment_ms, 5_000_000)
    assert plain["rows"] == sum(one["rows"] for one in plain["segments"]) == len(sold())
    assert plain["bytes"] == sum(one["bytes"] for one in plain["shards"])
    assert plain["segments"][0]["ends_up_to"] == "1970-01-01T04:00:00Z"
    assert plain["max_bytes"] == 5_000_000
    registry = CollectorRegistry()
    registry.register(SizeMetrics(lambda: counted))
    text = generate_latest(registry).decode()
    assert f"cutwater_view_state_bytes {float(plain['bytes'])}" in text
    assert text.count("cutwater_view_shard_bytes{") == min(SHARDS_SHOWN, len(plain["shards"]))
    assert f'cutwater_view_key_bytes{{rank="1"}} {float(plain["largest_keys"][0]["bytes"])}' in text
    assert "xxxx" not in text


def test_it_counts_beside_a_writer_and_counts_again_when_asked(store: Store, tmp_path: Path) -> None:
    """What was there and is there is in every census; the follower's thread never waits for one."""
    job, _ = make_job(tmp_path / "other")
    census = census_of(store)
    thread = threading.Thread(target=census.run)
    thread.start()
    try:
        for sequence in range(2, 200):
            store.commit(
                entry(job, sequence), rows(job, store, [Sold("s1", 1, sequence), Sold("new", 59, sequence)])
            )
            if sequence % 20 == 0:
                census.request_count()
        first: list[CensusResult | None] = [census.counted]
        census.request_count()
        until(lambda: census.counted is not None and census.counted is not first[0], "another census")
        census.request_count()
        first = [census.counted]
        until(lambda: census.counted is not first[0], "the last census")
        assert census.counted is not None
        assert census.counted.sizes.total.rows == len(sold()) + 2
        assert census.counted.written_bytes == store.written_bytes
    finally:
        census.stop()
        thread.join(20)
    assert not thread.is_alive()


def test_a_store_that_is_away_is_counted_later(tmp_path: Path) -> None:
    """While a snapshot takes its place there is nothing to be counted: that ends no process."""
    job, _ = make_job(tmp_path)
    store = Store(tmp_path / "v", job, GENERATION)
    store.commit(entry(job, 1), rows(job, store, sold()))
    census = census_of(store)
    store.close()
    with pytest.raises(MachineError):
        census.count()
    census.request_count()
    thread = threading.Thread(target=census.run)
    thread.start()
    until(lambda: not census._wanted.is_set(), "a try")
    census.stop()
    thread.join(20)
    assert (thread.is_alive(), census.counted) == (False, None)


def test_a_stop_is_heard_in_the_middle(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two pieces, however long the rest would be."""
    monkeypatch.setattr(counting, "PIECE_ROWS", 1)
    census = Census(store, SHARDS, 3_600_000, now_ms, structlog.get_logger(), share=1e-9)
    census.stop()
    with pytest.raises(Stopped):
        census.count()


def test_a_census_of_two_milestones_is_of_windows_that_end_in_its_segments(store: Store) -> None:
    """Evicted segments are gone from the next one."""
    before = census_of(store).count().sizes
    assert store.applied is not None
    store.commit(store.applied, {}, lower_ms=32 * HOUR_MS)
    after = census_of(store).count().sizes
    assert after.segments == {number: size for number, size in before.segments.items() if number >= 8}
