"""What a driver tells Prometheus, by what it has told the streams."""

from __future__ import annotations

from math import isnan

from cutwater.adapters.http.metrics_server import DriverMetrics
from cutwater.adapters.http.server import HttpMetrics
from cutwater.core.driver.input_stats import InputStats
from cutwater.core.events.rejection import NO_KEY, NO_VALUE
from support.protocol_samples import barrier


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
    again.set_newest(barrier(4))
    assert value(again, "watermark_timestamp_seconds") == 4 * 3_600
    assert (value(again, "epoch"), value(again, "skew_seconds")) == (4, 1)
    assert (value(again, "epochs_total"), value(again, "events_total")) == (0, 0)
    again.count_signal(barrier(5))
    assert value(again, "watermark_timestamp_seconds") == 5 * 3_600
    assert (value(again, "epochs_total"), value(again, "events_total")) == (1, 190)


def test_events_read_as_less_than_they_hold_count_with_their_barrier() -> None:
    """Symbols that took a default, names that stood twice: once each, behind the barrier and not before."""
    metrics = DriverMetrics()
    metrics.keep_input(InputStats(events=9, repeated=2, defaulted=3))
    assert (value(metrics, "repeated_names_total"), value(metrics, "default_symbols_total")) == (0, 0)
    metrics.count_signal(barrier(5))
    metrics.count_signal(barrier(6))
    assert (value(metrics, "repeated_names_total"), value(metrics, "default_symbols_total")) == (2, 3)


def test_rejected_events_count_by_reason_with_their_barrier() -> None:
    """Once, and not before it: an epoch that has no barrier is run again."""
    metrics = DriverMetrics()

    def count(reason: str) -> float | None:
        name = "cutwater_driver_rejected_by_reason_total"
        return metrics.registry.get_sample_value(name, {"reason": reason})

    metrics.keep_reasons({NO_KEY: 5})
    metrics.keep_reasons({NO_KEY: 2, NO_VALUE: 1})
    assert count(NO_KEY) == 0
    metrics.count_signal(barrier(5))
    metrics.count_signal(barrier(6))
    assert (count(NO_KEY), count(NO_VALUE)) == (2, 1)


def test_every_port_tells_what_its_process_takes() -> None:
    """CPU, memory and files under the usual names, until the port is closed."""
    registry = DriverMetrics().registry
    port = HttpMetrics(registry)
    for name in ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "start_time_seconds"):
        assert (registry.get_sample_value(f"process_{name}") or 0) > 0, name
    port.close()
    assert registry.get_sample_value("process_open_fds") is None
    HttpMetrics(registry)  # and may be opened again
