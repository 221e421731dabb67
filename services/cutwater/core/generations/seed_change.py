"""How rows of a parent become the seeds of a generation whose job differs: keys, panes and columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cutwater.core.events.key_columns import key_text
from cutwater.core.job.measures import Measure, Partials


class SeedRow(NamedTuple):
    """The place of a row: several rows of the parent may become one."""

    key: str
    start_ms: int
    end_ms: int


class SeedChange(NamedTuple):
    columns: tuple[tuple[str, str | None], ...]
    """The columns of the new state, in its order, each with that of the parent's; None: it starts empty."""
    key: tuple[int, ...] | None
    """The places of the key's columns in the parent's key; None: the key stays."""
    from_list: bool
    """Whether the parent's key is a list of columns in a text."""
    to_list: bool
    from_pane_ms: int
    """The length of the parent's rows."""
    pane_ms: int
    """The length of the new ones, a multiple of it."""

    @property
    def merges(self) -> bool:
        """Whether several rows of the parent may become one."""
        return self.key is not None or self.pane_ms != self.from_pane_ms

    @property
    def is_none(self) -> bool:
        """Whether the rows stay as they are."""
        return not self.merges and all(new == old for new, old in self.columns)

    def horizon_ms(self, parent_ms: int) -> int:
        """Return the horizon that the generation starts with: a pane that lacks one of the parent's is gone.

        A new pane that ends at E begins with the parent's pane that ends at E - new + old.
        """
        if not parent_ms or self.pane_ms == self.from_pane_ms:
            return parent_ms
        incomplete_ms = (parent_ms + self.pane_ms - self.from_pane_ms) // self.pane_ms * self.pane_ms
        return max(parent_ms, incomplete_ms)

    def place(self, row: SeedRow) -> SeedRow:
        """Return the place of a parent's row. The driver does the same in Spark's SQL; a test compares them."""
        key = row.key
        if self.key is not None:
            parts = json.loads(key) if self.from_list else [key]
            told = [parts[place] for place in self.key]
            key = key_text(told) if self.to_list else told[0]
        start_ms = row.start_ms - row.start_ms % self.pane_ms
        return SeedRow(key, start_ms, start_ms + self.pane_ms)


def same_row(change: SeedChange, measures: Sequence[Measure]) -> Callable[[Partials, Partials], bool]:
    """Return whether a parent's row, and one of the new state, say the same: what both have is equal, and what
    only the new one has is as of a window without events. `measures`: those of the new state."""
    sources = dict(change.columns)
    kept = [(new, old) for new, old in change.columns if old is not None]
    added = [one for one in measures if any(sources[part.column] is None for part in one.partials)]
    empty = [(one, one.present(no_partials(one))) for one in added]

    def same(before: Partials, after: Partials) -> bool:
        return all(_equal(before[old], after[new]) for new, old in kept) and all(
            _equal(one.present(after), shown) for one, shown in empty
        )

    return same


def no_partials(measure: Measure) -> dict[str, Any]:
    """Return the partials of a measure in a row that has none of its values."""
    return dict.fromkeys(part.column for part in measure.partials)


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other or (one != one and other != other))  # noqa: PLR0124  (NaN)
