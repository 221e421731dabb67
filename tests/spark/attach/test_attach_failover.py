"""An attached query continues in another region when its own is killed: real processes on two brokers, against
DuckDB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.config.settings import environment
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.topics import mirror_topics
from cutwater.adapters.topics.commit_stream import source_end
from cutwater.core.protocol import topics
from cutwater.core.protocol.chain import find_chain_faults
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.mirror_records import from_origin
from cutwater.core.protocol.records import Milestone
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.java import find_java
from cutwater.local.processes.supervisor import Supervisor
from support import shop as example
from support.harness import kill_session, wait_until
from support.shop import SALES, Shop

pytestmark = [pytest.mark.spark, pytest.mark.slow]
US, EU = "us", "eu"
FIRST = Generation(1, US)


class Region(Shop):
    """The example in one region; its job file names the topic."""

    def __init__(self, region: str, cluster: Any, folder: Path, name: str) -> None:
        folder.mkdir()
        super().__init__(cluster, folder, name, SALES)
        text = self.job_file.read_text().replace("  key: region\n", f"  key: region\n  source: {self.source}\n")
        self.job_file.write_text(text)
        self.settings["CUTWATER_REGION"] = region


@pytest.fixture
def away(tmp_path: Path, kafka_jars: list[Path]) -> Iterator[tuple[Any, ExitStack]]:
    """The other region's cluster, which dies with the stack."""
    embedded = Broker(tmp_path / "away", find_java(), kafka_jars)
    with ExitStack() as stack:
        stack.enter_context(Supervisor([embedded.supervised()])).start(threading.Event())
        yield embedded.cluster, stack


@pytest.mark.timeout(1_200)
def test_an_attached_query_fails_over(
    away: tuple[Any, ExitStack], broker: Any, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """Killed in its third epoch, with its broker. The program in the other region is the same: it continues with
    what was copied behind the newest arrival, and with the orders of its own region."""
    cluster, dies = away
    name = unique("sales")
    us = Region(US, cluster, tmp_path / US, name)
    eu = Region(EU, broker.cluster, tmp_path / EU, name)
    try:
        made = example.orders(2_200)
        us.orders(made)
        await_parent(us, eu)
        later = example.orders(300, 4, 1_000_000)
        us.orders(later)
        end = source_end(us.cluster, us.source)
        wait_until(lambda: copied(eu, us) == end, "the copies of all orders", 120)
        us.close()
        eu.close()  # the mirror
        dies.close()

        claimed = fail_over(eu, cluster)
        second = Generation.parse(claimed["generation"])
        named = {"CUTWATER_GENERATION": str(second)}
        eu.start("cutwater.commit_signal", **named)
        program = eu.program(**named, **origin_of(cluster))
        fresh = example.orders(300, 5, 2_000_000)
        eu.orders(fresh)
        last = milestone_of_all(eu, program, second)
        assert eu.state(last) == example.sales([*made, *later, *fresh])
        assert last.origin_cut == renamed(end, eu.source), "how far the other region's orders are in the state"
        assert claimed["parent"].startswith(str(FIRST))
        assert list(find_chain_faults(eu.milestones())) == []
        assert claimed["loss"]["offsets"] == 0
    finally:
        us.close()
        eu.close()


def origin_of(cluster: Any) -> dict[str, str]:
    theirs = environment(cluster).items()
    return {"CUTWATER_ORIGIN_REGION": US, **{k.replace("CUTWATER_", "CUTWATER_ORIGIN_"): v for k, v in theirs}}


def await_parent(us: Region, eu: Region) -> None:
    """The first generation until it dies in its third epoch, and the arrival of its second milestone."""
    owned = topics.generation_topics(us.job.name, FIRST, us.job.shards.partitions)
    ensure_topics(us.cluster, [one for one in owned if one.name == topics.changelog(us.job.name, FIRST)])
    us.signal()
    eu.start("cutwater.mirror", **origin_of(us.cluster))
    mark = us.folder / "crashed"
    crash = {"POINT": "rows-written@3", "MARK": str(mark), "VICTIM": "process"}
    program = us.program(**{f"CUTWATER_CRASH_{name}": value for name, value in crash.items()})
    wait_until(lambda: mark.exists() or program.poll() is not None, "the crash in the third epoch", 300)
    assert mark.exists(), us.log(SALES).read_text()[-3000:]
    kill_session(program.pid)
    program.wait(60)
    wait_until(us.milestones, "a milestone")

    def arrived() -> bool:
        last = mirror_topics.last_arrival(eu.cluster, eu.job.name, US)
        return last is not None and last.token == us.milestones()[-1][0].token

    wait_until(arrived, lambda: f"its newest arrival: {eu.log('cutwater.mirror').read_text()[-2000:]}", 120)
    parent = us.milestones()[-1][0]
    assert 0 < parent.source_cut.records < 2_200, "orders must be left behind the arrival"


def copied(eu: Region, us: Region) -> Cut:
    found = mirror_topics.positions(eu.cluster, eu.job.name).copies.get(US, {}).values()
    return Cut.of({TopicPartition(us.source, one.partition): one.next for one in found if one.topic == us.source})


def renamed(cut: Cut, source: str) -> Cut:
    return Cut.of({TopicPartition(from_origin(source, US), place.partition): at for place, at in cut})


def fail_over(eu: Region, origin: Any) -> Any:
    env = {**os.environ, **environment(eu.cluster), **origin_of(origin), "CUTWATER_REGION": EU}
    words = ["failover", str(eu.job_file), "--origin", US, "--force", "--wait", "0", "--json"]
    command = [sys.executable, "-m", "cutwater.cli.main", *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def milestone_of_all(eu: Region, program: Any, generation: Generation) -> Milestone:
    """The generation's newest milestone, once it covers every order here."""
    copy = from_origin(eu.source, US)
    end = source_end(eu.cluster, eu.source).and_(source_end(eu.cluster, copy))

    def newest() -> Milestone | None:
        assert program.poll() is None, eu.log(SALES).read_text()[-3000:]
        found = [one for one, _ in eu.milestones() if one.generation == generation]
        return found[-1] if found and found[-1].source_cut.covers(end) else None

    made: Milestone = wait_until(newest, f"a milestone of {generation} with every order", 400)
    return made
