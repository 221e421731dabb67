"""The running job that faults are made on, whatever it runs in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.chaos.plan import Fault
from cutwater.local.chaos.span import Span
from cutwater.local.running_file import RunningStack

Make = Callable[[Fault, Span], int]
"""Makes a fault and undoes it when its time is over. Returns how many processes or containers had it."""


class ChaosTarget(NamedTuple):
    """How the job is reached from here."""

    cluster: Cluster
    job_file: Path
    api_url: str
    """Of a view. If several share the partitions, of any."""


def target_of(stack: RunningStack) -> ChaosTarget:
    return ChaosTarget(stack.cluster, Path(stack.job_file), stack.api_url)
