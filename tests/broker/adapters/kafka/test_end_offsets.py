"""Where partitions end, asked of a real broker."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client import TIMEOUT_S, bounds, make_consumer, partition_count, retry_unknown_leader
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.offsets import Offsets
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.monitoring.job_status import JobStatus
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.topics import TopicSpec
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.java import find_java
from cutwater.local.processes.supervisor import Supervisor
from cutwater.operations.job_status import SourceEnds
from support.harness import wait_until

UNKNOWN = KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
ASKED_S = 6.0


def test_what_an_open_transaction_wrote_counts(broker: Any, unique: Callable[[str], str]) -> None:
    """The proof of rows looks for whoever wrote: a transaction that is open, or was aborted, is no exception."""
    topic, ends = unique("ends"), Offsets(broker.cluster)
    ensure_topics(broker.cluster, [TopicSpec(topic, 3, ())])
    assert ends.topic_ends(topic, 3) == {0: 0, 1: 0, 2: 0}
    producer = Producer({**broker.cluster.librdkafka(), "transactional.id": topic})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=1)
    producer.flush(20)
    assert ends.topic_ends(topic, 3) == {0: 0, 1: 1, 2: 0}
    source, job = SourceEnds(broker.cluster, topic), JobStatus("job", Generation(1, "local"))
    plain = Producer(broker.cluster.librdkafka())
    for _ in range(20):
        plain.produce(topic, b"committed, and read by nobody", partition=1)
    assert plain.flush(20) == 0
    assert source.ask(job).records == 0, "as read_committed sees it"
    assert source.open_transactions(job) == [(topic, 1, 0, 21)]
    producer.abort_transaction(20)
    wait_until(lambda: ends.topic_ends(topic, 3) == {0: 0, 1: 22, 2: 0}, "the marker, which is a record too")
    wait_until(lambda: source.open_transactions(job) == [], "its end")


@pytest.mark.slow
def test_a_broker_that_is_just_back_may_know_of_no_partition(tmp_path: Path, kafka_jars: list[Path]) -> None:
    """Until it leads again, its topics look as if they were not there: so it is after it stood still for long.

    Whoever took that for the end would leave with the exit code that nobody restarts. This broker's session ends
    every time before its next heartbeat, so it is away, in this way, for half of the time.
    """
    away = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "4000"}
    own = Broker(tmp_path / "own", find_java(), kafka_jars, overrides=away)
    with Supervisor([own.supervised()]) as supervisor, ThreadPoolExecutor(2) as asking:
        assert supervisor.start(threading.Event())
        ensure_topics(own.cluster, [TopicSpec("away", 4, ())])
        until = time.monotonic() + ASKED_S
        told = asking.submit(bare, own.cluster, until)
        answers = asking.submit(patient, own.cluster, until)
        assert answers.result() > 0
    assert "_UNKNOWN_PARTITION" in told.result(), "the fault must have happened"


def bare(cluster: Cluster, until: float) -> set[str]:
    """What new clients are told, in their own words."""
    told = set()
    while time.monotonic() < until:
        consumer = make_consumer(cluster)
        for partition in range(4):
            try:
                consumer.get_watermark_offsets(TopicPartition("away", partition), timeout=5)
            except KafkaException as error:
                told.add(error.args[0].name())
        consumer.close()
    return told


def patient(cluster: Cluster, until: float) -> int:
    """Ours never hear of it, new ones and one that stays. Returns how often they asked."""
    ends, asked = Offsets(cluster), 0
    while time.monotonic() < until:
        consumer = make_consumer(cluster)
        assert [bounds(consumer, "away", partition) for partition in range(4)] == [(0, 0)] * 4
        assert partition_count(cluster, "away") == 4
        assert ends.topic_ends("away", 4) == dict.fromkeys(range(4), 0)
        consumer.close()
        asked += 1
    return asked


def test_patience_has_a_bound() -> None:
    """Asked again while the leader is unknown, and no longer than its time: a topic that is gone is an error."""
    answers, looks = [UNKNOWN, UNKNOWN, 7], []

    def answered() -> int:
        answer = answers.pop(0)
        if isinstance(answer, KafkaException):
            raise answer
        return answer

    assert retry_unknown_leader("asking", answered, lambda: looks.append(1)) == 7
    assert len(looks) == 2
    answers[:] = [UNKNOWN, UNKNOWN, 7]
    with pytest.raises(UsageError, match="asking: the topic does not exist"):
        retry_unknown_leader("asking", answered, lambda: None, patience_s=0.0)


@pytest.mark.parametrize(
    "code",
    [KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.KAFKA_STORAGE_ERROR, KafkaError.REPLICA_NOT_AVAILABLE],
    ids=["just elected", "disk fails", "no replica"],
)
def test_a_leader_that_cannot_answer_yet_is_asked_again(code: int) -> None:
    """Or another one, which follows it soon."""
    answers: list[Any] = [KafkaException(KafkaError(code)), 7]

    def answered() -> int:
        answer = answers.pop(0)
        if isinstance(answer, KafkaException):
            raise answer
        return int(answer)

    assert retry_unknown_leader("asking", answered, lambda: None) == 7


@pytest.mark.slow
def test_a_question_to_a_broker_that_stands_still_comes_back(tmp_path: Path, kafka_jars: list[Path]) -> None:
    """Within its bound, as an error that trying later may mend; the same consumer is answered again afterwards."""
    own = Broker(tmp_path / "own", find_java(), kafka_jars)
    supervised = own.supervised()
    with Supervisor([supervised]) as supervisor, ThreadPoolExecutor(1) as asking:
        assert supervisor.start(threading.Event())
        ensure_topics(own.cluster, [TopicSpec("still", 1, ())])
        consumer = make_consumer(own.cluster)
        assert bounds(consumer, "still", 0) == (0, 0)
        still = [psutil.Process(pid) for pid in supervised.child.pids()]
        for one in still:
            one.suspend()
        try:
            answer = asking.submit(bounds, consumer, "still", 0)
            with pytest.raises(UnavailableError, match="still/0"):
                answer.result(3 * TIMEOUT_S)
        finally:
            for one in still:
                one.resume()
        wait_until(lambda: answered(consumer), "the broker to answer again")
        consumer.close()


def answered(consumer: Consumer) -> bool:
    try:
        return bounds(consumer, "still", 0) == (0, 0)
    except CutwaterError:
        return False


STOPPED = """
import sys
import time

