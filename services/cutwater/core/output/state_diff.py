"""Difference of two states sorted by name: millions of rows, nearly all of them equal."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from operator import itemgetter, ne

Rows = Sequence[tuple[bytes, bytes]]
"""Names and values, at least one, in the order of names. A state's next rows come after these."""
Same = Callable[[bytes, bytes], bool]
"""Returns whether two values mean the same."""
_NAME = itemgetter(0)


def diff_states(
    old: Iterator[Rows], new: Iterator[Rows], same: Same | None
) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield names with the values of rows that are new or changed in `new`, None for rows only in `old`; in order.
    `same`: called for values that are not equal. None: all rows of `new` are yielded, whatever is in `old`."""
    return ((name, after) for name, _, after in unequal_rows(old, new, same))


def unequal_rows(
    old: Iterator[Rows], new: Iterator[Rows], same: Same | None
) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
    """Yield the same rows with both values; None for the state that lacks the row."""
    one, two = _Reading(old), _Reading(new)
    while bounds := [rows.held[-1][0] for rows in (one, two) if rows.look()]:
        # Up to where both are known: later names may be in the other's next rows.
        up_to = min(bounds)
        was, now = one.take(up_to), two.take(up_to)
        if same is None:
            yield from _between(dict(was), dict(now), same)
        elif was != now:
            before, after = _unlike(was, now)
            yield from _between(dict(before), dict(after), same)


def _unlike(was: Rows, now: Rows) -> tuple[Iterable[tuple[bytes, bytes]], Iterable[tuple[bytes, bytes]]]:
    """Return both without the rows that are equal at the same index; equal rows are not handled one by one."""
    if len(was) != len(now):
        return was, now
    unlike = list(map(ne, was, now))
    return compress(was, unlike), compress(now, unlike)


def _between(
    was: dict[bytes, bytes], now: dict[bytes, bytes], same: Same | None
) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
    names = [name for name, value in now.items() if same is None or was.get(name) != value]
    names += was.keys() - now.keys()
    for name in sorted(names):
        before, after = was.get(name), now.get(name)
        if same is None or before is None or after is None or not same(before, after):
            yield name, before, after


class _Reading:
    """The rows of one state that are not compared yet."""

    def __init__(self, pieces: Iterator[Rows]) -> None:
        self._pieces = pieces
        self.held: Rows = ()

    def look(self) -> bool:
        """Load the next rows; return whether any are left."""
        self.held = self.held or next(self._pieces, ())
        return bool(self.held)

    def take(self, up_to: bytes) -> Rows:
        """Remove and return the held rows with names up to this one."""
        at = bisect_right(self.held, up_to, key=_NAME)
        taken, self.held = self.held[:at], self.held[at:]
        return taken
