"""Since which milestone a row is wrong: the search backwards from the newest one, by a condition over the row.

Where the history is known, the answer is exact. Where it is not, snapshots are asked by bisection: each costs a
download, so as few as possible. Like every bisection, it takes for granted that the row did not become wrong,
right and wrong again between two milestones that it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cutwater.core.past.row_history import Known, Stretch, Unknown, Values


@dataclass(frozen=True)
class WrongSince:
    """`first_wrong`: None if the row is right at the newest milestone, or is not known there."""

    first_wrong: int | None
    """The first milestone that is known to be wrong, of those that lead to the newest one."""
    last_right: int | None = None
    """The last milestone before it that is known to be right; None: of none it is known."""
    assumed: tuple[Unknown, ...] = ()
    """Milestones between wrong ones that are taken for wrong, since nothing tells of them."""
    newest_known: bool = True
    """Whether the row at the newest milestone is known."""

    @property
    def exact(self) -> bool:
        """Whether no other milestone can be the first wrong one."""
        known = self.first_wrong is not None and self.last_right == self.first_wrong - 1
        return known and not self.assumed


def wrong_since(
    found: Sequence[Stretch],
    wrong: Callable[[Values | None], bool],
    probes: Sequence[int] = (),
    probe: Callable[[int], Known | None] = lambda _sequence: None,
) -> WrongSince:
    """Return since when the row is wrong. `probes`: milestones that `probe` can look up; it may find nothing."""
    if not found or not isinstance(found[-1], Known):
        return WrongSince(None, newest_known=False)
    if not wrong(found[-1].values):
        return WrongSince(None)
    first_wrong = found[-1].first
    assumed: list[Unknown] = []
    gap: Unknown | None = None
    for one in reversed(found[:-1]):
        if isinstance(one, Unknown):
            gap = one if gap is None else Unknown(one.first, gap.last)
        elif wrong(one.values):
            assumed += [gap] if gap else []
            first_wrong, gap = one.first, None
        else:
            bounds = _narrowed(one.last, first_wrong, wrong, probes, probe)
            return WrongSince(*bounds, tuple(assumed))
    return WrongSince(*_narrowed(None, first_wrong, wrong, probes, probe), tuple(assumed))


def _narrowed(
    last_right: int | None,
    first_wrong: int,
    wrong: Callable[[Values | None], bool],
    probes: Sequence[int],
    probe: Callable[[int], Known | None],
) -> tuple[int, int | None]:
    """Return the first wrong and the last right milestone, nearer to each other by bisection over the probes."""
    left = sorted(one for one in probes if (last_right or 0) < one < first_wrong)
    while left:
        middle = left.pop(len(left) // 2)
        seen = probe(middle)
        if seen is None:
            continue
        if wrong(seen.values):
            first_wrong = middle
        else:
            last_right = middle
        left = [one for one in left if (last_right or 0) < one < first_wrong]
    return first_wrong, last_right
