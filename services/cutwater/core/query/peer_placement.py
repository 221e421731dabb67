"""Placement of partitions on owners and standbys, and a back-off for peers that do not answer.

A standby always restores and follows like its owner, and answers if the owner does not. So a takeover needs no
election and no hand-over, and a returning owner is queried first again. Partitions are divided among the owners
only, so adding or removing a standby moves no rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cutwater.core.errors import UsageError
from cutwater.core.state.partition_share import Partitions, held_by, owners

STANDBYS_MAX = 4
"""Standbys per owner: a query may have to wait for each in turn."""
AWAY_S = 5.0
"""How long a peer that did not answer is skipped, if there is another one."""

Shares = Mapping[str, tuple[str, ...]]
"""The standbys by owner, in query order."""


def shares_of(groups: Iterable[Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Build the shares from groups of an owner and its standbys. Raises UsageError for duplicates or too many."""
    found: dict[str, tuple[str, ...]] = {}
    named: set[str] = set()
    for owner, *standbys in groups:
        if len(standbys) > STANDBYS_MAX:
            raise UsageError(f"peers: {owner} has {len(standbys)} standbys, but may have at most {STANDBYS_MAX}")
        for one in (owner, *standbys):
            if one in named:
                raise UsageError(f"peers: one is named twice: {one}")
            named.add(one)
        found[owner] = tuple(standbys)
    return found


def owner_of(peer: str, shares: Shares) -> str:
    """Return the owner whose part a peer holds: itself, unless it is a standby."""
    return next((owner for owner, standbys in shares.items() if peer in standbys), peer)


def held_partitions(peer: str, shares: Shares, partitions: int) -> Partitions | None:
    """Return the partitions that a peer holds; None for all, that is, for a lone owner or without peers. Raises
    UsageError if the owners cannot share the partitions, or the peer is not one of `shares`."""
    if not shares:
        return None
    found = held_by(owner_of(peer, shares), owners(shares, partitions))
    # With one owner nothing is divided: a lone rehydrator that gets a standby keeps its rows and snapshots.
    return found if len(shares) > 1 else None


class Silences:
    """Peers that did not answer lately. Times are from a monotonic clock; bounded by the number of peers."""

    def __init__(self, away_s: float = AWAY_S) -> None:
        self._away_s = away_s
        self._until_s: dict[str, float] = {}

    def may_ask(self, peer: str, now_s: float) -> bool:
        """Return whether to query the peer. Of concurrent queries only one tries a silent peer."""
        until_s = self._until_s.get(peer)
        if until_s is None:
            return True
        if now_s < until_s:
            return False
        self._until_s[peer] = now_s + self._away_s
        return True

    def record_answer(self, peer: str) -> None:
        """Record an answer."""
        self._until_s.pop(peer, None)

    def record_silence(self, peer: str, now_s: float) -> None:
        """Record a missing answer."""
        self._until_s[peer] = now_s + self._away_s
