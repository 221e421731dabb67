"""Shares of a job's partitions: which view holds which ones, and what a milestone proves about a share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cutwater.core.errors import DivergenceError, UsageError
from cutwater.core.protocol.changelog_rows import fold, signed
from cutwater.core.protocol.cuts import offsets_text
from cutwater.core.protocol.records import Milestone

Partitions = frozenset[int]


def owners(peers: Iterable[str], partitions: int) -> tuple[str, ...]:
    """Return the owner of each partition by rendezvous hashing with even loads, for any order of `peers`.

    Plain rendezvous hashing often leaves one of a few peers without partitions. Here a peer that has its fair
    number is skipped. Raises UsageError for a peer that is named twice or would hold nothing.
    """
    every = sorted(peers)
    if len(set(every)) < len(every):
        raise UsageError(f"a peer is named twice: {', '.join(every)}")
    if len(every) > partitions:
        raise UsageError(f"{len(every)} peers cannot share {partitions} partitions: one would hold none")
    fair, larger = divmod(partitions, len(every))
    loads = dict.fromkeys(every, 0)
    found = []
    for partition in range(partitions):
        open_ = [one for one in every if loads[one] < fair + (larger > 0)]
        owner = max(open_, key=lambda one: _score(one, partition))
        loads[owner] += 1
        larger -= loads[owner] > fair
        found.append(owner)
    return tuple(found)


def held_by(peer: str, owned: Sequence[str]) -> Partitions:
    """Return the partitions of one peer. Raises UsageError if it is not one of the peers."""
    held = frozenset(partition for partition, owner in enumerate(owned) if owner == peer)
    if not held:
        raise UsageError(
            f"peer {peer} is none of {', '.join(sorted(set(owned)))}: write it exactly as in that list"
        )
    return held


def require_whole_once(held: Mapping[str, Partitions | None], partitions: int) -> None:
    """Raise UsageError unless these views hold each partition exactly once. `held`: by view, None for all."""
    holders: dict[int, list[str]] = {partition: [] for partition in range(partitions)}
    for name, part in held.items():
        for partition in holders if part is None else part:
            holders.setdefault(partition, []).append(name)
    missing = [str(partition) for partition, names in holders.items() if not names]
    if missing:
        raise UsageError(f"{', '.join(held)}: no peer holds partition {', '.join(missing)}: name all peers")
    for partition, names in holders.items():
        if len(names) > 1:
            raise UsageError(f"{' and '.join(names)} both hold partition {partition}: name one of them")


def _score(peer: str, partition: int) -> bytes:
    return hashlib.blake2b(f"{peer}\0{partition}".encode(), digest_size=8).digest()


class Proof(NamedTuple):
    """The number of rows that a milestone records, and their signed digest."""

    rows: int
    digest: int


def proof_of(milestone: Milestone, partitions: Partitions | None) -> Proof:
    """Return the proof of rows in these partitions, None for all. Raises DivergenceError for an unknown
    partition."""
    if partitions is None:
        return Proof(milestone.rows, milestone.digest)
    rows, digests = milestone.partition_rows, milestone.partition_digests
    if max(partitions) >= min(len(rows), len(digests)):
        raise DivergenceError(
            f"milestone {milestone.token} proves {len(rows)} partitions, but partition {max(partitions)} is "
            "needed: use the job file that the driver runs with"
        )
    return Proof(sum(rows[at] for at in partitions), signed(fold(digests[at] for at in partitions)))


def partition_faults(
    topic: str,
    milestone: Milestone,
    bounds: Mapping[int, tuple[int, int]],
    found: Mapping[int, Proof] | None,
) -> list[str]:
    """Return a text for each partition whose rows are not those of the milestone.

    `bounds`: first offset and end that were read, by partition. `found`: the rows of a second read; None if there
    was none, and the texts then name every partition. Empty partitions are left out.
    """
    places = {
        at: f"{topic}/{at}, {offsets_text(first, end)}"
        for at, (first, end) in sorted(bounds.items())
        if first < end
    }
    if found is None or not _proves(milestone, bounds):
        return [f"The rows were read from {'; '.join(places.values()) or topic}"]
    proofs = {at: proof_of(milestone, frozenset((at,))) for at in bounds}
    return [
        f"{places.get(at, f'{topic}/{at}, no offset')}: {found[at].rows} rows with digest {found[at].digest}, and "
        f"the milestone says {proof.rows} with digest {proof.digest}"
        for at, proof in sorted(proofs.items())
        if found[at] != proof
    ] or [f"A second read found the rows of each partition as the milestone says: {'; '.join(places.values())}"]


def _proves(milestone: Milestone, partitions: Iterable[int]) -> bool:
    """Return whether the milestone proves each partition; those of early versions do not."""
    proved = min(len(milestone.partition_rows), len(milestone.partition_digests))
    return all(at < proved for at in partitions)
