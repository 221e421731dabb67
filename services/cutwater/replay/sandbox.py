"""A job's writers on a broker of their own, in a folder that is removed at the end.

The sandbox has the running job's region and source topic, so its rows have the same form. It differs in what
would let it count other events than it is given: no window closes, whatever the order of the events, and no event
time jumps. It shares nothing with the running job but the schema registry, from which it reads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.job_files.loader import load_job
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import commit_stream
from cutwater.core.errors import UnavailableError
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.core.protocol.topics import LISTED_BYTES_MAX, TIMESTAMP_AHEAD, TopicSpec
from cutwater.local.changed_job_file import changed_job_file
from cutwater.local.region import Region

ALWAYS = "36500d"
CHANGES = {
    "output": {"mode": "none"},
    "changelog": None,
    "late": {"amend_for": ALWAYS},
    "retention": ALWAYS,
    "max_bytes": None,
    "max_jump": None,
}
"""Fields of the job file that are others in the sandbox; None leaves one out. None is part of a row's meaning."""
STALL_S = 600.0
_LOOK_S = 0.5


class Sandbox:
    """`region`: the running job's. Raises MachineError if Java, jars, ports or the folder are not available."""

    def __init__(
        self, job_file: Path, region: str, folder: Path, settings: Settings, say: Callable[[str], None]
    ) -> None:
        changed = changed_job_file(job_file, folder / "job", CHANGES)
        self._job = load_job(changed)
        own = environment_of(region, settings)
        self._region = Region(region, folder / "region", changed, settings, say, extra_env=own)
        self._stop = threading.Event()  # never set: Ctrl-C raises

    @property
    def cluster(self) -> Cluster:
        return self._region.cluster

    def start_broker(self, partitions: int) -> None:
        """Start the broker, and create the source topic. Raises CutwaterError if that fails."""
        self._region.start_broker(self._stop)
        admin.create_topics(self.cluster, [source_topic(self._job.topic, partitions)])
        self._region.create_topics(self._job)

    def count(self, events: int, report: Callable[[int], None]) -> Milestone:
        """Let driver and commit-signal count everything in the source topic, and end them.

        Return the last milestone. Raises CutwaterError if a process ends for good, or if no more is counted.
        """
        end = commit_stream.source_end(self.cluster, self._job.topic)
        self._region.start(self._region.writers(), self._stop)
        found = self._await(end, events, report)
        self._region.stop_newest()
        return found

    def _await(self, end: Cut, events: int, report: Callable[[int], None]) -> Milestone:
        read, deadline = -1, time.monotonic() + STALL_S
        while time.monotonic() < deadline:
            self._region.check()
            newest = commit_stream.milestones(self.cluster, self._job.name, 1)
            if newest and newest[0][0].source_cut.covers(end):
                return newest[0][0]
            now = newest[0][0].source_cut.records if newest else 0
            if now > read:
                read, deadline = now, time.monotonic() + STALL_S
                report(min(now, events))
            time.sleep(_LOOK_S)
        raise UnavailableError(f"the sandbox has counted no event for {STALL_S:g} s, after {read:,} of {events:,}")

    def rejected(self) -> int:
        """Return how many events the sandbox's driver has put on the list of dead letters."""
        return sum(one.rejected for one, _ in commit_stream.milestones(self.cluster, self._job.name))

    def stop(self) -> None:
        """End every process."""
        self._region.stop()


def environment_of(region: str, settings: Settings) -> Mapping[str, str]:
    """Return the variables by which no setting of the user's reaches beyond the sandbox."""
    master = settings.spark_master
    return {
        "CUTWATER_GENERATION": str(Generation(1, region)),
        "CUTWATER_CHECKPOINT": "",
        "CUTWATER_ORIGIN_REGION": "",
        "CUTWATER_ORIGIN_BOOTSTRAP_SERVERS": "",
        "CUTWATER_BEGIN_BESIDE": "",
        "CUTWATER_GO_ON_BEHIND": "",
        "CUTWATER_SPARK_APPLICATION": "",
        "CUTWATER_SPARK_MASTER": master if master.startswith("local") else "local[*]",
        "CUTWATER_TRIGGER_MS": "0",
    }


def source_topic(name: str, partitions: int) -> TopicSpec:
    """Return the topic of the copies: it takes every record that the source has taken."""
    config = (
        ("cleanup.policy", "delete"),
        ("retention.ms", "-1"),
        (TIMESTAMP_AHEAD, str(2**63 - 1)),
        ("max.message.bytes", str(LISTED_BYTES_MAX)),
    )
    return TopicSpec(name, partitions, config)
