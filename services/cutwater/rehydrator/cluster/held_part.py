"""A read-only replica: a rehydrator that holds the state or a part of it, for itself, and says what it lacks."""

from __future__ import annotations

from typing import Any

from fastapi import HTTPException

from cutwater.adapters.config.held_part import Holding
from cutwater.adapters.hashing import key_hash
from cutwater.core.job.shards import ShardMap
from cutwater.core.state.selection import Selection


class Replica:
    """What one holds. Nobody passes questions on to it; snapshots it takes of another region's state only."""

    def __init__(self, holding: Holding, shards: ShardMap, origin: str = "") -> None:
        """`origin`: the region whose state it shows by a copy; empty where it is this one."""
        self.origin = origin
        self._holding = holding
        self._shards = shards

    def require(self, key: str) -> None:
        """421 for a key of which it holds nothing: no rows would look like none."""
        if not self._here(key) or not (self.kept is None or self.kept.keeps_key(key)):
            raise HTTPException(421, f"{self._only()}: ask a rehydrator that holds this key")

    def require_prefix(self, prefix: str) -> None:
        """421 where it holds nothing of any key that begins so."""
        if self.kept is not None and not self.kept.any_begins(prefix, self._here):
            raise HTTPException(421, f"{self._only()}: ask a rehydrator that holds keys that begin like this")

    def _here(self, key: str) -> bool:
        """Is the key's partition one of those that it holds?"""
        held = self._holding.partitions
        return held is None or self._shards.partition(self._shards.shard(key_hash(key))) in held

    def _only(self) -> str:
        parts = [] if self.partitions is None else [f"partitions {', '.join(map(str, self.partitions))}"]
        only = " with ".join([*parts, *([] if self.kept is None else [str(self.kept)])])
        return f"this replica holds only {only}"

    @property
    def partitions(self) -> list[int] | None:
        """Those that it holds; None for all."""
        return None if self._holding.partitions is None else sorted(self._holding.partitions)

    @property
    def kept(self) -> Selection | None:
        """What it holds of them; None for everything."""
        return self._holding.selection

    @property
    def selection(self) -> dict[str, Any] | None:
        """The same as answers name it."""
        return None if self.kept is None else self.kept.as_object()

    @property
    def outline(self) -> dict[str, Any] | None:
        """The same in short, for those who show no token, too: how many keys there are, not which."""
        told = self.selection
        return told and {**told, "keys": len(told["keys"]), "prefixes": len(told["prefixes"])}

    def told(self, names: bool) -> dict[str, Any]:
        """For an answer with rows: what of the state they can be; nothing where that is all of it."""
        if self._holding == Holding():
            return {}
        return {"holds": {"partitions": self.partitions, "selection": self.selection if names else self.outline}}
