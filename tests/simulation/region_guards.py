"""The guards of mirrors and failovers: what each keeps away, and the histories that show it once it is gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from cutwater.core.driver.rejected_events_by_lineage import LineagePart
from cutwater.core.errors import UnavailableError
from cutwater.core.failover.exact_loss import Late, Later, later
from cutwater.core.failover.failover import Loss, known_loss, start_cut
from cutwater.core.failover.forks import contradicting_lines
from cutwater.core.failover.rejoin import LocalPosition
from cutwater.core.generations.start_state import StartState
from cutwater.core.mirror import arrivals, copy_progress
from cutwater.core.mirror.arrivals import ArrivalTracker
from cutwater.core.mirror.compaction_lag import CompactionLagLease
from cutwater.core.protocol import mirror_records
from cutwater.core.protocol.cuts import Cut, EpochPlan, Range, TopicPartition
from cutwater.core.protocol.mirror_records import Arrival, from_origin
from cutwater.core.protocol.records import Milestone
from cutwater.mirror import copier, slot
from cutwater.mirror.arrivals.announcer import ArrivalAnnouncer
from cutwater.mirror.copier import Copier
from cutwater.mirror.resync import resync as resyncing
from cutwater.mirror.slot import Slot
from cutwater.mirror.topics import preflight, topic_copy, topic_watch
from cutwater.mirror.topics.topic_copy import CopiedTopic, FetchedRecords, add_chunks
from cutwater.operations.generations import parent_changelog
from cutwater.operations.regions import event_start, forks, rejoin
from cutwater.operations.regions.failover import Failover
from cutwater.operations.regions.rejoin import RejoinCheck
from simulation import regions
from simulation.checker import (
    ABORTED_READ,
    DIVERGENCE,
    FALSE_ALARM,
    FORKED,
    LOST_WRITE,
    PARTIAL,
    REOPENED,
    REPEATED,
    STUCK,
    WRONG_LIST,
    WRONG_LOSS,
)
from simulation.holes import Hole, off, own_ids_of
from simulation.region_histories import Season


@dataclass(frozen=True)
class RegionGuard:
    name: str
    keeps_away: str
    invariant: str
    hole: Hole
    way: Season
    anomalies: frozenset[str]
    """What the checker may call it, once the guard is gone."""


_write = Slot.write
_open = Copier.open


def unmoved(cut: int, _runs: object, _local: int) -> int:
    """As if offsets were the same here."""
    return cut


def as_far_as_it_goes(self: ArrivalTracker, copy: Any, cut: int, young: bool, milestone: Any) -> None:
    """Nothing is asked of what compaction may have taken; only the copy must be past the cut."""


def source_alone(self: ArrivalAnnouncer, topic: str) -> bool:
    return topic == self._source


def never_waits(self: ArrivalTracker, cut: Cut, _told: Any, _require: Any) -> Any:
    """A copy that is behind the cut counts as far as it has come."""
    held = {place: min(at, self._copies[place].position.next) for place, at in cut if place in self._copies}
    return _held(self, Cut.of(held), (), lambda *_args: None)


_held = ArrivalTracker._copies_of


@contextmanager
def positions_apart() -> Iterator[None]:
    """Records in one transaction, and how far they reach in the next."""
    real = slot.CopyingWriter

    class Apart(real):  # type: ignore[misc, valid-type]
        def copy(self, copies: Any, proof: Any) -> None:
            kept: list[Any] = []

            def proved() -> list[Any]:
                kept.extend(proof())
                return []

            super().copy(copies, proved)
            self.write_all(kept)

    with patch.object(slot, "CopyingWriter", Apart):
        yield


def positions_first(self: Copier) -> set[str]:
    """How far the slots came is read before older owners are fenced."""
    known = self._positions()
    _open(self)
    self._looking.known = known
    return {place.topic for place in known}


def all_behind(arrived: Milestone, newest: Milestone, copied: Mapping[TopicPartition, int], heard_ms: int) -> Loss:
    """As if nothing of what later milestones have read had been copied."""
    parent = {place: arrived.source_cut.offset(place) for place in copied}
    return known_loss(arrived, newest, parent, heard_ms)


def since_the_parent(copy: Any, _since: int, end: int, read: int, kept: int) -> Later:
    """All that lies behind the parent's cut counts as brought later."""
    return later(copy, 0, end, read, kept)


def at_the_end(arrival: Arrival, milestone: Milestone, source: str, region: str, firsts: Any) -> Cut:
    """The new generation begins with what is copied from now on."""
    begun = start_cut(arrival, milestone, source, region, firsts).as_dict()
    copy = from_origin(source, arrival.origin)
    return Cut.of({place: at + 3 if place.topic == copy else at for place, at in begun.items()})


