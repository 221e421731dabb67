"""A read-only replica: a rehydrator that holds all or part of the state, and rejects keys that it lacks."""

from __future__ import annotations

from typing import Any

from fastapi import HTTPException

from cutwater.adapters.config.held_part import HeldPart
from cutwater.adapters.hashing import key_hash
from cutwater.core.job.shards import ShardMap
from cutwater.core.state.selection import Selection


class Replica:
    """The part of the state that a replica holds. Peers pass no requests to it."""

    def __init__(self, holding: HeldPart, shards: ShardMap, origin: str = "") -> None:
        """`origin`: the region that it copies, and takes snapshots of; empty for this region's own state."""
        self.origin = origin
        self._holding = holding
        self._shards = shards

    def require(self, key: str) -> None:
        """Raise 421 for a key that it does not hold: an empty answer would look like a key without rows."""
        if not self._here(key) or not (self.row_selection is None or self.row_selection.keeps_key(key)):
            raise HTTPException(421, f"{self._only()}: ask a rehydrator that holds this key")

    def require_prefix(self, prefix: str) -> None:
        """Raise 421 if it holds no key with this prefix."""
        if self.row_selection is not None and not self.row_selection.any_begins(prefix, self._here):
            raise HTTPException(421, f"{self._only()}: ask a rehydrator that holds keys with this prefix")

    def _here(self, key: str) -> bool:
        held = self._holding.partitions
        return held is None or self._shards.partition(self._shards.shard(key_hash(key))) in held

    def _only(self) -> str:
        parts = [] if self.partitions is None else [f"partitions {', '.join(map(str, self.partitions))}"]
        only = " with ".join([*parts, *([] if self.row_selection is None else [str(self.row_selection)])])
        return f"this replica holds only {only}"

    @property
    def partitions(self) -> list[int] | None:
        return None if self._holding.partitions is None else sorted(self._holding.partitions)

    @property
    def row_selection(self) -> Selection | None:
        return self._holding.selection

    @property
    def selection(self) -> dict[str, Any] | None:
        return None if self.row_selection is None else self.row_selection.as_object()

    @property
    def outline(self) -> dict[str, Any] | None:
        """The selection without names of keys, only their numbers: for answers that need no token."""
        told = self.selection
        return told and {**told, "keys": len(told["keys"]), "prefixes": len(told["prefixes"])}

    def holds_field(self, names: bool) -> dict[str, Any]:
        """Return the `holds` of an answer with rows; empty if the replica holds everything."""
        if self._holding == HeldPart():
            return {}
        return {"holds": {"partitions": self.partitions, "selection": self.selection if names else self.outline}}
