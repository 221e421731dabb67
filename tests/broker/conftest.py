"""A second region, for tests that copy: its broker, another one behind a way that breaks, a job in both. And a job
whose driver only speaks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.local.embedded_broker.broker import Broker
from cutwater.local.java import find_java
from cutwater.local.link import Link
from cutwater.local.processes.supervisor import Supervisor
from support.events import counting
from support.harness import Flow, flow
from support.kafka.links import Linked, linked_broker
from support.regions.mirroring import Events
from support.regions.regional import Regions, two_regions
from support.speaking_driver import SpeakingDriver
from support.views.changelogs import Writing, make_job


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory, kafka_jars: list[Path]) -> Iterator[Cluster]:
    """The other region's broker."""
    embedded = Broker(tmp_path_factory.mktemp("origin"), find_java(), kafka_jars)
    with Supervisor([embedded.supervised()]) as supervisor:
        supervisor.start(threading.Event())
        yield embedded.cluster


@pytest.fixture
def writing(origin: Cluster, tmp_path: Path) -> Iterator[Writing]:
    """What is copied from there. Modules that copy nothing have one of this name in their own region."""
    made = Writing(origin, make_job(tmp_path)[0])
    yield made
    made.close()


@pytest.fixture
def events(writing: Writing) -> Events:
    return Events(writing)


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory, kafka_jars: list[Path]) -> Iterator[Linked]:
    """The origin's broker, and the link that the mirror has to it."""
    with linked_broker(tmp_path_factory.mktemp("linked"), kafka_jars, seed=7) as one:
        yield one


@pytest.fixture
def link(linked: Linked) -> Iterator[Link]:
    linked.link.mend()
    yield linked.link
    linked.link.mend()


@pytest.fixture
def regions(origin: Cluster, broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Regions]:
    """`us`, where a job begins, and `eu`."""
    with two_regions(origin, broker.cluster, tmp_path, unique("regions")) as made:
        yield made


@pytest.fixture
def job(broker: Any, tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Flow]:
    """The counting job without an output. Modules that need another one have one of this name."""
    text = counting.job_text(unique("count")) + "output: {mode: none}\n"
    with flow(broker.cluster, text, tmp_path, counting.SCHEMA) as made:
        yield made


@pytest.fixture
def driver(job: Flow) -> Iterator[SpeakingDriver]:
    made = SpeakingDriver(job)
    yield made
    made.end()
