"""The names outside of which two states are equal, so that a comparison need not read all rows."""

from __future__ import annotations

from collections.abc import Iterable


class Suspects:
    """Names of rows that may differ between two states. Whoever writes rows to one of them adds their names."""

    def __init__(self, most: int) -> None:
        """`most`: with more names it gives up, and keeps none."""
        self._most = most
        self._names: set[bytes] = set()
        self.given_up = False

    def add(self, names: Iterable[bytes]) -> None:
        if not self.given_up:
            self._names.update(names)
            if len(self._names) > self._most:
                self.give_up()

    def give_up(self) -> None:
        """Know nothing any more: rows were written whose names are not known."""
        self._names.clear()
        self.given_up = True

    def keep_only(self, names: Iterable[bytes]) -> None:
        """Replace the names: all others were compared, and are equal."""
        self._names = set(names)

    def __len__(self) -> int:
        return len(self._names)

    def in_order(self) -> list[bytes]:
        return sorted(self._names)
