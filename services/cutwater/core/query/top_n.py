"""The first rows by a measure, of any number that pass by: nulls last, a total order, memory for a few."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

Row = TypeVar("Row", bound=tuple[Any, ...])


class Ranking(Generic[Row]):
    """Keeps the first `most` of the rows offered.

    By value, the largest first where `descending`; among equal values by the rows themselves, ascending (no two
    are equal). None comes last either way. NaN is above every number, as in Spark.
    """

    def __init__(self, most: int, descending: bool) -> None:
        self._most = most
        self._descending = descending
        self._kept: list[tuple[tuple[Any, ...], Row]] = []
        self._bar: tuple[Any, ...] | None = None

    def offer(self, value: Any, row: Row) -> None:
        """The value must compare with those of the other rows, or be None."""
        order = self._order(value)
        if self._bar is not None and (order < self._bar if self._descending else order > self._bar):
            return
        self._kept.append((order, row))
        if len(self._kept) >= 2 * self._most + 1:
            self._cut()

    def first(self) -> list[Row]:
        """The rows, in order."""
        self._cut()
        return [row for _, row in self._kept]

    def _cut(self) -> None:
        # Sorting is stable, in reverse too: so equal values keep the order of the first sort.
        self._kept.sort(key=lambda one: one[1])
        self._kept.sort(key=lambda one: one[0], reverse=self._descending)
        del self._kept[self._most :]
        if len(self._kept) == self._most:
            self._bar = self._kept[-1][0]

    def _order(self, value: Any) -> tuple[Any, ...]:
        if value is None:
            return (not self._descending,)
        # In a sort a NaN would stand wherever it happened to be: it is equal to, below and above nothing.
        nan = value != value  # noqa: PLR0124
        return (self._descending, nan, 0 if nan else value)
