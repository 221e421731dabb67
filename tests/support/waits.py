"""What a wait in vain says: at its end, not at its beginning."""

from __future__ import annotations

from collections.abc import Callable

What = str | Callable[[], str]
"""What is waited for; a function says what is there when it did not come."""


def said(what: What) -> str:
    return what if isinstance(what, str) else what()
