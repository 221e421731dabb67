"""Of each partition that is read: for how long nothing was answered, and who hears of it."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.structs import TopicPartition
from confluent_kafka import KafkaError

from cutwater.adapters.fetch import fetcher as fetch_fetcher
from cutwater.adapters.fetch.fetcher import Fetcher
from cutwater.adapters.fetch.partition_cursor import TIMEOUT_S, PartitionCursor

LATER_S = TIMEOUT_S + 1


def test_what_is_unknown_for_long_is_told_once_in_that_time() -> None:
    """Not at once: a broker that is just back knows no topic either."""
    way = PartitionCursor(0)
    assert [way.mark_unknown(now_s) for now_s in (5.0, 5.0 + TIMEOUT_S, 5.0 + LATER_S)] == [False, False, True]
    assert not way.mark_unknown(6.0 + LATER_S)
    assert way.mark_unknown(7.0 + 2 * LATER_S)


def test_an_answer_begins_the_time_anew() -> None:
    way = PartitionCursor(0)
    assert not way.mark_unknown(0.0)
    way.mark_answered()
    assert not way.mark_unknown(LATER_S)
    assert not way.is_stalled(LATER_S)


def test_a_broker_that_is_away_has_not_said_that_there_is_no_partition() -> None:
    """For long it may be; when it is back it may not know it for a moment."""
    way = PartitionCursor(0)
    assert not way.mark_unknown(0.0)
    way.mark_unanswered("away", 1.0)
    assert not way.mark_unknown(LATER_S)
    assert way.is_stalled(LATER_S)
    assert way.trouble == "away"
    way.mark_answered()
    assert (way.is_stalled(LATER_S), way.trouble) == (False, "")


def test_a_partition_that_nobody_wants_is_not_lost() -> None:
    way = PartitionCursor(0)
    way.mark_unanswered("away", 0.0)
    way.paused = True
    assert not way.is_stalled(LATER_S)


class _Stub:
    """A client whose one broker leads all, and says of each partition what it is told to."""

    def __init__(self, codes: dict[int, int], whole: int = 0) -> None:
        self.API_VERSION = 11
        self.error_code = whole
        self.topics = [("t", [(at, code, 0, 0, 0, None, -1, b"") for at, code in codes.items()])]
        self.updates = 0

    async def send(self, node: int, request: Any) -> Any:
        return self

    def force_metadata_update(self) -> None:
        self.updates += 1


def _asked(fetcher: Fetcher, stub: _Stub, times: int = 1) -> None:
    async def run() -> None:
        for _ in range(times):
            await fetcher._fetch(stub, 1, fetcher._ways)

    asyncio.run(run())


@pytest.fixture
def fetcher(monkeypatch: pytest.MonkeyPatch) -> Fetcher:
    """Of 20 partitions; nothing runs."""
    made = Fetcher(dict, "t")
    made._ways = {at: PartitionCursor(0) for at in range(20)}
    return made


@pytest.mark.parametrize(
    "code",
    [KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.KAFKA_STORAGE_ERROR],
    ids=["no leader", "not known yet", "disk fails"],
)
def test_what_others_are_answered_hides_no_partition_that_fails(
    fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Be it that they have nothing new. It is asked again first."""
    now_s = [100.0]
    monkeypatch.setattr(fetch_fetcher, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    stub = _Stub({0: code, 1: 0})
    _asked(fetcher, stub)
    assert fetcher._failure is None
    now_s[0] += LATER_S
    _asked(fetcher, stub)
    assert "reading t/0: " in str(fetcher._failure)


def test_partitions_that_fail_hold_the_others_up_once(fetcher: Fetcher) -> None:
    """Not each for as long."""
    began = time.monotonic()
    _asked(fetcher, _Stub(dict.fromkeys(range(20), KafkaError.NOT_LEADER_FOR_PARTITION)))
    assert time.monotonic() - began < 1.0


def test_an_error_of_the_whole_answer_is_no_answer(fetcher: Fetcher) -> None:
    """It names no partition; asked again at once, a broker would say it thousands of times a second."""
    stub = _Stub({}, whole=KafkaError.UNKNOWN)
    began = time.monotonic()
    _asked(fetcher, stub, 3)
    assert time.monotonic() - began > 0.25
    assert "broker 1 does not answer" in fetcher.trouble
    assert stub.updates == 3
    _asked(fetcher, _Stub({at: 0 for at in range(20)}))
    assert fetcher.trouble == ""


def test_a_partition_without_a_leader_is_told_though_others_are_read(
    fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [100.0]
    monkeypatch.setattr(fetch_fetcher, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    stub: Any = _Stub(dict.fromkeys(range(19), 0))
    stub.cluster = stub
    stub.leader_for_partition = lambda place: -1 if place == TopicPartition("t", 19) else 1
    for _ in range(2):
        assert 19 not in fetcher._partitions_to_read(stub, [])[1]
        _asked(fetcher, stub)
        now_s[0] += LATER_S
    assert "reading t/19: no broker leads it" in str(fetcher._failure)
