"""A second region's broker, for tests that copy from one to the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from changelogs import Writing, make_job
from mirroring import Events

from cutwater.adapters.cluster import Cluster
from cutwater.local.broker import Broker
from cutwater.local.java import find_java
from cutwater.local.supervisor import Supervisor


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
