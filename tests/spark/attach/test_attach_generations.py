"""An attached query with `merges` starts again from a milestone: the example as real processes, against DuckDB."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.commit_stream import source_end
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.protocol.chain import find_chain_faults
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.operations.generations.claims import Claims
from support import shop as example
from support.harness import kill_session, wait_until
from support.shop import SALES, Shop

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def shop(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Shop]:
    made = Shop(broker.cluster, tmp_path, unique("sales"), SALES)
    yield made
    made.close()


def test_an_attached_query_is_rolled_back_into_more_partitions(shop: Shop) -> None:
    """From its first milestone, with three partitions in place of two, and killed in its second epoch.

    Rows of the seed that get no event are there from the first epoch on. The seed's windows close while the
    generation runs, and after restarts, of which the last one names no generation, rows are merged as before.
    """
    made = example.orders(2_000)
    shop.orders(made)
    shop.signal()
    program = shop.program()
    last = milestone_of_all(shop, program, Generation(1, "local"))
    assert shop.state(last) == example.sales(made)
    kill_session(program.pid)
    program.wait(60)
    parent = next(one for one, _ in shop.milestones() if one.events)
    assert not parent.source_cut.covers(last.source_cut), "the rollback must read events again"

    claims = Claims(shop.cluster, shop.job, "local", now_ms)
    second = claims.start(str(parent.token), 3, True, "a test", UNREPLICATED).generation
    named = {"CUTWATER_GENERATION": str(second)}
    shop.start("cutwater.commit_signal", **named)
    claims.promote(second)
    mark = shop.folder / "crashed"
    crash = {"POINT": "rows-written@2", "MARK": str(mark), "VICTIM": "process"}
    program = shop.program(**named, **{f"CUTWATER_CRASH_{name}": value for name, value in crash.items()})
    wait_until(lambda: mark.exists() or program.poll() is not None, "the crash in the second epoch")
    assert mark.exists(), shop.log(SALES).read_text()[-3000:]
    kill_session(program.pid)
    program.wait(60)
    program = shop.program(**named)
    last = milestone_of_all(shop, program, second)
    assert shop.state(last) == example.sales(made)
    assert sum(one.events for one in of(shop, second)) + parent.source_cut.records == len(made)
    program.send_signal(signal.SIGTERM)
    program.wait(60)  # spark-submit says 143, whatever the program says

    program = shop.program()
    # Orders for windows of the seed, then later ones, by which the seed's windows close.
    for seed, from_ms in ((4, 2_000_000), (5, 9_000_000), (6, 9_500_000)):
        fresh = example.orders(400, seed, from_ms)
        shop.orders(fresh)
        made += fresh
        last = milestone_of_all(shop, program, second)
    assert shop.state(last) == example.sales(made)
    assert last.watermark_ms > example.START_MS + 3_600_000, "the seed's windows must have closed"
    assert len(last.changelog_cut) == 3
    assert list(find_chain_faults(shop.milestones())) == []
    assert {one.attempt for one in of(shop, second)} == {1, 2, 3}


def of(shop: Shop, generation: Generation) -> list[Milestone]:
    return [one for one, _ in shop.milestones() if one.generation == generation]


def milestone_of_all(shop: Shop, program: Any, generation: Generation) -> Milestone:
    """The generation's newest milestone, once it covers every order."""
    end = source_end(shop.cluster, shop.source)

    def newest() -> Milestone | None:
        assert program.poll() is None, shop.log(SALES).read_text()[-3000:]
        found = of(shop, generation)
        return found[-1] if found and found[-1].source_cut.covers(end) else None

    made: Milestone = wait_until(newest, f"a milestone of {generation} with every order")
    return made
