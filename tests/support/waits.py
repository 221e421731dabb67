"""The loop of a wait, and what one in vain says: at its end, not at its beginning."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 300.0
What = str | Callable[[], str]
"""What is waited for; a function says what is there when it did not come."""


def wait_until(done: Callable[[], Any], what: What, patience_s: float = PATIENCE_S, pause_s: float = 0.05) -> Any:
    """The first true answer; fails the test with `what` when none comes within the bound."""
    deadline = time.monotonic() + patience_s
    while not (answer := done()):
        if time.monotonic() > deadline:
            said = what if isinstance(what, str) else what()
            raise AssertionError(f"waited {patience_s:g} s in vain for {said}")
        time.sleep(pause_s)
    return answer
