"""Snapshots that replace a parent's changelog: all of exactly its milestone, together with all its partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cutwater.core.protocol.records import Milestone
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.snapshot_manifest import Manifest
from cutwater.core.util.timestamps import iso

SHOWN_MAX = 5


def unfit(parent: Milestone, manifest: Manifest, milestone: object) -> str:
    """Return why a snapshot is not the parent's state at its milestone; empty if it is. `milestone`: the
    snapshot's record as in the region that wrote it; `parent` likewise."""
    if (manifest.job, manifest.generation, manifest.sequence) != (parent.job, parent.generation, parent.sequence):
        return f"it is of {manifest.job}, {manifest.generation}:{manifest.sequence}"
    if milestone != parent:
        return f"its {parent.token} is another milestone: of a stream that was replaced, or of a fork"
    if manifest.schema != parent.schema_fingerprint:
        return f"its rows are of schema {manifest.schema}, but the milestone's are of {parent.schema_fingerprint}"
    return evicted(parent, manifest.lower_ms)


def evicted(parent: Milestone, lower_ms: int | None) -> str:
    """Return why a view without the windows that end by `lower_ms` is not the whole state; empty if it is."""
    if lower_ms is None or lower_ms <= parent.horizon_ms:
        return ""
    return f"windows that end by {iso(lower_ms)} were evicted from the view (max_bytes)"


class Share(NamedTuple):
    """The partitions taken from one snapshot."""

    name: str
    partitions: Partitions


def covering(held: Mapping[str, Partitions | None], partitions: int) -> tuple[tuple[Share, ...], Partitions]:
    """Return the snapshots to read, by name, each partition from one of them; and the partitions that none holds.

    `held`: the partitions of each snapshot, None for all. The largest part is taken first, to use few snapshots.
    """
    missing = frozenset(range(partitions))
    found: list[Share] = []
    left = {name: missing if part is None else part for name, part in held.items()}
    while missing and left:
        name = max(sorted(left), key=lambda one: len(left[one] & missing))
        gives = left.pop(name) & missing
        if not gives:
            break
        found.append(Share(name, gives))
        missing -= gives
    return tuple(found), missing


def refusal(
    parent: Milestone, why: str, store: str, passed_over: Mapping[str, str], parts: Iterable[str] = ()
) -> str:
    """Return the error text if neither the changelog nor the store has the state.

    `why`: the problem of the changelog. `passed_over`: by share, the problem of its snapshot. `parts`: the shares
    whose snapshots are valid but hold a part only.
    """
    told = {**dict.fromkeys(parts, "it holds a part only"), **passed_over}
    # A manifest is never overwritten: with a damaged one in place, 'create' would find its work done.
    anew = (
        "; if a snapshot there is damaged, first start that view with CUTWATER_SNAPSHOTS set to an empty place: "
        "an existing snapshot is never overwritten"
    )
    return (
        f"a generation cannot continue from {parent.token}: {why}; and {_snapshot_text(parent, store, told)}. "
        "Take a snapshot of a view that shows that milestone ('cutwater snapshots create'; in a standby region, "
        f"of its replica{anew if passed_over else ''}), set CUTWATER_SNAPSHOTS to a store that has one, or start "
        "from a later milestone"
    )


def _snapshot_text(parent: Milestone, store: str, passed_over: Mapping[str, str]) -> str:
    if not store:
        return "no snapshot store is configured"
    if not passed_over:
        return f"{store} holds no snapshot of it"
    return f"no snapshot in {store} can replace it ({'; '.join(_reasons(passed_over.items()))})"


def _reasons(passed_over: Iterable[tuple[str, str]]) -> list[str]:
    told = [f"{name}: {reason}" for name, reason in sorted(passed_over)]
    return told if len(told) <= SHOWN_MAX else [*told[:SHOWN_MAX], f"{len(told) - SHOWN_MAX} more"]
