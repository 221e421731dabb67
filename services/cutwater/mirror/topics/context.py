"""What all parts of one mirror share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.runtime.clock import now_ms
from cutwater.mirror.metrics import Metrics
from cutwater.mirror.topics.origin import Origin


@dataclass(frozen=True)
class MirrorContext:
    """The two clusters of a mirror, its job, and how it reports."""

    own: Cluster
    origin: Origin
    job: str
    """The job's name."""
    region: str
    """The origin's name."""
    log: Any
    metrics: Metrics
    now_ms: Callable[[], int] = now_ms
    clock_s: Callable[[], float] = time.monotonic
    """A monotonic clock, for pauses."""