def from_the_start(arrival: Arrival, milestone: Milestone, source: str, region: str, firsts: Any) -> Cut:
    """The new generation reads all that its seed holds already."""
    begun = start_cut(arrival, milestone, source, region, firsts).as_dict()
    copy = from_origin(source, arrival.origin)
    return Cut.of({place: 0 if place.topic == copy else at for place, at in begun.items()})


def own_begins_anew(arrival: Arrival, milestone: Milestone, source: str, region: str, firsts: Any) -> Cut:
    """What the origin's line has read of this region's own events is not heeded."""
    begun = start_cut(arrival, milestone, source, region, firsts).as_dict()
    return Cut.of({place: firsts[place.partition] if place.topic == source else at for place, at in begun.items()})


def no_floor(self: StartState, plan: EpochPlan, before: EpochPlan | None) -> Range:
    """The first epoch closes nothing, and what the parent had closed is open again."""
    closed_ms = before.watermark_ms if before else 0
    return Range(before.source_cut if before else self.source_cut, plan.source_cut, closed_ms)


@contextmanager
def any_of_the_name() -> Iterator[None]:
    """A topic is what its name says."""
    with ExitStack() as held:
        for owner, name in ((preflight, "in_origin"), (topic_watch, "in_origin"), (topic_watch.Watch, "_gap_of")):
            held.enter_context(patch.object(owner, name, nothing))
        yield


def nothing(*_asked: object) -> None: ...


@contextmanager
def beside_renewals() -> Iterator[None]:
    """Mirrors go on by what stands there."""
    with ExitStack() as held:
        held.enter_context(patch.object(copier, "require_settled", nothing))
        held.enter_context(patch.object(ArrivalAnnouncer, "_require_settled", nothing))
        yield


@contextmanager
def all_over_again() -> Iterator[None]:
    """Behind a damaged answer all is read from the position on, beside what the round holds, and not compared."""

    def take(
        _self: Copier, one: CopiedTopic, taken: dict[TopicPartition, FetchedRecords], _bytes_max: int
    ) -> None:
        try:
            add_chunks(one, one.fetcher.take(0.0), taken)
        except UnavailableError:
            one.begin()

    with ExitStack() as held:
        held.enter_context(patch.object(Copier, "_take", take))
        for owner in (copy_progress, topic_copy):
            held.enter_context(patch.object(owner, "require_next", nothing))
        held.enter_context(patch.object(copy_progress, "_require_rising", nothing))
        yield


def to_the_end(stream: Any, parent: bytes, _elsewhere: object) -> Any:
    return contradicting_lines(stream, parent, frozenset())


_CRASHES = {"kill": 3.0, "unknown": 3.0, "failover": 0.0, "switchover": 0.0}
_AGES = {"leap": 4.0, "compact": 8.0, "link:cut": 2.0, "failover": 0.0, "switchover": 0.0}
_SHORTENED = {
    **_AGES,
    "events": 14.0,
    "leap": 2.0,
    "link:cut": 1.0,
    "compact": 12.0,
    "shorten": 6.0,
    **dict.fromkeys(("kill", "stall", "prune", "resync", "retention", "anew", "unknown", "timeout"), 0.0),
}
_LAGS = {
    **_AGES,
    "leap": 3.0,
    "link:lags": 2.0,
    "events": 14.0,
    **dict.fromkeys(("link:cut", "link:slow", "kill", "stall", "prune", "resync", "retention", "anew"), 0.0),
}
_GOES_ON = {
    "prune": 0.0,
    "resync": 0.0,
    "retention": 0.0,
    "anew": 0.0,
    "leap": 0.0,
    "link:cut": 1.0,
    "failover": 2.0,
    "switchover": 0.0,
    "events": 12.0,
}
FAILS_BACK = {
    "prune": 0.0,
    "resync": 0.0,
    "retention": 0.0,
    "anew": 0.0,
    "leap": 0.0,
    "failover": 4.0,
    "switchover": 0.0,
    "link:cut": 0.0,
    "link:slow": 0.0,
    "kill": 0.0,
    "stall": 0.0,
}
_LATE = {**_GOES_ON, "old": 5.0, "age": 0.7, "link:slow": 4.0}
_ANEW = {"prune": 0.0, "anew": 8.0, "resync": 0.0, "retention": 0.0, "leap": 0.0, "link:cut": 0.0, "events": 14.0}
_COMES_BACK = {"kill": 3.0, "stall": 0.0, "failover": 3.0, "switchover": 0.0, "link:cut": 1.0, "leap": 1.0}
_RESYNCS = {
    "prune": 0.0,
    "resync": 8.0,
    "retention": 0.0,
    "anew": 0.0,
    "creep:ask": 30.0,
    "run:ask": 25.0,
    "run:mirror": 30.0,
    "failover": 0.0,
    "switchover": 0.0,
    **dict.fromkeys(("leap", "compact", "link:cut", "link:slow", "stall", "unknown"), 0.0),
}
RESYNCED = Season({"claims": 1}, {**_GOES_ON, "resync": 3.0})
CLAIMED = Season({"claims": 2}, {**_RESYNCS, "failover": 20.0})
"""Copies are begun anew again and again, between failovers."""
_NOT_WHOLE = frozenset({LOST_WRITE, PARTIAL, ABORTED_READ})

