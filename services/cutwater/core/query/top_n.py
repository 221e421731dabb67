"""Top-N rows by a measure from any number of rows: nulls last, a total order, bounded memory."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

Row = TypeVar("Row", bound=tuple[Any, ...])


class Ranking(Generic[Row]):
    """Keeps the first `most` of the rows offered.

    Ordered by value, largest first if `descending`; equal values by the rows themselves, ascending (no two are
    equal). None is always last. NaN is above every number, as in Spark.
    """

    def __init__(self, most: int, descending: bool) -> None:
        self._most = most
        self._descending = descending
        self._kept: list[tuple[tuple[Any, ...], Row]] = []
        self._bar: tuple[Any, ...] | None = None

    def offer(self, value: Any, row: Row) -> None:
        """Add a row. The value must be comparable with the other rows' values, or None."""
        order = self._order(value)
        if self._bar is not None and (order < self._bar if self._descending else order > self._bar):
            return
        self._kept.append((order, row))
        if len(self._kept) >= 2 * self._most + 1:
            self._cut()

    def first(self) -> list[Row]:
        """Return the rows in order."""
        self._cut()
        return [row for _, row in self._kept]

    def _cut(self) -> None:
        # Sorting is stable, also in reverse, so equal values keep the order of the first sort.
        self._kept.sort(key=lambda one: one[1])
        self._kept.sort(key=lambda one: one[0], reverse=self._descending)
        del self._kept[self._most :]
        if len(self._kept) == self._most:
            self._bar = self._kept[-1][0]

    def _order(self, value: Any) -> tuple[Any, ...]:
        if value is None:
            return (not self._descending,)
        # NaN compares with nothing, so a sort would leave it at a random place.
        nan = value != value  # noqa: PLR0124
        return (self._descending, nan, 0 if nan else value)
