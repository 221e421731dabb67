"""Who asks what is promoted while no view follows the commit stream: one that has stopped does not."""

from __future__ import annotations

import threading
from collections.abc import Callable

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import promoted
from cutwater.core.errors import CutwaterError
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone

LOOK_S = 2.0


class Lookout:
    """`run` belongs in a thread of its own: asking takes as long as brokers that are away."""

    def __init__(self, cluster: Cluster, job: str, beyond: Callable[[], Generation | None]) -> None:
        """`beyond`: a later one than this is looked for; None: nothing is, while that is so."""
        self._cluster = cluster
        self._job = job
        self._beyond = beyond
        self._stop = threading.Event()
        self.found: Milestone | None = None
        """Of a generation that came later."""

    def stop(self) -> None:
        self._stop.set()

    def run(self) -> None:
        """Look until stopped. Brokers that are away, and a stream that cannot be read, are asked again."""
        while not self._stop.wait(LOOK_S):
            beyond = self._beyond()
            if beyond is None:
                continue
            try:
                last = promoted(self._cluster, self._job)
            except CutwaterError:
                continue  # the view has said why it stopped, and nothing is better known now
            if last is not None and last.generation.number > beyond.number:
                self.found = last
