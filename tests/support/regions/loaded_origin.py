"""A job in the origin that never rests: events and epochs all the time, and what must be here of them then."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.protocol import mirror_records, topics
from support.regions.mirroring import ORIGIN, Events, arrivals, original, read_all, require_held
from support.views.changelogs import Sold, Writing

PAUSE_S = 0.05
SHOPS = 15


class Load:
    """Writes in a thread of its own."""

    def __init__(self, writing: Writing, events: Events) -> None:
        self._writing, self._events = writing, events
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def sequence(self) -> int:
        """Of the newest milestone."""
        if self._error is not None:
            raise self._error
        return self._writing.last.sequence if self._writing.last else 0

    def _run(self) -> None:
        try:
            number = 0
            while not self._stop.wait(PAUSE_S):
                number += 1
                self._events.produce(20)
                if number % 7 == 0:
                    self._events.transaction(f"{self._writing.job.name}-{number}", 5, commit=number % 2 == 0)
                rows = [Sold(f"shop-{one}", number // 20, number + one) for one in range(SHOPS)]
                self._writing.epoch(rows if number % 5 else [], source_cut=self._events.cut())
        except BaseException as error:
            self._error = error

    def end(self) -> int:
        """The last milestone's sequence."""
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.sequence


@contextmanager
def loaded(writing: Writing, events: Events) -> Iterator[Load]:
    """Load until the block is left, or `end`."""
    one = Load(writing, events)
    try:
        yield one
    finally:
        one.end()


def require_copied(writing: Writing, own: Cluster) -> None:
    """Each record of the origin is here once, in its order, and nothing else; each milestone has arrived once."""
    job, last = writing.job, writing.last
    assert last is not None
    for topic in (job.topic, writing.topic):
        for partition in range(job.shards.partitions):
            wanted = [(*one[:4], one.timestamp_ms) for one in read_all(writing.cluster, topic, partition)]
            copied = read_all(own, mirror_records.target(job.name, topic, ORIGIN), partition)
            assert [original(one) for one in copied] == wanted, f"{topic}/{partition}"
    stream = [one.value for one in read_all(writing.cluster, topics.milestones(job.name), 0)]
    assert [one.value for one in read_all(own, mirror_records.milestones_from(job.name, ORIGIN), 0)] == stream
    found = arrivals(own, job)
    assert [one.sequence for one in found] == list(range(1, last.sequence + 1)), "each once, and in order"
    for one in found[:: max(1, len(found) // 4)] + found[-1:]:
        require_held(writing, own, one)
