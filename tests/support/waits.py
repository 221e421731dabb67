"""The loop of a wait, and what one in vain says: at its end, not at its beginning."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 300.0
PAUSE_S_MAX = 2.0
What = str | Callable[[], str]
"""What is waited for; a function says what is there when it did not come."""


def wait_until(done: Callable[[], Any], what: What, patience_s: float = PATIENCE_S, pause_s: float = 0.05) -> Any:
    """The first true answer; fails the test with `what` when none comes within the bound.

    A costly look is followed by a longer pause: it would take the machine from what is waited for.
    """
    began = looked = time.monotonic()
    while not (answer := done()):
        now = time.monotonic()
        if now > began + patience_s:
            said = what if isinstance(what, str) else what()
            raise AssertionError(f"waited {patience_s:g} s in vain for {said}")
        time.sleep(max(pause_s, min(3 * (now - looked), PAUSE_S_MAX)))
        looked = time.monotonic()
    return answer
