"""Garbage collection with millions of live objects."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_before: list[tuple[int, int, int]] = []
"""The thresholds outside, once for each block that runs."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect reference cycles every 100,000 new objects, not every 700, inside the block.

    Kafka's messages are tracked by the collector, but never form cycles. With tens of thousands of them alive, the
    repeated collections took half of a reader's CPU time. Blocks of several threads may overlap in any order: the
    last one that ends restores what was there before the first.
    """
    with _lock:
        _before.append(_before[0] if _before else gc.get_threshold())
        gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        with _lock:
            outside = _before.pop()
            if not _before:
                gc.set_threshold(*outside)
