"""How many events a load has sent by a moment: at a steady rate, with spikes, or as a sawtooth."""

from __future__ import annotations

from dataclasses import dataclass

STEADY, SPIKE, SAWTOOTH = "steady", "spike", "sawtooth"
SHAPES = (STEADY, SPIKE, SAWTOOTH)
SPIKE_SHARE = 0.2
"""Of a period, that a spike lasts. It begins in the middle of the period."""


@dataclass(frozen=True)
class RateProfile:
    rate: float
    """Events per second: all the time, between spikes, or where a tooth begins."""
    shape: str = STEADY
    peak: float = 5.0
    """The rate of a spike, or at the end of a tooth, divided by `rate`."""
    period_s: float = 30.0

    def rate_at(self, at_s: float) -> float:
        """Return the events per second at a moment, seconds from the start."""
        return self.rate * (1 + (self.peak - 1) * self._excess(at_s % self.period_s))

    def sent_by(self, at_s: float) -> float:
        """Return how many events are due in the first `at_s` seconds, the integral of `rate_at`."""
        periods, rest_s = divmod(at_s, self.period_s)
        whole = periods * self._excess_by(self.period_s) + self._excess_by(rest_s)
        return self.rate * (at_s + (self.peak - 1) * whole)

    def _excess(self, in_s: float) -> float:
        """Return the share of the way from `rate` to the peak, 0 to 1."""
        if self.shape == SPIKE:
            return float(0 <= in_s - self.period_s / 2 < self.period_s * SPIKE_SHARE)
        return in_s / self.period_s if self.shape == SAWTOOTH else 0.0

    def _excess_by(self, in_s: float) -> float:
        """Return the integral of `_excess` from a period's begin."""
        if self.shape == SPIKE:
            return min(max(in_s - self.period_s / 2, 0.0), self.period_s * SPIKE_SHARE)
        return in_s * in_s / 2 / self.period_s if self.shape == SAWTOOTH else 0.0
