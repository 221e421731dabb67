"""Standbys: who holds an owner's part as well, and who is not asked for a while because no answer came.

A standby restores and follows like its owner, all the time, and answers in its place when the owner does not. So
a takeover is no act: nothing is elected, nothing is handed over, and the owner that comes back is asked first
again. Partitions are divided by the owners alone: a standby that comes or goes moves no rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cutwater.core.errors import UsageError
from cutwater.core.state.partition_share import Partitions, held_by, owners

STANDBYS_MAX = 4
"""Of one owner: each may have to be waited for in turn."""
AWAY_S = 5.0
"""How long somebody who did not answer is left out, where there is somebody else to ask."""

Shares = Mapping[str, tuple[str, ...]]
"""The standbys of each owner, in the order in which they are asked."""


def shares_of(groups: Iterable[Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """From groups of an owner and its standbys. Raises UsageError where one is named twice, or too many are."""
    found: dict[str, tuple[str, ...]] = {}
    named: set[str] = set()
    for owner, *standbys in groups:
        if len(standbys) > STANDBYS_MAX:
            raise UsageError(f"peers: {owner} has {len(standbys)} standbys, and may have {STANDBYS_MAX}")
        for one in (owner, *standbys):
            if one in named:
                raise UsageError(f"peers: one is named twice: {one}")
            named.add(one)
        found[owner] = tuple(standbys)
    return found


def owner_of(peer: str, shares: Shares) -> str:
    """Whose part a peer holds: its own, unless it is a standby."""
    return next((owner for owner, standbys in shares.items() if peer in standbys), peer)


def held(peer: str, shares: Shares, partitions: int) -> Partitions | None:
    """The partitions, of so many, that a peer holds; None for all: of a lone owner, or where there are no peers.

    Raises UsageError where the owners cannot share them, or the peer is none of these.
    """
    if not shares:
        return None
    found = held_by(owner_of(peer, shares), owners(shares, partitions))
    # One owner divides nothing: a lone rehydrator that is given a standby keeps its rows and its snapshots.
    return found if len(shares) > 1 else None


class Silences:
    """Who did not answer lately. Moments come from a clock that never goes back; bounded by who is asked."""

    def __init__(self, away_s: float = AWAY_S) -> None:
        self._away_s = away_s
        self._until_s: dict[str, float] = {}

    def may_ask(self, peer: str, now_s: float) -> bool:
        """Is it time to ask? Of many questions, one asks whoever was away; the others do not wait for it."""
        until_s = self._until_s.get(peer)
        if until_s is None:
            return True
        if now_s < until_s:
            return False
        self._until_s[peer] = now_s + self._away_s
        return True

    def answered(self, peer: str) -> None:
        """It is there."""
        self._until_s.pop(peer, None)

    def silent(self, peer: str, now_s: float) -> None:
        """It gave no answer."""
        self._until_s[peer] = now_s + self._away_s
