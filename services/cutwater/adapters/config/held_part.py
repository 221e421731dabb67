"""The part of a job's state that a rehydrator holds, from its settings or from the options of a command."""

from __future__ import annotations

from dataclasses import dataclass

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.hashing import key_hash
from cutwater.core.errors import UsageError
from cutwater.core.job.job import Job
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.selection import Selection, names_of, since_of


@dataclass(frozen=True)
class HeldPart:
    partitions: Partitions | None = None
    """The partitions that are read and proved; None for all."""
    selection: Selection | None = None
    """The selection of rows to keep; None for all."""


def holding_of(settings: Settings, job: Job) -> tuple[HeldPart, bool]:
    """Return what a rehydrator holds, and whether it is a replica. Raises UsageError for invalid settings."""
    asked = (settings.select_partitions, settings.select_keys, settings.select_prefixes, settings.select_since)
    if not (any(asked) or settings.replica or settings.replica_of):
        return HeldPart(settings.held(job.shards.partitions)), False
    if settings.peers:
        raise UsageError("CUTWATER_PEERS: a replica, or one with a selection, is no peer: unset one of both")
    return selected_part(job, *asked), True


def selected_part(job: Job, partitions: str, keys: str, prefixes: str, since: str) -> HeldPart:
    """Parse a selection; if it has keys only, just their partitions are read. Raises UsageError, also for a key
    that is none of the job: it would look like one without rows."""
    shards = job.shards
    selection = Selection.of(map(job.stored_key, names_of(keys)), names_of(prefixes), since_of(since))
    given = _partitions(partitions, shards.partitions) if partitions else None
    if selection is None or not selection.keys or selection.prefixes:
        return HeldPart(given, selection)
    theirs = {key: shards.partition(shards.shard(key_hash(key))) for key in sorted(selection.keys)}
    elsewhere = [key for key in theirs if given is not None and theirs[key] not in given]
    if elsewhere:
        raise UsageError(
            f"key {elsewhere[0]} is in partition {theirs[elsewhere[0]]}, which is not in the given partitions: "
            "leave the partitions out, they follow from the keys"
        )
    return HeldPart(frozenset(theirs.values()), selection)


def _partitions(text: str, count: int) -> Partitions:
    try:
        found = frozenset(int(one) for one in text.split(","))
    except ValueError:
        raise UsageError(f"partitions {text}: write numbers separated by commas, such as 0,2") from None
    if not found or min(found) < 0 or max(found) >= count:
        raise UsageError(f"partitions {text}: the changelog has partitions 0 to {count - 1}")
    return found
