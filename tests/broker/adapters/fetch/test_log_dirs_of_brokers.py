"""The space of a real broker's disk, and what is said where none answers."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any

import pytest

from cutwater.adapters.fetch.log_dirs import read_log_folders
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError


def test_a_broker_tells_the_space_of_its_disk(broker: Any) -> None:
    """The one that the file system tells, but for what is written meanwhile."""
    (found,) = asyncio.run(read_log_folders(broker.cluster.aiokafka(), 10.0))
    disk = shutil.disk_usage(found.path)
    assert found.total_bytes == disk.total
    assert abs(found.free_bytes - disk.free) < 0.05 * disk.total
    assert found.broker >= 0


def test_no_broker_is_no_space() -> None:
    with pytest.raises(UnavailableError, match="no broker tells"):
        asyncio.run(read_log_folders(Cluster("127.0.0.1:9").aiokafka(), 0.5))
