"""The disks that a job depends on: that of the data folder, and those of the brokers if they tell."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

from cutwater.adapters.fetch.log_dirs import read_log_folders
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import CutwaterError
from cutwater.core.monitoring.alerts import DATA_FOLDER

ANSWER_S = 3.0
AGAIN_S = 600.0
"""After brokers did not tell: mostly a right is missing, or they are too old."""


class DiskSpace(NamedTuple):
    name: str
    free_bytes: int
    total_bytes: int


class Disks:
    """What is not told is logged once, and no reason to end."""

    def __init__(self, data_dir: Path, cluster: Cluster, log: Any) -> None:
        self._data_dir, self._cluster, self._log = data_dir, cluster, log
        self._problem = ""
        self._not_before_s = 0.0

    def own(self) -> list[DiskSpace]:
        """Return the disk of the data folder, which in `cutwater up` is that of all processes."""
        try:
            found = shutil.disk_usage(self._data_dir)
        except OSError as error:
            self._note(f"the disk of {self._data_dir} cannot be read: {error}")
            return []
        return [DiskSpace(DATA_FOLDER, found.free, found.total)]

    async def of_brokers(self) -> list[DiskSpace]:
        """Return the disk of each folder of logs. After a failure they are not asked for a while."""
        if time.monotonic() < self._not_before_s:
            return []
        try:
            found = await read_log_folders(self._cluster.aiokafka(), ANSWER_S)
        except CutwaterError as error:
            self._note(str(error))
            self._not_before_s = time.monotonic() + AGAIN_S
            return []
        return [DiskSpace(f"broker {one.broker}, {one.path}", one.free_bytes, one.total_bytes) for one in found]

    def _note(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._log.info("no forecast of a disk", reason=problem)
