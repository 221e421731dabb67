"""The origin goes away and comes back: the mirror goes on by itself, from where it was."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.java import find_java
from cutwater.local.processes.supervisor import Supervisor
from support.regions.mirroring import Events, arrivals, mirroring, require_held, wait_arrived
from support.views.changelogs import Sold, Writing, make_job

pytestmark = pytest.mark.slow


def test_an_origin_that_goes_and_comes_back(broker: Any, kafka_jars: list[Path], tmp_path: Path) -> None:
    """Nothing is raised, nothing is lost and nothing comes twice."""
    own_origin = Broker(tmp_path / "origin", find_java(), kafka_jars)
    job, _ = make_job(tmp_path)
    with Supervisor([own_origin.supervised()]) as supervisor:
        supervisor.start(threading.Event())
        writing = Writing(own_origin.cluster, job)
        events = Events(writing)
        events.produce(40)
        writing.epoch([Sold("a", 1, 1)], source_cut=events.cut())
        with mirroring(broker.cluster, own_origin.cluster, job) as mirror:
            wait_arrived(mirror, broker.cluster, job, 1)
            supervisor.stop()
            rounds = mirror.metrics.registry.get_sample_value("cutwater_mirror_rounds_total") or 0
            mirror.until(
                lambda: (
                    (mirror.metrics.registry.get_sample_value("cutwater_mirror_rounds_total") or 0) > rounds + 3
                ),
                "rounds without an origin",
            )
            with Supervisor([own_origin.supervised()]) as again:
                again.start(threading.Event())
                later = Writing(own_origin.cluster, job)
                later.last, later.state, later.by_sequence = writing.last, writing.state, writing.by_sequence
                events.produce(40)
                later.epoch([Sold("b", 1, 2)], source_cut=events.cut())
                wait_arrived(mirror, broker.cluster, job, 2)
                for one in arrivals(broker.cluster, job):
                    require_held(later, broker.cluster, one)
                later.close()
    assert [one.sequence for one in arrivals(broker.cluster, job)] == [1, 2]
