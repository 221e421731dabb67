"""The wait for brokers at the start of a service, logged within seconds."""

from __future__ import annotations

from typing import Any

from cutwater.adapters.kafka.client import wait_for_broker
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.errors import UnavailableError

FIRST_S = 3.0
"""Time before the wait is logged."""


def await_brokers(cluster: Cluster, wait_s: float, log: Any) -> None:
    """Call `wait_for_broker`, and log if it takes longer. Raises as that does."""
    first_s = min(FIRST_S, wait_s)
    try:
        wait_for_broker(cluster, first_s)
    except UnavailableError as error:
        if wait_s <= first_s:
            raise
        log.warning("waiting", reason=str(error), brokers=cluster.bootstrap)
        wait_for_broker(cluster, wait_s - first_s)
