"""The spreading plan on a real broker: producers follow it, say so, and lose no event; one of two is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.avro.codec import Codec
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client import bounds, make_consumer, read_range
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.adapters.topics.spread_plan import SpreadPlans, read_spread
from cutwater.client import AsyncEventProducer, EventProducer
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.errors import FencedError, UsageError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.skew.spread_plan import Spread, home_partition, with_key
from cutwater.operations.skew.spread_control import SpreadChange, SpreadControl
from support.events import counting
from support.views.changelogs import until

pytestmark = pytest.mark.slow

PARTITIONS = 4
ME = SpreadChange("me@here:1", "a test")


@pytest.fixture
def earlier_job(broker: Any, unique: Any, tmp_path: Path) -> Job:
    """As made by an earlier version, without the plan's topic."""
    (tmp_path / "event.avsc").write_text(counting.SCHEMA)
    (tmp_path / "job.yaml").write_text(counting.job_text(unique("ticks")))
    made = load_job(tmp_path / "job.yaml")
    ensure_topics(broker.cluster, [topics.events(made.topic, PARTITIONS)])
    return made


@pytest.fixture
def job(broker: Any, earlier_job: Job) -> Job:
    ensure_topics(broker.cluster, [topics.spread_topic(earlier_job.name)])
    return earlier_job


def control(cluster: Cluster, job: Job) -> SpreadControl:
    return SpreadControl(cluster, job, now_ms)


def event(key: str, number: int) -> dict[str, Any]:
    return {"key": key, "at": counting.START_MS, "value": number}


def found(cluster: Cluster, job: Job) -> dict[str, dict[int, list[int]]]:
    """By key and partition the values, in log order."""
    codec, consumer = Codec(job.event_schema), make_consumer(cluster)
    read: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    try:
        for partition in range(PARTITIONS):
            low, high = bounds(consumer, job.topic, partition)
            for message in read_range(consumer, job.topic, partition, low, high) if low < high else ():
                one = codec.decode(message.value())
                read[one["key"]][partition].append(one["value"])
    finally:
        consumer.close()
    return read


def test_a_key_is_spread_and_put_together_again(broker: Any, job: Job) -> None:
    """Staged by version: each event goes by the version that its producer works with, and no other key moves."""
    cluster, home = broker.cluster, home_partition(b"hot", PARTITIONS)
    plans = control(cluster, job)
    with EventProducer(job, cluster) as producer:
        assert producer.spread_version == 0
        for number in range(100):
            producer.send(event("hot", number))
        made = plans.spread("hot", 3, ME, allow_order=False, copies=UNREPLICATED)
        spread_to = made.keys[0].partitions
        until(lambda: producer.spread_version == 1, "the producer works with version 1")
        for number in range(100, 400):
            producer.send(event("hot", number))
            producer.send(event("cold", number))
        until(lambda: [one.version for one in plans.state().adoptions] == [1], "it says so")
        assert plans.unspread("hot", ME, UNREPLICATED).version == 2
        until(lambda: producer.spread_version == 2, "the producer works with version 2")
        for number in range(400, 500):
            producer.send(event("hot", number))
    read = found(cluster, job)
    assert home in spread_to
    assert sorted(one for some in read["hot"].values() for one in some) == list(range(500))
    assert set(read["hot"]) == set(spread_to)
    for partition, values in read["hot"].items():
        assert values == sorted(values), "in one partition the order is that of sending"
        between = [one for one in values if 100 <= one < 400]
        assert len(between) == 100
        assert partition == home or between == values
    assert list(read["cold"]) == [home_partition(b"cold", PARTITIONS)]
    assert plans.state().adoptions == (), "a producer that has ended is taken off"


PROGRAM = """
import itertools, sys
from cutwater.client import Cluster, EventProducer
job, bootstrap, first = sys.argv[1], sys.argv[2], int(sys.argv[3])
producer = EventProducer(job, Cluster(bootstrap))
for number in itertools.count(first):
    producer.send({"key": "hot", "at": 1_700_000_040_000, "value": number})
    if number % 50 == 49:
        producer.flush()
        print(number, producer.spread_version, flush=True)
"""