from cutwater.adapters.kafka import offsets as ends
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError

asked = ends.Offsets(Cluster(sys.argv[1]), patience_s=0.2)
print("asks", flush=True)
until_s, missed = time.monotonic() + 60, 0
while missed < 2 and time.monotonic() < until_s:
    try:
        asked.topic_ends(sys.argv[2], 1)
    except UnavailableError:
        missed += 1
print("missed", missed, flush=True)
"""


@pytest.mark.slow
def test_who_stood_still_says_that_nobody_answered(
    broker: Any, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """By an error of ours: its time was over when it went on, and the answer has some threads to go through."""
    topic = unique("ends")
    ensure_topics(broker.cluster, [TopicSpec(topic, 1, ())])
    said = tmp_path / "stderr"
    with said.open("w") as to:
        command = [sys.executable, "-X", "faulthandler", "-c", STOPPED, broker.cluster.bootstrap, topic]
        asker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=to, text=True)
    assert asker.stdout is not None
    with asker:
        assert asker.stdout.readline() == "asks\n"
        until_s = time.monotonic() + 60
        while asker.poll() is None and time.monotonic() < until_s:
            asker.send_signal(signal.SIGSTOP)
            time.sleep(0.6)
            asker.send_signal(signal.SIGCONT)
            time.sleep(0.2)
        assert (asker.stdout.read(), asker.wait(30)) == ("missed 2\n", 0), said.read_text()


FORGETFUL = """
import sys
from concurrent.futures import ThreadPoolExecutor

from cutwater.adapters.kafka import client, offsets as ends
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.connect import create_client
from cutwater.core.protocol.cuts import TopicPartition

bootstrap, *topics = sys.argv[1:]
# Who leads a partition is asked anew each time, instead of every quarter of an hour.
client.create_client = lambda *given: create_client(*given[:2], {**given[2], "metadata.max.age.ms": 5}, *given[3:])
asked = ends.Offsets(Cluster(bootstrap))

def ask(thread):
    for number in range(2_500):
        topic = topics[(5 * thread + number) % len(topics)]
        asked.written_ends([TopicPartition(topic, 0), TopicPartition(topic, 1)])

with ThreadPoolExecutor(8) as threads:
    list(threads.map(ask, range(8)))
print("asked")
"""


@pytest.mark.slow
def test_questions_of_several_threads_do_not_end_the_process(broker: Any, unique: Callable[[str], str]) -> None:
    """librdkafka frees what one of them still sets up, where another one's answer comes in between.

    Without care two runs of five meet it.
    """
    names = [unique("ends") for _ in range(20)]
    ensure_topics(broker.cluster, [TopicSpec(name, 2, ()) for name in names])
    done = subprocess.run(
        [sys.executable, "-c", FORGETFUL, broker.cluster.bootstrap, *names],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "asked\n"), done.stderr[-2_000:]
