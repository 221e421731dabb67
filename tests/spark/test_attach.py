"""A user's own query under Cutwater: the example of docs/ATTACH.md as a real process, killed and started again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

from cutwater.adapters.topics.alerts import read_alerts
from cutwater.client.committed import committed
from cutwater.core.monitoring.alerts import DIVERGENCE, on
from cutwater.core.protocol import topics
from cutwater.core.protocol.chain import find_chain_faults
from cutwater.local.machine.ports import free_ports
from support import shop as example
from support.harness import GENERATION, kill_session, wait_until
from support.shop import PROGRAM, Shop

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def shop(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Shop]:
    made = Shop(broker.cluster, tmp_path, unique("orders"))
    yield made
    made.close()


def test_an_attached_query_is_exact_after_kill_9(shop: Shop) -> None:
    """The tutorial's query, killed in the middle of its backlog: the newest milestone's state is exact.

    The kill came between the first and the last epoch; the milestones are one unbroken chain of two attempts, and
    count each event once. Output, `committed()` and the view know no difference to a job of ours.
    """
    made = example.orders(9_000)
    assert len(made) > len({one["event_id"] for one in made}), "some orders must come twice"
    shop.orders(made)
    shop.signal()
    first = shop.program()
    wait_until(lambda: len(shop.milestones()) >= 3 or first.poll() is not None, "three milestones")
    assert first.poll() is None, shop.log(PROGRAM).read_text()[-3000:]
    kill_session(first.pid)
    first.wait(60)
    assert len(shop.milestones()) < 10, "the kill must come in the middle of the backlog"
    second = shop.program()
    milestone = shop.wait_committed()
    expected = example.expected(made)
    assert shop.state(milestone) == expected
    stream = shop.milestones()
    assert list(find_chain_faults(stream)) == []
    assert {one.attempt for one, _ in stream} == {1, 2}
    assert sum(one.events for one, _ in stream) == len(made)

    port = free_ports(1)[0]
    shop.start("cutwater.rehydrator", CUTWATER_PORT=str(port))
    shop.start("cutwater.publisher")
    for source in ("changelog", "output"):
        told = {}
        for whole in committed(shop.job, shop.cluster, source=source, idle_s=60):  # type: ignore[arg-type]
            told |= {(row.key, row.window_start_ms): row.values for row in whole.changes}
            if whole.token.sequence == milestone.sequence:
                break
        assert told == expected, source

    def answer() -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = httpx.get(f"http://127.0.0.1:{port}/v1/state/north", timeout=5).json()
        except (httpx.HTTPError, ValueError):
            return None
        shown = found.get("milestone", {}).get("token")
        return found if shown == str(milestone.token) else None

    served = wait_until(answer, "the view at the newest milestone")
    assert len(served["rows"]) == len([key for key, _ in expected if key == "north"])

    producer = Producer(shop.cluster.librdkafka())
    producer.produce(topics.changelog(shop.job.name, GENERATION), key=b"zombie", value=b"old", partition=0)
    producer.flush(20)
    wait_until(lambda: second.poll() is not None, "a foreign row to end the query at a heartbeat")
    told = [(one.kind, one.part) for one in on(read_alerts(shop.cluster, shop.job.name))]
    assert told == [(DIVERGENCE, "driver")], "as a driver of a job file tells it"


def test_the_driver_refuses_an_attached_job(shop: Shop) -> None:
    """`python -m cutwater_spark.driver` on such a job ends with exit code 2 and says what runs it."""
    driver = shop.start_command("driver", [sys.executable, "-m", "cutwater_spark.driver", str(shop.job_file)])
    assert driver.wait(90) == 2
    assert "cutwater_spark.attach" in shop.log("driver").read_text()


def test_an_attached_query_that_lost_records_says_what_can_be_done(shop: Shop) -> None:
    """The changelog is made anew: no milestone is complete any more, and a rollback would be refused."""
    shop.orders(example.orders(300))
    shop.signal()
    first = shop.program()
    shop.wait_committed()
    kill_session(first.pid)
    first.wait(60)
    shop.remake_changelog()
    second = shop.program()
    wait_until(lambda: second.poll() is not None, "the query to end")
    said = shop.log(PROGRAM).read_text()
    assert "below the cut of barrier" in said
    assert "No milestone is complete any more: restore the topics, or start the job under another name" in said
    told = [(one.kind, one.part) for one in on(read_alerts(shop.cluster, shop.job.name))]
    assert told == [(DIVERGENCE, "driver")]
