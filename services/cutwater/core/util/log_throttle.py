"""A throttle for repeated log lines: one per interval, with the number of suppressed ones."""

from __future__ import annotations

import re
from dataclasses import dataclass

EVERY_S = 10.0
KINDS_MAX = 256
"""The most kinds of lines to remember; beyond, the one logged longest ago is forgotten."""
SHAPE_CHARACTERS_MAX = 200

# The thread and the duration differ between lines with the same meaning.
_THREAD = re.compile(r"\[thrd:[^\]]*\]:? ?")
_LASTING = re.compile(r" \(after [^)]*\)")
# A separate number. One in a host name or an address identifies the broker, and stays.
_NUMBER = re.compile(r"(?<![\w.:#/-])\d+(?:ms|s)?(?![\w.:/-])")


def shape(text: str) -> str:
    """Return the part that lines with the same meaning about the same broker have in common."""
    bare = _LASTING.sub("", _THREAD.sub("", text))
    return _NUMBER.sub("#", bare)[:SHAPE_CHARACTERS_MAX]


@dataclass
class _LoggedLine:
    at_s: float
    left_out: int = 0


class LogThrottle:
    """Remembers when a kind of line was logged. Not thread-safe."""

    def __init__(self, every_s: float = EVERY_S, kinds_max: int = KINDS_MAX) -> None:
        self._every_s = every_s
        self._kinds_max = kinds_max
        self._said: dict[str, _LoggedLine] = {}

    def admit(self, kind: str, now_s: float) -> int | None:
        """Return the number of suppressed lines of this kind since the last one; None to suppress this one."""
        before = self._said.get(kind)
        if before is not None and now_s - before.at_s < self._every_s:
            before.left_out += 1
            return None
        self._said.pop(kind, None)
        self._said[kind] = _LoggedLine(now_s)
        if len(self._said) > self._kinds_max:
            del self._said[next(iter(self._said))]
        return before.left_out if before else 0
