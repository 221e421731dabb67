"""An attached query with `merges` starts again from a milestone: the example as real processes, against DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from cutwater.adapters.topics.commit_stream import source_end
from cutwater.core.protocol.records import Barrier, Milestone
from support import shop as example
from support.harness import kill_session, wait_until
from support.lineage import Second
from support.shop import EXAMPLE, SALES, Shop

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def shop(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Shop]:
    made = Shop(broker.cluster, tmp_path, unique("sales"), SALES)
    yield made
    made.close()


def test_an_attached_query_starts_again_from_a_milestone(shop: Shop) -> None:
    """Three partitions in place of two, from a milestone in the middle, and killed in the middle of its backlog.

    The seed's window closes while the generation runs, rows of the seed that get no event are there from its first
    epoch on, and after a restart rows are merged as before.
    """
    made = example.orders(3_000)
    shop.orders(made)
    shop.signal()
    first = shop.program()
    wait_until(lambda: len(shop.milestones()) >= 2 or first.poll() is not None, "two milestones")
    assert first.poll() is None, shop.log(SALES).read_text()[-3000:]
    parent = shop.wait_committed()
    kill_session(first.pid)
    first.wait(60)
    assert shop.state(parent) == expected(made)
    parent = next(one for one, _ in shop.milestones() if one.events)
    assert not parent.source_cut.covers(source_end(shop.cluster, shop.source)), "the parent must be in the middle"

    second = Second(shop, parent, 3)  # type: ignore[arg-type]
    again = shop.program(**second.env)
    wait_until(lambda: second.barriers() or again.poll() is not None, "the second generation's epoch")
    assert again.poll() is None, shop.log(SALES).read_text()[-3000:]
    kill_session(again.pid)
    again.wait(60)
    third = shop.program(**second.env)
    # Orders for windows of the seed, then later ones, by which the seed's windows close.
    later: list[dict[str, Any]] = []
    for fresh in (
        example.orders(1_500, 4, 2_000_000),
        example.orders(900, 5, 9_000_000),
        example.orders(99, 6, 9_500_000),
    ):
        shop.orders(fresh)
        later += fresh
        wait_until(lambda: covering(second, shop) or third.poll() is not None, "the generation to read all")
        assert third.poll() is None, shop.log(SALES).read_text()[-3000:]
    barriers = second.barriers()
    assert len({one.attempt for one in second.barriers()}) == 2, "the kill must come between two epochs"
    assert shop.state(barriers[-1]) == expected(made + later)
    assert barriers[-1].watermark_ms > max(one["window_end"] for one in windows(made)), "the seed must have closed"
    assert sum(one.events for one in second.barriers()) + read_by(parent) == len(made + later)


def read_by(parent: Milestone) -> int:
    return sum(offset for _, offset in parent.source_cut)


def windows(made: list[dict[str, Any]]) -> list[dict[str, int]]:
    return [{"window_end": start + 600_000} for _, start in expected(made)]


def covering(second: Second, shop: Shop) -> list[Barrier]:
    found, end = second.barriers(), source_end(shop.cluster, shop.source)
    return found if found and found[-1].source_cut.covers(end) else []


def expected(made: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    """All events' rows by DuckDB: no order of the test is so late that its window has closed."""
    orders = pd.DataFrame(made)  # noqa: F841  (read by DuckDB)
    rows = duckdb.sql(
        'select region, (epoch_ms(orders."at"::timestamptz) // 600000) * 600000 as start, count(*) as orders, '
        "sum(cents)::bigint as cents, min(cents) as smallest, max(cents) as largest, max(event_id) as latest "
        f"from orders join read_csv('{EXAMPLE}/customers.csv', header=true) using (customer) group by all"
    )
    names = rows.columns[2:]
    return {(row[0], row[1]): dict(zip(names, row[2:], strict=True)) for row in rows.fetchall()}
