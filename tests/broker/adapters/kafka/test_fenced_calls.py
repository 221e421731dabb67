"""Who is fenced is told so, whichever call notices first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.kafka.admin import ensure_topics
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.kafka.writers.copy_writer import Copies, CopyingWriter, CopyRecord
from cutwater.adapters.kafka.writers.transactional_writer import Batch
from cutwater.core.errors import FencedError, UnavailableError
from cutwater.core.protocol import mirror_records
from cutwater.core.protocol.topics import TopicSpec
from cutwater.mirror.slot import Slot
from support.regions.mirroring import ORIGIN, Events, Running, make, wait_arrived
from support.views.changelogs import Writing, make_job, until

RECORD = CopyRecord(b"k", b"v", [], 0)


@pytest.fixture
def topic(broker: Any, unique: Callable[[str], str]) -> str:
    name = unique("fenced")
    ensure_topics(broker.cluster, [TopicSpec(name, 1, ())])
    return name


def writer(broker: Any, name: str) -> CopyingWriter:
    made = CopyingWriter(broker.cluster, name)
    made.initialise()
    return made


def test_a_call_that_comes_after_the_one_that_noticed(broker: Any, topic: str) -> None:
    """The client says why where it is listened to; a record that is handed over before that is just refused."""
    older = writer(broker, topic)

    def taken_over() -> list[Batch]:
        heir = writer(broker, topic)
        heir.copy([Copies(topic, 0, [RECORD])], list)
        for _ in range(1_000):  # once the client knows, it refuses a record as 'fatal', and says no more
            older._producer.produce(topic, b"late", partition=0)
            time.sleep(0.02)
        return []

    with pytest.raises(FencedError, match="a newer process has taken over"):
        older.copy([Copies(topic, 0, [RECORD])], taken_over)
    with pytest.raises(FencedError, match="a newer process has taken over"):
        older.copy([Copies(topic, 0, [RECORD])], list)


def test_what_fails_by_itself_stays_what_it_is(broker: Any, topic: str) -> None:
    """Nobody has taken over: the error says what to do, and the id can be asked for."""
    only = writer(broker, topic)

    def fails() -> list[Batch]:
        raise UnavailableError("nobody answers")

    only.require_own(topic)
    with pytest.raises(UnavailableError, match="nobody answers"):
        only.copy([Copies(topic, 0, [RECORD])], fails)
    only.require_own(topic)  # a transaction has failed: nothing is known
    again, heir = writer(broker, topic), writer(broker, topic)
    heir.require_own(topic)
    with pytest.raises(FencedError):
        again.require_own(topic)


@pytest.mark.slow
@pytest.mark.parametrize("taken_over", [True, False])
def test_a_mirror_that_ends_by_something_else_asks_whether_it_was_fenced(
    broker: Any, origin: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken_over: bool
) -> None:
    """At rest it writes nothing; whoever has fenced it may delete what it reads, and that is found first."""
    job, _ = make_job(tmp_path)
    writing = Writing(origin, job)
    events = Events(writing)
    writing.epoch([], source_cut=events.cut())
    running = Running(make(broker.cluster, origin, job))
    wait_arrived(running, broker.cluster, job, 1)
    if taken_over:
        for one in mirror_records.transactional_ids(job.name, ORIGIN):
            writer(broker, one)

    def gone() -> None:
        raise UnavailableError("what it reads is gone")

    monkeypatch.setattr(running.mirror.arriving, "listen", gone)
    until(lambda: running.error is not None, "the mirror to leave")
    with pytest.raises(FencedError if taken_over else UnavailableError):
        running.end()
    writing.close()


def test_a_fenced_slot_is_heard_though_something_else_fails_beside_its_write(
    broker: Any, origin: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrivals are announced while the slots write; behind its failed transaction a slot knows nothing more."""
    job, _ = make_job(tmp_path)
    writing = Writing(origin, job)
    events = Events(writing)
    events.produce(30)
    held = mirror_records.slot_of(events.topic, 0)
    writes, failed, write = threading.Event(), threading.Event(), Slot.write

    def held_up(self: Slot, taken: Any) -> None:
        writes.set()
        assert failed.wait(30)
        writer(broker, mirror_records.slot_id(job.name, ORIGIN, held))
        write(self, taken)

    def gone() -> None:
        listen()
        if writes.is_set():
            failed.set()
            raise UnavailableError("what it reads is gone")

    monkeypatch.setattr(Slot, "write", held_up)
    mirror = make(broker.cluster, origin, job, slots=[held])
    listen = mirror.arriving.listen
    monkeypatch.setattr(mirror.arriving, "listen", gone)
    running = Running(mirror)
    until(lambda: running.error is not None, "the mirror to leave")
    with pytest.raises(FencedError):
        running.end()
    writing.close()