_UNFOUNDED = frozenset({*_NOT_WHOLE, REPEATED, WRONG_LOSS, FALSE_ALARM, STUCK})

REGION_GUARDS: Sequence[RegionGuard] = (
    RegionGuard(
        "exact translation of cuts",
        "an arrival whose cut lies elsewhere than in the origin",
        "I5",
        off(arrivals, "translated", unmoved),
        Season({"claims": 0}),
        _NOT_WHOLE,
    ),
    RegionGuard(
        "containment of copies",
        "the arrival of a milestone that compaction overtook in the origin",
        "I5",
        off(ArrivalTracker, "_require_whole", as_far_as_it_goes),
        Season({"claims": 0}, _AGES),
        _NOT_WHOLE,
    ),
    RegionGuard(
        "containment where the events came late",
        "the arrival of a milestone that compaction here overtook while its events were still to come",
        "I5",
        off(ArrivalTracker, "_require_spared"),
        Season({"claims": 0}, _LAGS),
        _NOT_WHOLE,
    ),
    RegionGuard(
        "a lag that was said a moment ago",
        "the arrival of a milestone that compaction overtook under a lag shortened while the link was broken",
        "I5",
        off(CompactionLagLease, "must_wait", lambda *_args: False),
        Season({"claims": 0}, _SHORTENED),
        _NOT_WHOLE,
    ),
    RegionGuard(
        "arrivals wait for both cuts",
        "the arrival of a milestone of which a partition is still to come",
        "I5",
        off(ArrivalTracker, "_copies_of", never_waits),
        Season({"claims": 0}, {"link:slow": 2.0}),
        _NOT_WHOLE,
    ),
    RegionGuard(
        "arrivals wait for the changelog",
        "the arrival of a milestone whose rows are still to come",
        "I5",
        off(ArrivalAnnouncer, "_copied", source_alone),
        Season({"claims": 0}),
        _NOT_WHOLE,
    ),
    RegionGuard(
        "position in the copy's transaction",
        "records that nobody knows to be copied, after a crash",
        "I5",
        positions_apart,
        Season({"claims": 0}, _CRASHES),
        frozenset({FALSE_ALARM, REPEATED, STUCK}),
    ),
    RegionGuard(
        "what a round holds is not read again",
        "records that are copied twice, after a damaged answer in the middle of a round",
        "I5",
        all_over_again,
        Season({"claims": 0}, {"retention": 0.0, "anew": 0.0, "prune": 0.0, "resync": 0.0, "link:slow": 4.0}),
        frozenset({*_NOT_WHOLE, REPEATED, FALSE_ALARM}),
    ),
    RegionGuard(
        "fencing before positions are read",
        "a mirror that goes on from where the one before it no longer is",
        "I5",
        off(Copier, "open", positions_first),
        Season({"claims": 0}, {"stall": 3.0, "unknown": 0.0}),
        frozenset({FALSE_ALARM, REPEATED}),
    ),
    RegionGuard(
        "fencing of mirrors",
        "two mirrors that write one copy",
        "I5",
        own_ids_of(mirror_records, "slot_id"),
        Season({"claims": 0}, {"stall": 3.0}),
        frozenset({FALSE_ALARM, REPEATED, *_NOT_WHOLE}),
    ),
    RegionGuard(
        "a generation begins at the arrival's cut",
        "events between the arrival and the end of the copy that nobody reads",
        "I2",
        off(event_start, "start_cut", at_the_end),
        Season({"claims": 1}, _GOES_ON),
        frozenset({LOST_WRITE, WRONG_LOSS}),
    ),
    RegionGuard(
        "what the seed holds is not read again",
        "events of the origin that count twice",
        "I2",
        off(event_start, "start_cut", from_the_start),
        Season({"claims": 1}, _GOES_ON),
        frozenset({REPEATED}),
    ),
    RegionGuard(
        "a failback goes on in its own events",
        "own events that count twice after a failback",
        "I2",
        off(event_start, "start_cut", own_begins_anew),
        Season({"claims": 4}, FAILS_BACK, 700),
        frozenset({REPEATED}),
    ),
    RegionGuard(
        "behind the end of a copy are only markers",
        "a failover that is refused once the outage is older than compaction waits",
        "I4",
        off(parent_changelog, "copies_end", lambda *_args: {}),
        Season({"claims": 1}, {"leap": 3.0, "failover": 3.0, "events": 3.0}),
        frozenset({FALSE_ALARM}),
    ),
    RegionGuard(
        "what was copied is not lost",
        "a lower bound above the loss",
        "I6",
        off(regions, "known_loss", all_behind),
        Season({"claims": 1}, {**_GOES_ON, "link:slow": 6.0, "events": 1.5, "failover": 6.0}, 300),
        frozenset({WRONG_LOSS}),
    ),
    RegionGuard(
        "later means behind the failover",
        "an exact loss of which more has come since than was missing",
        "I6",
        off(forks, "later", since_the_parent),
        Season({"claims": 1}, _GOES_ON),
        frozenset({WRONG_LOSS}),
    ),
    RegionGuard(
        "a fork ends where its region came back",
        "milestones of the failback counted among what is lost",
        "I6",
        off(forks, "contradicting_lines", to_the_end),
        Season({"claims": 4}, FAILS_BACK, 700),
        frozenset({WRONG_LOSS}),
    ),
    RegionGuard(
        "a floor",
        "windows that the region before had closed, open again",
        "I2",
        off(StartState, "range", no_floor),
        Season({"claims": 1}, _LATE),
        frozenset({REOPENED}),
    ),
    RegionGuard(
        "late drops in the exact loss",
        "events that were brought later, came too late, and are told as if they counted",
        "I6",
        off(forks, "late_of", lambda *_args: Late(0, 0)),
        Season({"claims": 1}, _LATE),
        frozenset({WRONG_LOSS}),
    ),
    RegionGuard(
        "a list is of one line",
        "late events of a fork in the list of the line that goes on",
        "I2",
        off(LineagePart, "holds", lambda *_args: True),
        Season({"claims": 4}, {**FAILS_BACK, "old": 5.0, "age": 0.7}, 700),
        frozenset({WRONG_LIST}),
    ),
    RegionGuard(
        "who comes back asks the other region",
        "a driver or commit-signal that goes on beside the generation that took its place elsewhere",
        "I6",
        off(rejoin, "find_takeover"),
        Season({"claims": 1}, _COMES_BACK),
        frozenset({FORKED}),
    ),
    RegionGuard(
        "who was silent waits for an answer",
        "a region that comes back as a fork because the link is broken",
        "I6",
        off(LocalPosition, "may_be_left"),
        Season({"claims": 1}, _COMES_BACK),
        frozenset({FORKED}),
    ),
    RegionGuard(
        "who comes back asks again, behind the fencing",
        "a driver or commit-signal that goes on beside what another region has begun since it asked",
        "I6",
        off(RejoinCheck, "check_again"),
        Season({"claims": 1}, _COMES_BACK),
        frozenset({FORKED}),
    ),
    RegionGuard(
        "arrivals are removed before the copy",
        "an arrival of a copy that somebody has begun anew",
        "I5",
        off(resyncing, "empty"),
        Season({"claims": 0}, _RESYNCS),
        frozenset({*_NOT_WHOLE, FALSE_ALARM}),
    ),
    RegionGuard(
        "a copy that is read stays",
        "events that count twice or never, because the offsets of a copy mean others",
        "I2",
        off(resyncing, "_require_unread"),
        RESYNCED,
        _UNFOUNDED,
    ),
    RegionGuard(
        "mirrors wait for the end of a renewal",
        "arrivals and positions of a copy that somebody deletes just then",
        "I5",
        beside_renewals,
        Season({"claims": 1}, RESYNCED.weights),
        frozenset({*_UNFOUNDED, DIVERGENCE}),
    ),
    RegionGuard(
        "a topic made anew is another one",
        "events of the topic that has the name now, in the copy of the one before",
        "I5",
        any_of_the_name,
        Season({"claims": 0}, {**_ANEW, "kill:mirror": 4.0}),
        frozenset({*_NOT_WHOLE, REPEATED, FALSE_ALARM}),
    ),
    RegionGuard(
        "a loss of another topic is not exact",
        "the events of the topic that has the name now, told as lost",
        "I6",
        off(forks._Loss, "_made_anew", lambda _self: []),
        Season({"claims": 1}, {**_ANEW, "failover": 6.0}),
        frozenset({WRONG_LOSS}),
    ),
    RegionGuard(
        "what was brought and is deleted there was missing",
        "fewer lost than were brought since",
        "I6",
        off(forks, "later", lambda copy, since, end, read, _kept: later(copy, since, end, read)),
        Season({"claims": 1}, {**_GOES_ON, "retention": 8.0}),
        frozenset({WRONG_LOSS}),
    ),
    RegionGuard(
        "a claim from an arrival that stands",
        "a generation that begins in a copy that is given up",
        "I2",
        off(Failover, "_read_again", lambda _self, found: found),
        CLAIMED,
        _UNFOUNDED,
    ),
)
