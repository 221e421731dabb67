"""What Spark does to streaming state that others stumbled over: shown to do no harm here (docs/GUARANTEES.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.core.protocol import topics
from cutwater.core.protocol.chain import find_chain_faults
from support import shop as example
from support.harness import kill_session, wait_until
from support.shop import PROGRAM, Shop

pytestmark = [pytest.mark.spark, pytest.mark.slow]
EAGER = {
    "spark.sql.streaming.stateStore.maintenanceInterval": "500ms",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1",
    "spark.sql.streaming.minBatchesToRetain": "2",
}
"""A snapshot after every epoch, and what two epochs do not need is deleted twice a second."""


@pytest.fixture
def shop(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Shop]:
    made = Shop(broker.cluster, tmp_path, unique("traps"))
    yield made
    made.close()


def versions(shop: Shop) -> list[int]:
    """The versions of the state that are on disk, of all operators and partitions."""
    files = [path for path in (shop.folder / "checkpoints").rglob("state/*/*/*") if path.stem.isdecimal()]
    return sorted({int(path.stem) for path in files if path.suffix in {".zip", ".changelog"}})


def test_maintenance_deletes_no_state_file_that_a_restart_needs(shop: Shop) -> None:
    """SPARK-55892: files that a replayed epoch uses again were deleted. Here the state is exact after kill -9."""
    made = example.orders(12_000)
    shop.orders(made)
    shop.signal()
    first = shop.program(EAGER)
    wait_until(lambda: len(shop.milestones()) >= 3 or first.poll() is not None, "three milestones")
    assert first.poll() is None, shop.log(PROGRAM).read_text()[-3000:]
    wait_until(lambda: min(versions(shop), default=0) > 1, "maintenance to delete something")
    kill_session(first.pid)
    first.wait(60)
    shop.program(EAGER)
    milestone = shop.wait_committed()
    assert shop.state(milestone) == example.expected(made)
    assert {one.attempt for one, _ in shop.milestones()} == {1, 2}
    assert list(find_chain_faults(shop.milestones())) == []


def test_an_idle_branch_of_a_union_holds_back_the_watermark_and_no_milestone(shop: Shop) -> None:
    """The watermark of a union is its slowest branch's: milestones say so, and what is counted is shown."""
    other = f"{shop.source}.other"
    ensure_topics(shop.cluster, [topics.events(other, 1)])
    program = shop.job_file.with_name("orders_query.py")
    program.write_text(with_union(program.read_text("utf-8"), other), "utf-8")
    made = example.orders(3_000)
    shop.orders(made)
    shop.signal()
    shop.program()
    milestone = shop.wait_committed()
    assert shop.state(milestone) == example.expected(made)
    assert [one.watermark_ms for one, _ in shop.milestones()] == [0] * len(shop.milestones())

    late = {**made[-1], "event_id": "elsewhere"}
    producer = Producer(shop.cluster.librdkafka())
    producer.produce(other, json.dumps(late).encode())
    assert producer.flush(20) == 0
    wait_until(lambda: shop.milestones()[-1][0].watermark_ms > 0, "a watermark, once both branches speak")
    assert shop.state(shop.milestones()[-1][0]) == example.expected([*made, late])


def with_union(program: str, other: str) -> str:
    """The example's program, with a second topic beside the first; each branch has its own watermark."""
    begin, end = program.index("    orders = ("), program.index("    customers = ")
    branch = program[begin:end].replace("orders = (", "return (", 1).replace("TOPIC", "topic")
    body = branch.replace('.select("order.*")', '.select("order.*").withWatermark("at", "1 hour")')
    union = f'    orders = _branch(spark, TOPIC).union(_branch(spark, "{other}"))\n'
    made = program[:begin] + union + program[end:]
    made = made.replace('orders.withWatermark("at", "1 hour")\n        .drop', "orders.drop")
    return made.replace(
        "def revenue", f"def _branch(spark: SparkSession, topic: str) -> DataFrame:\n{body}\n\ndef revenue"
    )
