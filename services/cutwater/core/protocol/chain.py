"""The chain of the commit stream: contiguous sequences, and in each milestone the hash of the previous one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cutwater.core.protocol.records import Milestone

ROOT_HASH = bytes(32)
FIRST_SEQUENCE = 1


def link(record: bytes) -> bytes:
    """Return the hash of a milestone's bytes, which readers in any language can compute."""
    return hashlib.sha256(record).digest()


class ChainFault(NamedTuple):
    sequence: int
    reason: str


def find_chain_faults(stream: Iterable[tuple[Milestone, bytes]]) -> Iterator[ChainFault]:
    """Yield every gap, fork and backward step. `stream`: (milestone, its bytes as written), in log order."""
    before: tuple[Milestone, bytes] | None = None
    for milestone, record in stream:
        yield from _against(milestone, before)
        before = (milestone, record)


def _against(milestone: Milestone, before: tuple[Milestone, bytes] | None) -> Iterator[ChainFault]:
    number = milestone.sequence
    if before is None:
        # A pruned stream starts later, and its oldest kept hash is the root.
        if number == FIRST_SEQUENCE and milestone.parent_hash != ROOT_HASH:
            yield ChainFault(number, "the first milestone names a parent")
        return
    previous, record = before
    if number != previous.sequence + 1:
        yield ChainFault(number, f"gap: sequence {number} follows {previous.sequence}")
    if milestone.parent_hash != link(record):
        yield ChainFault(number, f"fork: the parent hash is not the hash of sequence {previous.sequence}")
    if milestone.generation == previous.generation:
        if milestone.epoch != previous.epoch + 1:
            yield ChainFault(number, f"epoch {milestone.epoch} follows {previous.epoch}")
        if not milestone.source_cut.covers(previous.source_cut):
            yield ChainFault(number, "the source cut went back")
        if not milestone.changelog_cut.covers(previous.changelog_cut):
            yield ChainFault(number, "the changelog cut went back")
