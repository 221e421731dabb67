"""What a job has to keep up with, and how fast it must be back."""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.core.sizing.skew import KeySkew


@dataclass(frozen=True)
class Demand:
    events_per_s: float
    """The mean of a month."""
    keys: KeySkew
    event_bytes: int = 200
    peak: float = 2.0
    """The rate of the busiest minutes, divided by the mean."""
    recovery_s: float = 60.0
    """From a new rehydrator's start to its answers."""
    epoch_s: float = 0.5
    copies: int = 3
    """Of each record on the brokers."""
    mirrored: bool = False
    """Whether another region has copies of the changelogs and of the source."""
    remote_checkpoint: bool = False
    """Whether Spark's checkpoint is in an object store."""
    values: int | None = None
    """Different values of a field of which a row keeps more than a number; None: each event has another one."""
    one_machine: bool = False
    """Whether brokers, services and producers run on the driver's machine."""

    @property
    def peak_events_per_s(self) -> float:
        return self.events_per_s * self.peak
