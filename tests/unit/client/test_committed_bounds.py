"""The bound on rows in memory, for a client whose broker delivers one partition after the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.client import from_output
from cutwater.core.errors import UsageError
from cutwater.core.job.job import UPDATE, Job
from cutwater.core.output.position import End
from cutwater.publisher.encoding import AvroEncoder
from support.views.changelogs import GENERATION, Sold, encoded, make_job

MILESTONES, ROWS = 20, 10


def log_of(job: Job, partition: int, rows: int = ROWS) -> list[Any]:
    """Every milestone has this many rows in each partition."""
    encoder, found = AvroEncoder(job), []
    for sequence in range(1, MILESTONES + 1):
        encoder.begin(sequence, UPDATE)
        for number in range(rows):
            key, value = encoded(job, Sold(f"s{partition}-{number}", 1, sequence))
            found.append(encoder.records([key], [value])[0])
        end = End(job.name, GENERATION, sequence, sequence, 0, True, rows, 0, 0, 0)
        found.append({"value": protocol_records.encode(end)})
    return [
        SimpleNamespace(key=lambda one=one: one.get("key"), value=lambda one=one: one["value"],
                        partition=lambda: partition)
        for one in found
    ]  # fmt: skip


class OneAfterTheOther:
    """In place of `LongLivedConsumer`: reads the first partition that is not held back, 25 records at a time."""

    def __init__(self, logs: list[list[Any]]) -> None:
        self.consumer, self._logs, self._held = None, logs, set[int]()
        self.most_read_ahead = 0

    def begin(self, _firsts: object) -> None: ...

    def read(self, _timeout_s: float) -> Iterator[Any]:
        at = next((at for at, log in enumerate(self._logs) if log and at not in self._held), None)
        if at is not None:
            some, self._logs[at] = self._logs[at][:25], self._logs[at][25:]
            yield from some
            self.most_read_ahead = max(self.most_read_ahead, abs(len(self._logs[0]) - len(self._logs[1])))

    def hold(self, partitions: set[int]) -> None:
        self._held = partitions

    def close(self) -> None: ...


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return make_job(tmp_path)[0]


def read_all(job: Job, rows_max: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], int]:
    """Return the number of rows by milestone, and how far one partition was read ahead of the other."""
    log = OneAfterTheOther([log_of(job, at, rows) for at in range(2)])
    monkeypatch.setattr(from_output, "LongLivedConsumer", lambda *_, **__: log)
    monkeypatch.setattr(from_output, "partition_count", lambda *_: 2)
    monkeypatch.setattr(from_output, "bounds", lambda *_: (0, 1))
    monkeypatch.setattr(from_output.Outage, "check", lambda *_: None)
    found: list[int] = []
    stop = iter(range(10_000))
    for one in from_output.from_output(
        job, Cluster("127.0.0.1:1"), None, lambda: len(found) == MILESTONES or next(stop) > 9_000, None, rows_max
    ):
        found.append(len(one.changes))
    return found, log.most_read_ahead


def test_rows_of_later_milestones_are_not_taken_for_those_of_one(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a backlog one partition may come first, with more rows than any milestone has. It waits for the other."""
    found, most_ahead = read_all(job, 2 * ROWS, ROWS, monkeypatch)
    assert found == [2 * ROWS] * MILESTONES
    assert most_ahead <= 2 * (2 * ROWS) + 25, "and the memory stays bounded"


def test_a_milestone_with_more_rows_is_refused(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="a milestone has more than 19 rows"):
        read_all(job, 2 * ROWS - 1, ROWS, monkeypatch)
