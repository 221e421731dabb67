"""Repetition for processes that no operator runs again. Each claim, promotion and withdrawal fences the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from cutwater.core.errors import FencedError

T = TypeVar("T")
TURNS_MAX = 5
PAUSE_S = 0.5
"""Before the second turn; twice as long before each later one."""


def in_turn(act: Callable[[], T], pause: Callable[[float], object] = time.sleep) -> T:
    """Return what an action of `Claims` returns. It is repeated if another process has fenced it; at its last turn
    FencedError is raised."""
    for number in range(TURNS_MAX - 1):
        try:
            return act()
        except FencedError:
            pause(PAUSE_S * 2**number)
    return act()
