"""The origin's brokers come back with an older disk: the logs end below what was copied of them."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cutwater.adapters.kafka.topic_ids import TopicIds
from cutwater.cli.main import app
from cutwater.core.mirror.gaps import LOST
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.java import find_java
from cutwater.local.processes.supervisor import Supervisor
from support.regions.mirroring import (
    Events,
    Running,
    arrivals,
    environment_of,
    epoch,
    mirroring,
    positions,
    require_held,
    wait_arrived,
    wait_copied,
    wait_stopped,
)
from support.views.changelogs import Writing, make_job

pytestmark = pytest.mark.slow


@contextmanager
def running(one: Broker) -> Iterator[None]:
    with Supervisor([one.supervised()]) as supervisor:
        supervisor.start(threading.Event())
        yield


def test_a_log_that_has_lost_its_end(broker: Any, kafka_jars: list[Path], tmp_path: Path) -> None:
    """Of the same topic: told with the range, by the mirror that runs and by one that starts; a resync mends it.

    What is produced there next has the offsets of what was lost: copied on, the two would be one log.
    """
    own, origin = broker.cluster, Broker(tmp_path / "origin", find_java(), kafka_jars)
    job, job_file = make_job(tmp_path)
    kept = tmp_path / "kept"
    with running(origin):
        first = Writing(origin.cluster, job)
        events = Events(first)
        with mirroring(own, origin.cluster, job) as mirror:
            wait_arrived(mirror, own, job, epoch(first, events, 1))
        ends = ends_of(events)
        same = identity(origin, events)
    shutil.copytree(origin.data_dir, kept)
    with mirroring(own, origin.cluster, job) as mirror:
        with running(origin):
            events.produce(30)
            mirror.until(
                lambda: copied(broker, first, events) == {at: end + 10 for at, end in ends.items()}, "them"
            )
        shutil.rmtree(origin.data_dir)
        kept.rename(origin.data_dir)
        with running(origin):
            assert (identity(origin, events), ends_of(events)) == (same, ends)
            writing = again(first)
            require_told(mirror, events, ends)
            writing.epoch([], source_cut=events.cut())
            wait_copied(mirror, own, writing)
            mirror.end()
            mend(broker, origin, writing, job_file, ends)


def mend(broker: Any, origin: Broker, writing: Writing, job_file: Path, ends: dict[int, int]) -> None:
    own, job = broker.cluster, writing.job
    events = Events(writing)
    with mirroring(own, origin.cluster, job) as mirror:
        require_told(mirror, events, ends)
        epoch(writing, events, 3)
        wait_copied(mirror, own, writing)
    assert copied(broker, writing, events) == {at: end + 10 for at, end in ends.items()}, "nothing was copied on"
    env = environment_of(own, origin.cluster)
    words = ["mirror", "resync", str(job_file), "--topic", events.topic, "--yes"]
    done = CliRunner().invoke(app, words, env=env)
    assert done.exit_code == 0, done.output
    with mirroring(own, origin.cluster, job) as mirror:
        wait_arrived(mirror, own, job, epoch(writing, events, 4))
        assert mirror.mirror.copier.stopped == {}
    for one in arrivals(own, job):
        require_held(writing, own, one)


def again(before: Writing) -> Writing:
    """The same job, written by clients that know nothing of what the brokers have lost."""
    made = Writing(before.cluster, before.job)
    made.last, made.state, made.by_sequence = before.last, before.state, before.by_sequence
    return made


def identity(origin: Broker, events: Events) -> Any:
    return TopicIds(origin.cluster).read([events.topic])[events.topic]


def ends_of(events: Events) -> dict[int, int]:
    return {place.partition: offset for place, offset in events.cut()}


def copied(broker: Any, writing: Writing, events: Events) -> dict[int, int]:
    """Up to where the positions say."""
    found = positions(broker.cluster, writing.job)
    return {partition: found[events.topic, partition].next for partition in range(events.partitions)}


def require_told(mirror: Running, events: Events, ends: dict[int, int]) -> None:
    text = wait_stopped(mirror, events.topic, LOST)
    for partition, end in ends.items():
        lost = f"offsets {end} to {end + 9} were there before and are missing now"
        assert f"partition {partition} ends at {end}: {lost}" in text
