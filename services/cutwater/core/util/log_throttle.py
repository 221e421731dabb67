"""Lines that come again and again: each at most once in a while, and how many were left out in between."""

from __future__ import annotations

import re
from dataclasses import dataclass

EVERY_S = 10.0
KINDS_MAX = 256
"""Kinds of lines that are remembered; beyond, the one said longest ago is forgotten."""
SHAPE_CHARACTERS_MAX = 200

# Where a line was said and for how long the matter has lasted: different in each of two lines that say the same.
_THREAD = re.compile(r"\[thrd:[^\]]*\]:? ?")
_LASTING = re.compile(r" \(after [^)]*\)")
# A number that stands alone. One in a host's name or an address says who is meant, and stays.
_NUMBER = re.compile(r"(?<![\w.:#/-])\d+(?:ms|s)?(?![\w.:/-])")


def shape(text: str) -> str:
    """What two lines have in common that say the same about the same broker."""
    bare = _LASTING.sub("", _THREAD.sub("", text))
    return _NUMBER.sub("#", bare)[:SHAPE_CHARACTERS_MAX]


@dataclass
class _Said:
    at_s: float
    left_out: int = 0


class Rarely:
    """Remembers when a line of a kind was said. Not for two threads at once."""

    def __init__(self, every_s: float = EVERY_S, kinds_max: int = KINDS_MAX) -> None:
        self._every_s = every_s
        self._kinds_max = kinds_max
        self._said: dict[str, _Said] = {}
        """In the order in which they were said last."""

    def take(self, kind: str, now_s: float) -> int | None:
        """How many of this kind were left out since the last one; None where this one is to be left out, too."""
        before = self._said.get(kind)
        if before is not None and now_s - before.at_s < self._every_s:
            before.left_out += 1
            return None
        self._said.pop(kind, None)
        self._said[kind] = _Said(now_s)
        if len(self._said) > self._kinds_max:
            del self._said[next(iter(self._said))]
        return before.left_out if before else 0
