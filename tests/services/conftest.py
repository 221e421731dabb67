"""A second region's broker, for tests that copy from one to the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

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
