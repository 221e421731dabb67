"""Windows of panes: what a state keeps once, and readers see merged.

A pane is as long as the greatest common divisor of a window's size and slide, so each window holds whole panes,
and an event is in one pane, however many windows overlap there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

from cutwater.core.job.windows import WindowSpec

T = TypeVar("T")
_EVER = -(1 << 63)


def windows_of(
    panes: Iterable[tuple[int, T]], window: WindowSpec, above_ms: int = _EVER, up_to_ms: int | None = None
) -> Iterator[tuple[int, list[T]]]:
    """Yield the start in ms of each window that holds any of a key's panes, and the values of its panes, in order.

    `panes`: end in ms and value, by end. Only windows that end in (above_ms, up_to_ms] are returned.
    """
    following = iter(panes)
    pane = next(following, None)
    held: deque[tuple[int, T]] = deque()
    start_ms = _EVER
    while held or pane:
        if not held and pane:
            held.append(pane)
            pane = next(following, None)
        lowest_ms = max(held[0][0], above_ms + 1) - window.size_ms
        start_ms = max(start_ms, lowest_ms + -lowest_ms % window.slide_ms)
        end_ms = start_ms + window.size_ms
        if up_to_ms is not None and end_ms > up_to_ms:
            return
        while held and held[0][0] <= start_ms:
            held.popleft()
        while pane and pane[0] <= end_ms:
            if pane[0] > start_ms:
                held.append(pane)
            pane = next(following, None)
        if held:
            yield start_ms, [value for _, value in held]
            start_ms += window.slide_ms
