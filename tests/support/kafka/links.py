"""A broker that is reached straight, and over a link that breaks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.local.java import find_java
from cutwater.local.link import Link, LinkedBroker
from cutwater.local.processes.supervisor import Supervisor


class Linked:
    """A broker with two ways to it."""

    def __init__(self, near: Cluster, far: Cluster, link: Link) -> None:
        self.near = near
        """Straight."""
        self.far = far
        """Over the link, and nothing but it: the broker tells its clients the link's address."""
        self.link = link


@contextmanager
def linked_broker(folder: Path, kafka_jars: list[Path], seed: int = 0) -> Iterator[Linked]:
    """A running broker of its own."""
    made = LinkedBroker(folder, find_java(), kafka_jars, seed)
    with Supervisor([made.broker.supervised()]) as supervisor, made.link as link:
        supervisor.start(threading.Event())
        yield Linked(made.broker.cluster, made.far, link)
