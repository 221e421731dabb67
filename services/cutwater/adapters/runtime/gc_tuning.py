"""How Python looks after its memory, where millions of objects pass."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def rare_collections() -> Iterator[None]:
    """Inside, Python looks for reference cycles every 100,000 new objects, not every 700.

    Kafka's messages are objects that could be in cycles, and never are: with tens of thousands of them at hand,
    looking at each again and again took half of a reader's CPU time.
    """
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
