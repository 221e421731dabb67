"""An audit of a whole commit stream and of the barriers that are still kept, for `milestones --check`.

`cutwater.core.protocol.chain` has the checks of every reader. The checks here need the whole stream. No run of the
protocol writes any of these faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import NamedTuple

from cutwater.core.protocol.chain import ChainFault, find_chain_faults
from cutwater.core.protocol.changelog_rows import fold, signed
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier, Milestone, Signal, Start

_TOLD = tuple(field.name for field in fields(Barrier))
"""The fields that a milestone copies from its barrier."""


class BarrierDigest(NamedTuple):
    """One attempt's barrier of an epoch: its offset, and a hash of its fields."""

    attempt: int
    offset: int
    content: int


Epoch = tuple[Generation, int]


class Barriers:
    """A summary of the barriers topic: a few numbers per epoch."""

    def __init__(self) -> None:
        self.digests: dict[Epoch, list[BarrierDigest]] = {}
        self.started: dict[Generation, int] = {}

    def add(self, signal: Signal, offset: int) -> None:
        if isinstance(signal, Start):
            self.started[signal.generation] = max(signal.attempt, self.started.get(signal.generation, 0))
        elif isinstance(signal, Barrier):
            telling = BarrierDigest(signal.attempt, offset, content_of(signal))
            self.digests.setdefault((signal.generation, signal.epoch), []).append(telling)


def content_of(record: Barrier | Milestone) -> int:
    """Return a hash of the fields that a barrier and its milestone share. It is valid in this process only."""
    return hash(tuple(getattr(record, name) for name in _TOLD))


def check(stream: Iterable[tuple[Milestone, bytes]], barriers: Barriers | None = None) -> list[ChainFault]:
    """Return every fault of a whole stream, in log order. Pruned barriers are no fault."""
    pairs = list(stream)
    found = list(find_chain_faults(pairs))
    before: Milestone | None = None
    for milestone, _ in pairs:
        found += (ChainFault(milestone.sequence, reason) for reason in _alone(milestone))
        if before is not None:
            found += (ChainFault(milestone.sequence, reason) for reason in _after(milestone, before))
        if barriers is not None:
            found += (ChainFault(milestone.sequence, reason) for reason in _barrier_faults(milestone, barriers))
        before = milestone
    return sorted(found, key=lambda one: one.sequence)


def _alone(one: Milestone) -> Iterator[str]:
    if one.attempt < 1:
        yield f"attempt {one.attempt}: attempts count from 1"
    if one.epoch < 0:
        yield f"epoch {one.epoch}: epochs count from 0"
    if one.rows == 0 and one.digest != 0:
        yield f"no rows, and digest {one.digest}"
    if (sum(one.partition_rows), signed(fold(one.partition_digests))) != (one.rows, one.digest):
        yield f"{one.rows} rows with digest {one.digest} differ from the sum of its partitions"
    if one.rows < 0 or not 0 <= one.no_value <= one.rejected <= one.events:
        yield f"{one.rows} rows, and {one.rejected} of {one.events} events rejected"
    if one.horizon_ms > max(0, one.watermark_ms):
        yield f"horizon {one.horizon_ms} is above watermark {one.watermark_ms}"
    if any(place.topic == changed.topic for place, _ in one.source_cut for changed, _ in one.changelog_cut):
        yield "one topic is in both cuts"


def _after(one: Milestone, before: Milestone) -> Iterator[str]:
    if one.job != before.job:
        yield f"job {one.job} follows {before.job}"
    if one.generation.number < before.generation.number:
        yield f"generation {one.generation} follows {before.generation}"
    if one.generation != before.generation:
        return
    if one.attempt < before.attempt:
        yield f"attempt {one.attempt} follows {before.attempt}"
    if one.barriers_position < before.barriers_position:
        yield f"the position on the barriers goes back from {before.barriers_position} to {one.barriers_position}"
    if one.watermark_ms < before.watermark_ms:
        yield "the watermark goes back"
    if one.horizon_ms < before.horizon_ms:
        # Older drivers did this after an increase of `retention`.
        yield f"the horizon goes back from {before.horizon_ms} to {one.horizon_ms}, and views had dropped that"
    if one.schema_fingerprint != before.schema_fingerprint:
        yield f"the schema changes from {before.schema_fingerprint} to {one.schema_fingerprint}"
    if one.definition != before.definition:
        yield f"the definition changes from {before.definition} to {one.definition}"
    yield from _growth_faults(one, before)


def _growth_faults(one: Milestone, before: Milestone) -> Iterator[str]:
    # Every row takes at least one offset.
    places = {place for place, _ in one.changelog_cut}
    if before.changelog_cut.entries and places != {place for place, _ in before.changelog_cut}:
        yield "the changelog's partitions are not those of the milestone before"
    elif (grown := one.changelog_cut.records_since(before.changelog_cut)) < one.rows:
        yield f"{one.rows} rows, and the changelog grew by {grown} records"


def _barrier_faults(one: Milestone, barriers: Barriers) -> Iterator[str]:
    tellings = barriers.digests.get((one.generation, one.epoch))
    if not tellings:
        return  # pruned
    own = [telling for telling in tellings if telling.attempt == one.attempt]
    if not own:
        yield f"no barrier of epoch {one.epoch} is of attempt {one.attempt}"
    elif own[-1].content != content_of(one):
        yield f"barrier {one.epoch} of attempt {one.attempt} has other contents"
    later = [telling for telling in tellings if telling.attempt > one.attempt]
    if any(telling.offset < one.barriers_position for telling in later):
        yield f"attempt {later[0].attempt} had written barrier {one.epoch} again before attempt {one.attempt} won"
    if one.attempt > barriers.started.get(one.generation, one.attempt):
        yield f"attempt {one.attempt} has never started"
