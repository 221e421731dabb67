"""Several views share a job's partitions: which of them holds what, and what a milestone proves of a part."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cutwater.core.errors import DivergenceError, UsageError
from cutwater.core.protocol.records import Milestone
from cutwater.core.protocol.row_digest import fold, signed

Partitions = frozenset[int]


def owners(peers: Iterable[str], partitions: int) -> tuple[str, ...]:
    """The owner of each partition, by rendezvous hashing with even loads; the order of `peers` does not matter.

    The plain form gives each partition to the peer of the highest score, which leaves a peer of few with nothing
    too often. Here a peer that has its fair part already is passed over. Raises UsageError for peers that are
    named twice, or of which one would hold nothing.
    """
    every = sorted(peers)
    if len(set(every)) < len(every):
        raise UsageError(f"peers: one is named twice: {', '.join(every)}")
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
    """The partitions of one peer; UsageError when it is none of the peers."""
    held = frozenset(partition for partition, owner in enumerate(owned) if owner == peer)
    if not held:
        raise UsageError(f"peer {peer} is none of {', '.join(sorted(set(owned)))}: write it as it stands there")
    return held


def require_whole_once(held: Mapping[str, Partitions | None], partitions: int) -> None:
    """Do these views together hold each partition once? `held`: what each of them holds, None for all.

    Raises UsageError naming what is missing, or who hold the same.
    """
    holders: dict[int, list[str]] = {partition: [] for partition in range(partitions)}
    for name, part in held.items():
        for partition in holders if part is None else part:
            holders.setdefault(partition, []).append(name)
    missing = [str(partition) for partition, names in holders.items() if not names]
    if missing:
        raise UsageError(f"{', '.join(held)}: nobody holds partition {', '.join(missing)}: name all peers")
    for partition, names in holders.items():
        if len(names) > 1:
            raise UsageError(f"{' and '.join(names)} both hold partition {partition}: name one of them")


def _score(peer: str, partition: int) -> bytes:
    return hashlib.blake2b(f"{peer}\0{partition}".encode(), digest_size=8).digest()


class Proof(NamedTuple):
    """What a milestone says of rows: how many, and their digest (signed)."""

    rows: int
    digest: int


def proof_of(milestone: Milestone, partitions: Partitions | None) -> Proof:
    """Of the milestone's rows in these partitions, None for all of them.

    Raises DivergenceError where the milestone does not know one of them.
    """
    if partitions is None:
        return Proof(milestone.rows, milestone.digest)
    rows, digests = milestone.partition_rows, milestone.partition_digests
    if max(partitions) >= min(len(rows), len(digests)):
        raise DivergenceError(
            f"milestone {milestone.token} proves {len(rows)} partitions, and partition {max(partitions)} is "
            "wanted: use the job file that the driver runs with"
        )
    return Proof(sum(rows[at] for at in partitions), signed(fold(digests[at] for at in partitions)))
