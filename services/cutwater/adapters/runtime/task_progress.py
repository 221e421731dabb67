"""Progress of one task, with rate and time left: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from cutwater.core.util.progress_rate import EVERY_S, ProgressRate, Rate

BAR_EVERY_S = 1.0
Say = Callable[[str], None]


class TaskProgress:
    """Call it with the amount that is done. Not thread-safe."""

    def __init__(
        self,
        doing: str,
        unit: str,
        total: int | None,
        say: Say,
        bar: Any = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`say`: prints a line. `bar`: a `rich.progress.Progress` that is shown instead; None in plain output."""
        self._unit, self._say, self._bar, self._now_s = unit, say, bar, now_s
        self._every_s = EVERY_S if bar is None else BAR_EVERY_S
        self._task: Any = None
        self._begin(doing, total)

    def __call__(self, done: int, doing: str | None = None, total: int | None = None) -> None:
        """Take the amount done so far. `doing`: what is done now; that of another text begins at 0, of `total`."""
        if doing is not None and doing != self._doing:
            self._begin(doing, total)
        if self._bar is not None:
            self._bar.update(self._task, completed=done)
        if rate := self._rated.next_line(done, self._now_s()):
            said = amount_text(rate, self._total, self._unit)
            if self._bar is None:
                self._say(f"{self._doing}: {said}")
            else:
                self._bar.update(self._task, said=said)

    def _begin(self, doing: str, total: int | None) -> None:
        self._doing, self._total = doing, total
        self._rated = ProgressRate(total, self._now_s(), self._every_s)
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(doing, total=total, said="")


def amount_text(rate: Rate, total: int | None, unit: str) -> str:
    """Return for example `1,200 of 3,000 rows, 400/s, about 5 s left`."""
    of = "" if total is None else f" of {total:,}"
    left = "" if rate.left_s is None else f", about {rate.left_s:,.0f} s left"
    return f"{rate.done:,}{of} {unit}, {rate.per_s:,.0f}/s{left}"
