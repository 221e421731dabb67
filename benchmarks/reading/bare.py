"""The same rows by RocksDB alone, from a process that does nothing else: what a read costs at least."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rocksdict import Options, Rdict

from benchmarks.rehydrate.workloads import START_MS, WINDOW_MS, WINDOWS, group_name
from cutwater.core.errors import UnavailableError
from cutwater.core.job.job import Job
from cutwater.views.store.key_layout import Window, key_prefix, segment_ms, segment_of, storage_key, time_suffix


def gets(folder: Path, job: Job, wanted: Sequence[int]) -> NDArray[np.float64]:
    """Seconds of each request: a get of every one of the group's rows by its whole key."""
    length = segment_ms(job)
    starts = [START_MS + number * WINDOW_MS for number in range(WINDOWS)]
    keys = [
        [storage_key(Window(group_name(one), start, start + WINDOW_MS), length) for start in starts]
        for one in wanted
    ]
    table = Rdict(str(folder), Options(raw_mode=True))
    found, took = 0, np.zeros(len(keys))
    for at, names in enumerate(keys):
        began = time.perf_counter()
        found += sum(table.get(name) is not None for name in names)
        took[at] = time.perf_counter() - began
    table.close()
    _require(found, WINDOWS * len(keys))
    return took


def seeks(folder: Path, job: Job, wanted: Sequence[int]) -> NDArray[np.float64]:
    """The same by one iterator: a seek for each segment of time, and the rows of the group from there."""
    length = segment_ms(job)
    ends = [START_MS + (number + 1) * WINDOW_MS for number in range(WINDOWS)]
    segments = sorted({segment_of(end, length) for end in ends})
    table = Rdict(str(folder), Options(raw_mode=True))
    cursor = table.iter()
    found, took = 0, np.zeros(len(wanted))
    for at, one in enumerate(wanted):
        prefixes = [key_prefix(segment, group_name(one)) for segment in segments]
        stops = [prefix + time_suffix(1 << 62) for prefix in prefixes]
        began = time.perf_counter()
        for prefix, stop in zip(prefixes, stops, strict=True):
            cursor.seek(prefix)
            while cursor.valid() and cursor.key() < stop:
                found += len(cursor.value()) > 0
                cursor.next()
        took[at] = time.perf_counter() - began
    del cursor
    table.close()
    _require(found, WINDOWS * len(wanted))
    return took


def _require(found: int, right: int) -> None:
    if found != right:
        raise UnavailableError(f"the store gave {found:,} rows where {right:,} are")
