"""What one machine does: CPU time of the driver and of views, and the rates of restores."""

from __future__ import annotations

from dataclasses import dataclass

GB = 1e9


@dataclass(frozen=True)
class Machine:
    """The defaults are for two cores: restores and starts as measured (benchmarks/README.md, B1), the driver's CPU
    times estimated from the rates of whole drains (B2)."""

    cores: int = 2
    memory_gb: float = 24.0
    event_us: float = 4.0
    """CPU time of the driver for an event: read, decode, group."""
    measure_us: float = 0.5
    """CPU time of the driver for a count, sum or extreme of an event."""
    sketch_us: float = 3.0
    """The same for a measure that keeps more: first and last, distinct, quantile, top, histogram."""
    row_us: float = 15.0
    """CPU time of the driver for a row that an epoch changes: state, changelog, proof."""
    sketch_row_us: float = 7.0
    """The same for each measure that keeps more, beside `row_us`."""
    epoch_ms: float = 400.0
    """CPU time of the driver for an epoch, however few events it has."""
    measure_epoch_ms: float = 2.0
    """The same for each measure of the job, beside `epoch_ms`: a longer plan."""
    epoch_wall_ms: float = 200.0
    """Time that an epoch takes without its events' work: planning, and waiting for disks and brokers."""
    measure_wall_ms: float = 2.0
    """The same for each measure of the job, beside `epoch_wall_ms`."""
    epoch_gap_ms: float = 50.0
    """From an epoch's end to the next one's begin, if events wait: Spark's commit, and the offsets of the next."""
    read_ms: float = 30.0
    """How long before its begin an epoch has asked for the newest events; a part of the gap."""
    commit_ms: float = 100.0
    """From an epoch's end to its milestone: Spark's commit, and commit-signal."""
    beside_cores: float = 0.1
    """Cores that broker and services take without any event."""
    beside_event_us: float = 40.0
    """CPU time of broker and a producer for an event."""
    beside_row_us: float = 20.0
    """CPU time of broker, commit-signal, rehydrator and watch for a row."""
    output_row_us: float = 20.0
    """CPU time of broker and publisher for a row of the output."""
    beside_epoch_ms: float = 30.0
    """CPU time of broker and services for an epoch: transactions, barrier and milestone."""
    start_s: float = 12.0
    """From a driver's start to the end of its first epoch."""
    view_row_us: float = 5.0
    """CPU time of a rehydrator for a row."""
    restore_bytes_per_s: float = 1.0 * GB
    """Of a snapshot, by one rehydrator: its files are read and hashed."""
    replay_rows_per_s: float = 500_000.0
    """Of a changelog, by one rehydrator."""
    partition_bytes_per_s: float = 10e6
    """Through one partition of a topic, written or read."""
    utilisation: float = 0.6
    """The share of a core that is planned with; the rest is for bursts, collections of garbage and compactions."""
