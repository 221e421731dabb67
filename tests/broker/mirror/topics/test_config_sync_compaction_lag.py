"""A compaction lag that the origin shortens is heeded before anything more is written by the old one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.adapters.kafka.admin import set_configs
from cutwater.adapters.kafka.topic_ids import Identity
from cutwater.core.errors import CutwaterError, UnavailableError, UsageError
from cutwater.core.mirror.compaction_lag import FRESH_S, HELD_S, CompactionLagLease
from cutwater.core.protocol.topic_settings import FoundTopic
from cutwater.mirror.metrics import Metrics
from cutwater.mirror.topics import config_sync
from cutwater.mirror.topics.config_sync import TopicConfigSync
from cutwater.mirror.topics.context import MirrorContext
from cutwater.mirror.topics.origin import Origin
from cutwater.operations.regions.mirror_control import control_mirror
from support.regions.mirroring import (
    ORIGIN,
    Events,
    Running,
    epoch,
    make,
    mirroring,
    positions,
    require_held,
    wait_arrived,
)
from support.views.changelogs import Writing, now_ms, until
from support.views.snapshots import Told

SHORT_MS = 600_000
TIMES = 10
"""So much faster go the mirrors' clocks: they look once a second."""


def fast_s() -> float:
    return TIMES * time.monotonic()


class Silence:
    """Of the origin, about its topics' settings; all else it answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: CutwaterError | None = None
        real: Callable[[Origin, Collection[str]], dict[str, FoundTopic]] = Origin.all_described

        def described(origin: Origin, names: Collection[str]) -> dict[str, FoundTopic]:
            if self.error is not None:
                raise self.error
            return real(origin, names)

        monkeypatch.setattr(Origin, "all_described", described)


@contextmanager
def telling(broker: Any, writing: Writing) -> Iterator[tuple[Running, Told]]:
    told = Told()
    one = Running(make(broker.cluster, writing.cluster, writing.job, log=told, clock_s=fast_s))
    try:
        yield one, told
    finally:
        one.end()


@contextmanager
def arrived_once(
    broker: Any, writing: Writing, events: Events
) -> Iterator[tuple[Running, Told, CompactionLagLease]]:
    """A mirror behind its first arrival, what it says, and the lag that it goes by."""
    with telling(broker, writing) as (mirror, told):
        wait_arrived(mirror, broker.cluster, writing.job, epoch(writing, events, 1))
        yield mirror, told, mirror.mirror.copier._followed[writing.topic].spared


def shorten(writing: Writing) -> None:
    set_configs(writing.cluster, writing.topic, {"min.compaction.lag.ms": str(SHORT_MS)})


def copied(broker: Any, writing: Writing) -> int:
    """Records of the changelog."""
    found = positions(broker.cluster, writing.job)
    return sum(one.records for (topic, _), one in found.items() if topic == writing.topic)


@pytest.mark.slow
def test_a_paused_mirror_hears_of_a_shorter_lag(broker: Any, writing: Writing, events: Events) -> None:
    """When it goes on it writes at once."""
    own = broker.cluster
    with mirroring(own, writing.cluster, writing.job, clock_s=fast_s) as mirror:
        wait_arrived(mirror, own, writing.job, epoch(writing, events, 1))
        control_mirror(own, writing.job.name, ORIGIN, True, now_ms())
        mirror.until(lambda: mirror.mirror.arriving.paused, "the pause")
        time.sleep(0.1)  # the round that was under way
        followed = mirror.mirror.copier._followed[writing.topic]
        shorten(writing)
        mirror.until(lambda: followed.spared.lag_ms == SHORT_MS, "the shorter lag")
        assert mirror.mirror.arriving.paused


@pytest.mark.slow
def test_behind_an_outage_rows_wait_until_the_lag_is_known(
    broker: Any, writing: Writing, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is fetched before the settings are told is not written by those of before; other topics go on."""
    own, silence = broker.cluster, Silence(monkeypatch)
    with arrived_once(broker, writing, events) as (mirror, told, spared):
        before = copied(broker, writing)
        silence.error = UnavailableError("the origin is away")
        time.sleep((FRESH_S + 5) / TIMES)
        shorten(writing)
        sequence = epoch(writing, events, 2)
        mirror.until(lambda: waits(told, writing.topic), "the rows to wait")
        mirror.until(lambda: mirror.mirror.arriving.ledger.newest.sequence == sequence, "the stream to go on")
        assert copied(broker, writing) == before
        silence.error = None
        arrived = wait_arrived(mirror, own, writing.job, sequence)
        assert spared.lag_ms == SHORT_MS
        assert not spared.unknown
    require_held(writing, own, arrived)


@pytest.mark.slow
def test_rows_do_not_wait_for_ever_for_a_lag_that_is_never_told(
    broker: Any, writing: Writing, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A right that is taken away: it is said, and what arrives is whole under any lag."""
    own, silence = broker.cluster, Silence(monkeypatch)
    with arrived_once(broker, writing, events) as (mirror, told, spared):
        silence.error = UsageError("reading the settings: this user may not")
        time.sleep((FRESH_S + 5) / TIMES)
        began_s = time.monotonic()
        sequence = epoch(writing, events, 2)
        arrived = wait_arrived(mirror, own, writing.job, sequence)
        assert time.monotonic() - began_s > HELD_S / TIMES - 1
        assert spared.lag_ms == 0
        assert waits(told, writing.topic)
        assert [one for one, text, about in told.lines if text == "compaction not known"] == ["warning"]
    require_held(writing, own, arrived)


def test_brokers_here_that_are_slow_keep_nobody_from_hearing_of_a_shorter_lag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The settings here are asked for, and changed, behind that; an answer that comes late counts for nothing."""
    slow, now_s = threading.Event(), [0.0]

    def describe(*_asked: Any) -> dict[str, FoundTopic]:
        slow.wait(100)
        return {}

    monkeypatch.setattr(config_sync, "describe_topics", describe)
    topic = FoundTopic("t", 1, {"cleanup.policy": "compact", "min.compaction.lag.ms": str(SHORT_MS)})
    origin: Any = SimpleNamespace(
        all_described=lambda _names: {"t": topic}, identities=lambda _names: {"t": Identity("id", 1)}
    )
    spared = CompactionLagLease(24 * 3_600_000, 0.0)
    followed: Any = SimpleNamespace(name="t", target="t", topic_id="id", partitions=1, spared=spared)
    nothing: Any = None
    shared = MirrorContext(nothing, origin, "flights", ORIGIN, Told(), Metrics(), clock_s=lambda: now_s[0])
    one = TopicConfigSync(shared)
    try:
        for look in range(1, 4):
            now_s[0] = 20.0 * look
            assert one.holds(followed, now_s[0])
            one.sync({"t": followed})
            until(lambda: one._query.answered, "the look")
            one.sync({"t": followed})
            assert not one.holds(followed, now_s[0])
            assert followed.spared.lag_ms == SHORT_MS
    finally:
        slow.set()


def waits(told: Told, topic: str) -> bool:
    return any(text == "waiting" and about.get("topic") == topic for _, text, about in told.lines)
