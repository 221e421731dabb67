"""What a driver tells Prometheus, by what it has told the streams."""

from __future__ import annotations

from math import isnan

from cutwater.adapters.metering import DriverMetrics
from protocol_samples import barrier


def value(metrics: DriverMetrics, name: str) -> float:
    found = metrics.registry.get_sample_value(f"cutwater_driver_{name}")
    assert found is not None
    return found


def test_a_restart_goes_on_with_the_watermark_that_it_found() -> None:
    """Nobody is paged for a watermark of 1970: before the first barrier there is none, then it is the last one's.

    What other attempts wrote is not counted: counters begin with the process.
    """
    fresh, again = DriverMetrics(), DriverMetrics()
    assert isnan(value(fresh, "watermark_timestamp_seconds"))
    assert isnan(value(fresh, "epoch"))
    again.stands_at(barrier(4))
    assert value(again, "watermark_timestamp_seconds") == 4 * 3_600
    assert (value(again, "epoch"), value(again, "skew_seconds")) == (4, 1)
    assert (value(again, "epochs_total"), value(again, "events_total")) == (0, 0)
    again.told(barrier(5))
    assert value(again, "watermark_timestamp_seconds") == 5 * 3_600
    assert (value(again, "epochs_total"), value(again, "events_total")) == (1, 190)
