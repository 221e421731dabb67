"""The state that all steps share: two regions, the flights, and a wait that supervises both regions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import pandas as pd
from examples.two_regions import US
from examples.two_regions.feeder import Feeder
from examples.two_regions.report import DemoReport

from cutwater.adapters.topics import mirror_topics
from cutwater.adapters.topics.candidates import promoted
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import Job
from cutwater.core.protocol.generation import Token
from cutwater.core.protocol.mirror_records import Arrival
from cutwater.core.protocol.records import Milestone
from cutwater.local.region import Region

T = TypeVar("T")
HOMEWARD = 400
"""The number of flights kept for the failback."""
PATIENCE_S = 600.0
"""On a busy machine a driver takes minutes until its first milestone."""
LOOK_S = 0.2


class InterruptedStory(Exception):
    """Raised after Ctrl-C or SIGTERM."""


class Verified(NamedTuple):
    """The result of `verify --region` at the newest milestone that two regions have in common."""

    token: Token
    rows: int
    differing_rows: int
    equal: bool

    def replicates(self, least: Token) -> bool:
        """Return whether the copy is equal, and not empty, at that milestone or a later one."""
        newer = (self.token.generation, self.token.sequence) >= (least.generation, least.sequence)
        return newer and self.equal and self.rows > 0


Verify = Callable[[Job, Region, Region], Verified]
"""Verifies a job between the region that wrote and the one that has the copy."""


@dataclass(frozen=True)
class Scene:
    job: Job
    events: pd.DataFrame
    """In production order."""
    us: Region
    eu: Region
    feeder: Feeder
    report: DemoReport
    verify: Verify
    stop: threading.Event

    @property
    def flights(self) -> int:
        return max(0, len(self.events) - HOMEWARD)

    def until(self, done: Callable[[], T | None], what: str, patience_s: float = PATIENCE_S) -> T:
        """Return the first true answer of `done`; check both regions meanwhile. Raise UnavailableError with `what`
        after `patience_s`, and the error that ended a process or the feeder."""
        deadline = time.monotonic() + patience_s
        while not (answer := done()):
            for region in (self.us, self.eu):
                region.check()
            self.feeder.raise_error()
            if time.monotonic() > deadline:
                raise UnavailableError(f"waited {patience_s:.0f} s in vain for {what}")
            if self.stop.wait(LOOK_S):
                raise InterruptedStory
        return answer

    def started(self, going: bool) -> None:
        """Raise InterruptedStory if a start was interrupted."""
        if not going:
            raise InterruptedStory

    def newest(self, region: Region) -> Milestone | None:
        return promoted(region.cluster, self.job.name)

    def arrival(self) -> Arrival | None:
        return self.arrival_in(self.eu, US)

    def arrival_in(self, region: Region, origin: str) -> Arrival | None:
        """Return the newest arrival in a region; None if no mirror has run there."""
        if not mirror_topics.has_mirror(region.cluster, self.job.name):
            return None
        return mirror_topics.last_arrival(region.cluster, self.job.name, origin)
