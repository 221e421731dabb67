"""A hot key is spread and put together again under load: every row is DuckDB's over what was sent."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from typer.testing import CliRunner

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.audit_log import read_audit
from cutwater.cli.main import app
from cutwater.client import EventProducer
from cutwater.core.errors import UnavailableError
from cutwater.core.skew.recommendations import EVENTS_MIN
from support.cli.jsonshapes import parsed
from support.events import counting
from support.harness import Flow
from support.waits import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark]

PARTITIONS = 4
PRODUCERS = 2
HOT_SHARE = 0.6


@pytest.fixture
def flow(broker: Any, unique: Any, tmp_path: Path) -> Iterator[Flow]:
    (tmp_path / "event.avsc").write_text(counting.SCHEMA)
    text = counting.job_text(unique("spreads"), per_epoch=2_000, partitions=PARTITIONS)
    (tmp_path / "job.yaml").write_text(text)
    made = Flow(broker.cluster, tmp_path / "job.yaml", tmp_path / "flow")
    yield made
    made.close()


class Sending:
    """Producers that send until `stop`, each with what it sent and the versions that it worked with."""

    def __init__(self, job_file: Path, cluster: Cluster) -> None:
        self._stop = threading.Event()
        self.sent: list[list[dict[str, Any]]] = [[] for _ in range(PRODUCERS)]
        self.versions: list[list[int]] = [[] for _ in range(PRODUCERS)]
        self._threads = [
            threading.Thread(target=self._run, args=(job_file, cluster, number)) for number in range(PRODUCERS)
        ]
        for one in self._threads:
            one.start()

    def _run(self, job_file: Path, cluster: Cluster, number: int) -> None:
        chance = random.Random(number)
        with EventProducer(job_file, cluster) as producer:
            while not self._stop.is_set():
                key = "hot" if chance.random() < HOT_SHARE else f"k{chance.randrange(40)}"
                at = counting.START_MS + chance.randrange(600_000)
                event = {"key": key, "at": at, "value": chance.randrange(-1000, 1000)}
                producer.send(event)
                self.sent[number].append(event)
                self.versions[number].append(producer.spread_version)
                time.sleep(0.02)

    @property
    def count(self) -> int:
        return sum(map(len, self.sent))

    def stop(self) -> list[dict[str, Any]]:
        self._stop.set()
        for one in self._threads:
            one.join()
        return [event for some in self.sent for event in some]


def expected(events: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, int]]:
    frame = pd.DataFrame(events)  # noqa: F841 - for DuckDB
    rows = duckdb.sql(
        'SELECT key, "at" // 60000 * 60000, count(*), sum(value)::BIGINT FROM frame GROUP BY ALL'
    ).fetchall()
    return {(key, start): {"ticks": ticks, "total": total} for key, start, ticks, total in rows}


@pytest.mark.timeout(1_200)
def test_rows_stay_exact_while_a_key_is_spread_and_put_together(flow: Flow) -> None:
    """Two producers, three versions of the plan; the load names the key before, and is even while it is spread."""
    place = ["--bootstrap-servers", flow.cluster.bootstrap]

    def skew(verb: str, *words: str) -> Any:
        file = ["--job-file"] if verb in ("spread", "unspread") else []
        command = ["skew", verb, *words, *file, str(flow.job_file), *place, "--json"]
        done = CliRunner().invoke(app, command, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return parsed(["skew", verb], done.stdout)

    def adopted(version: int) -> bool:
        return [one["version"] for one in skew("plan")["producers"]] == [version] * PRODUCERS

    def read() -> int:
        """How many events are in milestones, as far as a busy broker tells."""
        with suppress(UnavailableError):
            found = flow.milestones()
            return found[-1][0].source_cut.records if found else 0
        return 0

    def counted(more: int) -> None:
        wanted = sending.count + more
        wait_until(lambda: read() >= wanted, f"{wanted} events are counted; logs in {flow.folder}")

    flow.signal()
    flow.driver()
    sending = Sending(flow.job_file, flow.cluster)
    try:
        counted(EVENTS_MIN)
        before = skew("show", "--milestones", "5000")
        made = skew("spread", "hot", "--over", str(PARTITIONS), "--reason", "a test")
        assert (made["version"], made["written"]) == (1, True)
        wait_until(lambda: adopted(1), "both producers work with version 1")
        counted(150)
        newest = flow.milestones()[-1][0].sequence
        counted(300)
        since = flow.milestones()[-1][0].sequence - newest
        spread = skew("show", "--milestones", str(max(1, since)))
        assert skew("unspread", "hot")["version"] == 2
        wait_until(lambda: adopted(2), "both producers work with version 2")
        counted(150)
    finally:
        events = sending.stop()
    assert flow.state(flow.wait_committed()) == expected(events)

    for versions in sending.versions:
        assert versions == sorted(versions)
        assert set(versions) == {0, 1, 2}
    assert before["keys"][0]["key"] == "hot"
    assert (before["recommendations"][0]["kind"], before["recommendations"][0]["key"]) == ("spread", "hot")
    fullest = [
        max(one["records"] for one in told["source"]) / sum(one["records"] for one in told["source"])
        for told in (before, spread)
    ]
    assert fullest[0] > HOT_SHARE
    assert fullest[1] < 0.4
    every = skew("show", "--milestones", "5000")
    hot = sum(event["key"] == "hot" for event in events)
    assert (every["keys"][0]["events"], every["total"], every["overcount"]) == (hot, len(events), 0)
    assert skew("plan")["producers"] == [], "both have ended"
    told = read_audit(flow.cluster, flow.job.name, 10)
    actions = [(one.action, one.object, one.outcome) for one in told.readable]
    assert actions == [
        (action, "hot", outcome) for action in ("skew spread", "skew unspread") for outcome in ("begun", "done")
    ]
