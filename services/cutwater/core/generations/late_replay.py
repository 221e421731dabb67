"""A generation that counts events which were listed as late: where it starts, and which windows are open for it.

An event counts if it is above the parent milestone's source cut, and if its window ends above the floor when it is
read. The parent's state has each row above the parent's horizon whole, closed or not. So the floor of the new
generation may go down to that horizon, and the newest milestone before the oldest of the events can be the parent.
The floor stays until the new generation has read what the promoted one had read at the claim: no cleaning comes
between. Then it is an ordinary candidate.

Its floor is never above the one that the promoted generation had for any of these events. So it counts every event
that the promoted one has counted, and of those listed as late exactly the ones that are chosen here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cutwater.core.errors import UsageError
from cutwater.core.generations.candidates import Candidate
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone, Reopening


class LateEvent(NamedTuple):
    """An event on the list of late events."""

    by: Generation
    """The generation that has listed it."""
    epoch: int
    place: TopicPartition
    offset: int
    window_end_ms: int


class Opening(NamedTuple):
    """The windows that are open again for a generation, as for `Reopening`."""

    floor_ms: int
    source_cut: Cut
    events: Cut
    """The next offsets after the events that must count."""


class Countable(NamedTuple):
    """Which late events a new generation can count."""

    events: list[LateEvent]
    gone: int
    """How many others have a window that has left the state."""
    earlier: int
    """How many others were listed before the first milestone from which a generation may start."""

    def left_out(self, first: Milestone) -> list[str]:
        """Return why events are left out. `first`: as for `countable`."""
        why = []
        if self.gone:
            why.append(f"{self.gone:,} stay late: their windows have left the state (the job file's retention)")
        if self.earlier:
            why.append(
                f"{self.earlier:,} stay late: they were listed before {first.token}, the first milestone of the "
                "promoted generation that is kept. Only a rollback goes back further"
            )
        return why


def countable(events: Iterable[LateEvent], last: Milestone, first: Milestone) -> Countable:
    """Return the events that a new generation can count. `last`: the newest milestone; `first`: the oldest kept
    one of its generation."""
    kept, gone, earlier = list[LateEvent](), 0, 0
    for one in events:
        if one.window_end_ms <= last.horizon_ms:
            gone += 1
        elif one.by != last.generation or one.epoch <= first.epoch:
            earlier += 1
        else:
            kept.append(one)
    return Countable(kept, gone, earlier)


def opening(parent: Milestone, last: Milestone, events: Sequence[LateEvent]) -> Opening:
    """Return what a generation from `parent` opens, so that these events count."""
    after = dict[TopicPartition, int]()
    for one in events:
        after[one.place] = max(after.get(one.place, 0), one.offset + 1)
    floor_ms = max(parent.horizon_ms, min(parent.floor_ms, last.horizon_ms))
    return Opening(floor_ms, last.source_cut, Cut.of(after))


def counted(events: Iterable[LateEvent], parent: Milestone, opened: Opening) -> int:
    """Return how many of a generation's late events count again, also such as nobody has asked for."""
    later = (one for one in events if one.by == parent.generation and one.epoch > parent.epoch)
    return sum(one.window_end_ms > opened.floor_ms for one in later)


def require_before(parent: Milestone, events: Iterable[LateEvent]) -> None:
    """Raise UsageError if the milestone contains the epoch that has listed an event."""
    oldest = min(events, key=lambda one: one.epoch)
    if parent.generation != oldest.by or parent.epoch >= oldest.epoch:
        place = f"{oldest.place.topic}/{oldest.place.partition}/{oldest.offset}"
        raise UsageError(
            f"{parent.token} is not before late event {place}, which epoch {oldest.epoch} of {oldest.by} has "
            "listed: name an earlier milestone, or leave --from out"
        )


def is_opened(known: Reopening | None, wanted: Opening | None) -> bool:
    """Return whether a claim opens what is wanted, or neither opens anything."""
    if known is None or wanted is None:
        return known is None and wanted is None
    return known.floor_ms <= wanted.floor_ms and known.source_cut.covers(wanted.events)


def require_amends(amends: bool, candidate: Candidate, last: Milestone | None) -> None:
    """Raise UsageError if a candidate is to count late events, and the job file lets no event amend a window."""
    promoted = last is not None and last.generation == candidate.claim.generation
    if candidate.reopening is not None and not amends and not promoted:
        raise UsageError(
            f"{candidate.claim.generation} counts late events, so its windows must close by a floor: set "
            "late.amend_for in the job file, at least until it is promoted"
        )