def test_two_producers_of_which_one_is_killed_and_starts_again(broker: Any, job: Job, tmp_path: Path) -> None:
    """Both work with each version, also the one that starts after it; what was flushed is there, once."""
    cluster, plans = broker.cluster, control(broker.cluster, job)
    told: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def start(first: int) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", PROGRAM, str(tmp_path / "job.yaml"), cluster.bootstrap, str(first)]
        made = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ})

        def listen() -> None:
            assert made.stdout is not None
            for line in made.stdout:
                number, version = map(int, line.split())
                told[first].append((number, version))

        threading.Thread(target=listen, daemon=True).start()
        return made

    def works(first: int, version: int) -> None:
        until(lambda: bool(told[first]) and told[first][-1][1] == version, f"{first} works with {version}")

    def says(*versions: int) -> None:
        until(lambda: sorted(each.version for each in plans.state().adoptions) == [*versions], "they say so")

    one, two = start(0), start(10_000_000)
    try:
        works(0, 0)
        works(10_000_000, 0)
        plans.spread("hot", 2, ME, allow_order=False, copies=UNREPLICATED)
        works(0, 1)
        works(10_000_000, 1)
        says(1, 1)
        two.send_signal(signal.SIGKILL)
        two.wait()
        wide = plans.spread("hot", 4, ME, allow_order=False, copies=UNREPLICATED)
        works(0, 2)
        three = start(20_000_000)
        works(20_000_000, 2)
        assert {version for _, version in told[20_000_000]} == {2}, "from its first event on"
        says(1, 2, 2)  # the killed one said 1 last
    finally:
        for each in (one, two, three):
            each.kill()
            each.wait()
    time.sleep(0.5)
    read = Counter(value for some in found(cluster, job)["hot"].values() for value in some)
    assert max(read.values()) == 1
    for first, lines in told.items():
        flushed = set(range(first, lines[-1][0] + 1))
        assert flushed <= read.keys()
    assert wide.keys[0].partitions == (0, 1, 2, 3)
    assert wide.keys[0].since_version == 2


def test_the_async_producer_follows_too(broker: Any, job: Job) -> None:
    import asyncio

    control(broker.cluster, job).spread("hot", 2, ME, allow_order=False, copies=UNREPLICATED)

    async def run() -> int:
        async with AsyncEventProducer(job, broker.cluster) as producer:
            await asyncio.gather(*(producer.send(event("hot", number)) for number in range(20)))
            return producer.spread_version

    assert asyncio.run(run()) == 1
    assert sorted(map(len, found(broker.cluster, job)["hot"].values())) == [10, 10]


def test_without_the_topic_a_producer_works_as_ever(broker: Any, earlier_job: Job) -> None:
    """The first plan makes the topic."""
    plans = control(broker.cluster, earlier_job)
    assert plans.state().plan is None
    with EventProducer(earlier_job, broker.cluster) as producer:
        producer.send(event("hot", 1))
        assert producer.spread_version == 0
    assert plans.spread("hot", 2, ME, False, UNREPLICATED).version == 1
    assert plans.state().plan is not None


def test_of_two_that_change_the_plan_one_is_fenced(broker: Any, job: Job) -> None:
    """No version is made of a state that is not the newest: the slower one writes nothing."""
    cluster = broker.cluster
    slow, quick = (SpreadPlans(cluster, job.name, UNREPLICATED) for _ in range(2))

    def plan(state: Any, key: str) -> Spread:
        return with_key(state.plan, job.name, key, (0, 1), PARTITIONS, "me", "", now_ms())

    def slowly(state: Any) -> Spread:
        quick.change(lambda newest: plan(newest, "quick"), now_ms())
        return plan(state, "slow")

    with pytest.raises(FencedError):
        slow.change(slowly, now_ms())
    state = read_spread(cluster, job.name)
    assert state.plan is not None
    assert [(state.plan.version, one.key) for one in state.plan.keys] == [(1, "quick")]


def test_what_loses_its_order_is_refused_and_allowed(broker: Any, unique: Any, tmp_path: Path) -> None:
    """A job with `last` needs the word of whoever spreads; a compacted source is refused whatever is said."""
    (tmp_path / "event.avsc").write_text(counting.SCHEMA)
    jobs = []
    for policy in ("compact", "delete"):
        text = counting.job_text(unique("ticks")) + "  newest: {measure: last, field: value}\n"
        (tmp_path / "job.yaml").write_text(text)
        jobs.append(load_job(tmp_path / "job.yaml"))
        source = topics.TopicSpec(jobs[-1].topic, PARTITIONS, (("cleanup.policy", policy),))
        ensure_topics(broker.cluster, [source])
    compacted, job = jobs
    with pytest.raises(UsageError, match="compacted"):
        control(broker.cluster, compacted).spread("hot", 2, ME, True, UNREPLICATED)
    with pytest.raises(UsageError, match=r"newest \(last\).*--allow-order"):
        control(broker.cluster, job).planned("hot", 2, ME, allow_order=False)
    assert control(broker.cluster, job).planned("hot", 2, ME, allow_order=True).version == 1
    assert control(broker.cluster, job).state().plan is None
