"""Which snapshots stand for a parent's changelog: of exactly its milestone, together of all its partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cutwater.core.protocol.records import Milestone
from cutwater.core.state.partition_share import Partitions
from cutwater.core.state.snapshot_manifest import Manifest
from cutwater.core.util.timestamps import iso

SHOWN_MAX = 5


def unfit(parent: Milestone, manifest: Manifest, milestone: object) -> str:
    """Why a snapshot is not the parent's state at its milestone; empty where it is.

    `milestone`: what its record says, as the region has it that wrote it; `parent` likewise.
    """
    if (manifest.job, manifest.generation, manifest.sequence) != (parent.job, parent.generation, parent.sequence):
        return f"it is of {manifest.job}, {manifest.generation}:{manifest.sequence}"
    if milestone != parent:
        return f"its {parent.token} is another milestone: of a stream that was replaced, or of a fork"
    if manifest.schema != parent.schema_fingerprint:
        return f"its rows are of schema {manifest.schema}, and the milestone's of {parent.schema_fingerprint}"
    return evicted(parent, manifest.lower_ms)


def evicted(parent: Milestone, lower_ms: int | None) -> str:
    """Why a view that keeps no windows which end by `lower_ms` is not the state; empty where it is."""
    if lower_ms is None or lower_ms <= parent.horizon_ms:
        return ""
    return f"windows that end by {iso(lower_ms)} were evicted from the view (max_bytes)"


class Share(NamedTuple):
    """What one snapshot gives."""

    name: str
    partitions: Partitions


def covering(held: Mapping[str, Partitions | None], partitions: int) -> tuple[Share, ...]:
    """Snapshots that hold every partition once, by name; none where they do not together.

    `held`: what each of them holds, None for all. As few as can be had by taking the largest part first.
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
    return () if missing else tuple(found)


def refusal(
    parent: Milestone, why: str, store: str, passed_over: Mapping[str, str], parts: Iterable[str] = ()
) -> str:
    """Neither the changelog nor the store has the state. `why`: what is wrong with the changelog.

    `passed_over`: by share, what is wrong with its snapshot. `parts`: the shares whose snapshots are right, and
    hold a part only.
    """
    told = {**dict.fromkeys(parts, "it holds a part only"), **passed_over}
    # A manifest that stands is never overwritten: beside it 'create' would find its work done.
    anew = (
        "; where one stands that is damaged, start that view with CUTWATER_SNAPSHOTS of an empty place first: "
        "what stands is never overwritten"
    )
    return (
        f"{parent.token} cannot be gone on from: {why}; and {_found(parent, store, told)}. "
        "Take a snapshot of a view that shows that milestone ('cutwater snapshots create'; in a standby region, "
        f"of its replica{anew if passed_over else ''}), name the store of one by CUTWATER_SNAPSHOTS, or start "
        "from a later milestone"
    )


def _found(parent: Milestone, store: str, passed_over: Mapping[str, str]) -> str:
    if not store:
        return "no store of snapshots is named"
    if not passed_over:
        return f"{store} holds no snapshot of it"
    return f"no snapshot in {store} can stand for it ({'; '.join(_reasons(passed_over.items()))})"


def _reasons(passed_over: Iterable[tuple[str, str]]) -> list[str]:
    told = [f"{name}: {reason}" for name, reason in sorted(passed_over)]
    return told if len(told) <= SHOWN_MAX else [*told[:SHOWN_MAX], f"{len(told) - SHOWN_MAX} more"]
