"""Windows of panes: what a state keeps once, and readers see merged.

A pane is as long as the greatest common divisor of a window's size and slide, so each window holds whole panes,
and an event is in one pane, however many windows overlap there.

Time is cut into blocks as long as a window, so a window is the end of one block and the beginning of the next.
Each block is merged once from its end and once from its beginning: two merges a pane, and one a window. The blocks
are the same for every reader, so the sums of floating-point numbers are, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import TypeVar

from cutwater.core.job.windows import WindowSpec

T = TypeVar("T")
Panes = Sequence[tuple[int, T]]
"""Start in ms and value, by start."""
_EVER = -(1 << 63)


def merged_windows(
    panes: Iterable[tuple[int, T]],
    window: WindowSpec,
    merge: Callable[[T, T], T],
    above_ms: int = _EVER,
    up_to_ms: int | None = None,
) -> Iterator[tuple[int, T]]:
    """Yield start in ms and value of each window that holds any of a key's panes, in order.

    `panes`: end in ms and value, by end. Only windows that end in (above_ms, up_to_ms] are returned.
    """
    size_ms, pane_ms = window.size_ms, window.panes.size_ms
    starts = ((end_ms - pane_ms, value) for end_ms, value in panes)
    before, number = list[tuple[int, T]](), 0
    for at, block in groupby(starts, key=lambda pane: pane[0] // size_ms):
        held = list(block)
        # Windows that begin in the block before end in this one.
        if before and number < at - 1:
            yield from _pair(before, [], number, window, merge, above_ms, up_to_ms)
            before = []
        yield from _pair(before, held, at - 1, window, merge, above_ms, up_to_ms)
        before, number = held, at
        if up_to_ms is not None and at * size_ms >= up_to_ms:
            return
    if before:
        yield from _pair(before, [], number, window, merge, above_ms, up_to_ms)


def _pair(
    one: Panes[T],
    two: Panes[T],
    number: int,
    window: WindowSpec,
    merge: Callable[[T, T], T],
    above_ms: int,
    up_to_ms: int | None,
) -> Iterator[tuple[int, T]]:
    """Yield the windows that begin in block `number`, whose panes are `one`; `two` are those of the next block."""
    size_ms, slide_ms = window.size_ms, window.slide_ms
    first_ms = max(number * size_ms, above_ms + 1 - size_ms)
    last_ms = (
        (number + 1) * size_ms - 1 if up_to_ms is None else min((number + 1) * size_ms - 1, up_to_ms - size_ms)
    )
    if not one and two:  # earlier windows hold no pane
        first_ms = max(first_ms, two[0][0] + 1 - size_ms)
    if not two and one:
        last_ms = min(last_ms, one[-1][0])
    first_ms += -first_ms % slide_ms
    if first_ms > last_ms:
        return
    ends = list(accumulate((value for _, value in reversed(one)), lambda later, pane: merge(pane, later)))
    begins = list(accumulate((value for _, value in two), merge))
    skipped = begun = 0
    for start_ms in range(first_ms, last_ms + 1, slide_ms):
        while skipped < len(one) and one[skipped][0] < start_ms:
            skipped += 1
        while begun < len(two) and two[begun][0] < start_ms + size_ms:
            begun += 1
        rest = len(one) - skipped
        if rest and begun:
            yield start_ms, merge(ends[rest - 1], begins[begun - 1])
        elif rest or begun:
            yield start_ms, ends[rest - 1] if rest else begins[begun - 1]
