"""Load read from a real changelog, beside a count of the same events in DuckDB, and what `cutwater skew` shows."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from typer.testing import CliRunner

from cutwater.adapters.hashing import key_hash
from cutwater.cli.main import app
from cutwater.core.errors import UsageError
from cutwater.core.protocol.cuts import Cut
from cutwater.core.skew.spread_plan import home_partition
from cutwater.operations.skew import changelog_load
from cutwater.operations.skew.changelog_load import count_state, read_load
from support.views.changelogs import Sold, Writing, make_job

KEYS, EPOCHS, EACH = 400, 8, 1_500
SOURCE = 4
Epochs = list[list[tuple[str, int]]]


def zipf_events(exponent: float, seed: int) -> Epochs:
    """By epoch the shop and hour of each event: the k-th shop as 1/k^exponent, over three hours."""
    chance = random.Random(seed)
    weights = [1 / (rank + 1) ** exponent for rank in range(KEYS)]
    return [
        [(f"shop-{one}", chance.randrange(3)) for one in chance.choices(range(KEYS), weights, k=EACH)]
        for _ in range(EPOCHS)
    ]


def drive(writing: Writing, epochs: Epochs) -> None:
    counts: Counter[tuple[str, int]] = Counter()
    ends = [0] * SOURCE
    for events in epochs:
        counts.update(events)
        for shop, _ in events:
            ends[home_partition(shop.encode(), SOURCE)] += 1
        rows = [Sold(shop, hour, counts[shop, hour]) for shop, hour in sorted(set(events))]
        cut = Cut.of_topic(f"{writing.job.name}.events", ends)
        writing.epoch(rows, events=len(events), source_cut=cut)


@pytest.fixture
def written(broker: Any, tmp_path: Path) -> Iterator[tuple[Writing, Epochs, Path]]:
    job, path = make_job(tmp_path)
    writing, epochs = Writing(broker.cluster, job), zipf_events(1.3, seed=5)
    drive(writing, epochs)
    yield writing, epochs, path
    writing.close()


def by_duckdb(epochs: Epochs, newest: int) -> tuple[dict[str, int], dict[int, int]]:
    """Events by shop, and by shard of their shop, of the newest epochs."""
    frame = pd.DataFrame(  # noqa: F841 - for DuckDB
        [(number, shop, key_hash(shop) & 1023) for number, some in enumerate(epochs) for shop, _ in some],
        columns=["epoch", "shop", "shard"],
    )
    first = len(epochs) - newest
    keys = duckdb.sql(f"SELECT shop, count(*) FROM frame WHERE epoch >= {first} GROUP BY ALL").fetchall()
    shards = duckdb.sql(f"SELECT shard, count(*) FROM frame WHERE epoch >= {first} GROUP BY ALL").fetchall()
    return dict(keys), dict(shards)


@pytest.mark.slow
def test_zipf_load_is_what_duckdb_counts(written: tuple[Writing, Epochs, Path], monkeypatch: Any) -> None:
    """Exactly with all milestones; with fewer, and with a small sketch, within the errors that are told."""
    writing, epochs, _ = written
    keys, shards = by_duckdb(epochs, EPOCHS)
    load = read_load(writing.cluster, writing.job, 30)
    assert (load.measured, load.overcount, load.keys_error, load.rows_error) == (True, 0, 0, 0)
    heaviest = sorted(keys.items(), key=lambda one: (-one[1], one[0]))[:100]
    assert [(one.key, one.events) for one in load.keys] == heaviest
    assert {at: n for at, n in enumerate(load.shards) if n} == shards
    assert [sum(one) for one in load.cells] == [EACH] * EPOCHS
    assert sum(load.source.values()) == EPOCHS * EACH
    assert sum(load.rows_by_partition) == sum(load.shard_rows) == load.rows_read

    some = read_load(writing.cluster, writing.job, 2)
    true, _ = by_duckdb(epochs, 2)
    assert (len(some.milestones), some.warm_up) == (2, 2)
    assert some.overcount == some.events - 2 * EACH > 0
    for one in some.keys:
        assert true[one.key] <= one.events <= true[one.key] + some.overcount
    hot = some.keys[0]
    assert hot.events == true[hot.key], "a hot key is in the warm-up: nothing of it is counted twice"

    monkeypatch.setattr(changelog_load, "LoadTally", lambda *a, **k: tally(*a, **{**k, "keys_held": 40}))
    small = read_load(writing.cluster, writing.job, 30)
    assert 0 < small.keys_error <= EPOCHS * EACH / 20
    for one in small.keys:
        assert keys[one.key] - small.keys_error <= one.events <= keys[one.key]
    assert small.keys[0].key == heaviest[0][0]


tally = changelog_load.LoadTally


@pytest.mark.slow
def test_fewer_milestones_are_counted_of_too_many_records(written: tuple[Writing, Epochs, Path]) -> None:
    writing, _, _ = written
    every = read_load(writing.cluster, writing.job, 30)
    load = read_load(writing.cluster, writing.job, 30, records_max=every.rows_read // 2)
    assert len(load.milestones) < EPOCHS
    assert load.rows_read <= every.rows_read // 2


@pytest.mark.slow
def test_the_state_is_counted_by_shard(written: tuple[Writing, Epochs, Path]) -> None:
    """All of it, or the newest rows, and it says which."""
    writing, epochs, _ = written
    assert writing.last is not None
    rows = {one for some in epochs for one in some}
    counted = count_state(writing.cluster, writing.job, writing.last)
    assert counted.whole
    assert (sum(counted.rows), sum(counted.keys)) == (len(rows), len({shop for shop, _ in rows}))
    few = count_state(writing.cluster, writing.job, writing.last, records_max=300)
    assert not few.whole
    assert 0 < sum(few.rows) <= 300


@pytest.mark.slow
def test_without_a_milestone_to_count_that_is_said(broker: Any, tmp_path: Path) -> None:
    writing = Writing(broker.cluster, make_job(tmp_path)[0])
    with pytest.raises(UsageError, match="no milestone whose rows"):
        read_load(broker.cluster, writing.job, 30)
    writing.close()


def test_the_verb_names_the_hot_key(written: tuple[Writing, Epochs, Path]) -> None:
    """In JSON: the hottest key of the events is the one to spread."""
    writing, epochs, path = written
    place = [str(path), "--bootstrap-servers", writing.cluster.bootstrap]
    told = json.loads(CliRunner().invoke(app, ["skew", "show", *place, "--json"], catch_exceptions=False).stdout)
    keys, _ = by_duckdb(epochs, EPOCHS)
    assert told["keys"][0] == {"key": "shop-0", "events": keys["shop-0"], "rows": told["keys"][0]["rows"]}
    assert [one["partition"] for one in told["source"]] == list(range(SOURCE))
    assert told["recommendations"][0]["kind"] == "spread"
    assert (told["weight"], told["total"], told["overcount"]) == ("events", EPOCHS * EACH, 0)


@pytest.mark.slow
def test_the_heat_is_shown_and_drawn(written: tuple[Writing, Epochs, Path], tmp_path: Path) -> None:
    """The group's name alone means `show`."""
    writing, _, path = written
    place = [str(path), "--bootstrap-servers", writing.cluster.bootstrap]
    picture = tmp_path / "heat.png"
    shown = CliRunner().invoke(app, ["skew", *place, "--png", str(picture)], catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    assert "12,000 events in 8 milestones" in shown.stdout
    assert "recommended: cutwater skew spread shop-0 --over" in shown.stdout
    assert any("█" in line and "partition" in line for line in shown.stdout.splitlines())
    assert picture.read_bytes().startswith(b"\x89PNG")
