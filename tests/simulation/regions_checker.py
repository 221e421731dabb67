"""Holds two regions against the truth: the events that there are, and what each region's topics say of them.

The truth knows nothing of how the mirror translates offsets. A milestone stands for a set of events by their
names; a copy is whole when its rows, folded, are what these events add up to.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.avro.codec import protocol_codec
from cutwater.adapters.topics.candidates import parent_of
from cutwater.adapters.topics.rejected_events import late_pairs
from cutwater.client.values import CommittedMilestone
from cutwater.core.driver import rejected_events
from cutwater.core.errors import CutwaterError
from cutwater.core.failover.exact_loss import ExactLoss
from cutwater.core.failover.failover import Loss
from cutwater.core.failover.forks import Fork
from cutwater.core.generations.candidates import Candidate, Candidates
from cutwater.core.generations.source_topics import copied_region
from cutwater.core.generations.start_state import is_claimed
from cutwater.core.mirror.gaps import ANEW, GONE, LOST
from cutwater.core.mirror.replica_lag import SafeTime
from cutwater.core.protocol import mirror_records, topics
from cutwater.core.protocol.chain import link
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation, Token
from cutwater.core.protocol.mirror_records import SOURCE_OFFSET, Arrival, Mirrored, parse_position_key
from cutwater.core.protocol.records import Barrier, Claim, Milestone, Reopening
from cutwater.core.protocol.stream_audit import check
from cutwater.core.state.backlog import MARGIN_MS
from cutwater.operations.regions.forks import ForkReader
from simulation.checker import (
    ABORTED_READ,
    DIVERGENCE,
    FORKED,
    GAP,
    INVERSION,
    LOST_WRITE,
    PARTIAL,
    REOPENED,
    REPEATED,
    WRONG_LIST,
    WRONG_LOSS,
    Anomaly,
)
from simulation.job import HOUR_MS, JOB, PARTITIONS
from simulation.latelist import window_end_ms
from simulation.log import Outcome, Place, Record
from simulation.regional import Book, Region, Window, added, folded, window_of
from simulation.replays import Names, Replays, Told
from simulation.truncations import Losses

_late = protocol_codec("late")


class Listing(NamedTuple):
    """An entry of a late list."""

    generation: Generation
    epoch: int
    event: bytes


@dataclass
class Reader:
    """What a program was given of one generation."""

    token: Token | None = None
    seen: int = 0
    rows: dict[Window, int] = field(default_factory=dict)


class Lines:
    """What both regions have promised, and what each has been brought of the other."""

    def __init__(self, by_name: Mapping[str, Region], book: Book, losses: Losses, amends: bool = False) -> None:
        self._amends = amends
        self._by_name, self._book, self._losses = by_name, book, losses
        self._seen: Counter[tuple[str, Place]] = Counter()
        self._listed: dict[str, set[Listing]] = defaultdict(set)
        """By region."""
        self.told: dict[bytes, Told] = {}
        """By the hash of their bytes."""
        self.streams: dict[str, list[Told]] = defaultdict(list)
        self.arrived: dict[str, list[Arrival]] = defaultdict(list)
        """Those that stand there."""
        self._offsets: dict[str, list[int]] = defaultdict(list)
        """Where."""
        self._gone: Counter[str] = Counter()
        self.withdrawn: dict[str, list[Told]] = defaultdict(list)
        """By region what its commit stream has said, and lost since."""
        self._claims: dict[tuple[str, Generation], Claim] = {}
        """Those that stood there when something was lost."""
        self._opened: dict[tuple[str, Generation], Reopening] = {}
        self.replays = Replays(book, losses)
        self._broken: set[str] = set()
        self.astray: dict[object, str] = {}
        """By process: why it should not have gone on."""

    def other(self, name: str) -> Region:
        return next(one for one in self._by_name.values() if one.name != name)

    def look(self) -> None:
        """At everything that has come since. Raises Anomaly."""
        for name, region in self._by_name.items():
            self._listed[name].update(self._listings(region))
            for one in self._new(region, topics.milestones(JOB.name)):
                decoded = protocol_records.decode(one.value or b"")
                if isinstance(decoded, Milestone):
                    self._require_not_astray(one)
                    self._milestone(name, decoded, one.value or b"")
            for one in self._new(region, topics.barriers(JOB.name)):
                told = protocol_records.decode(one.value or b"")
                if isinstance(told, Barrier):
                    self._require_not_astray(one)
                    if self._amends and not self._losses.lost(name, topics.barriers(JOB.name)):
                        self.replays.look_at_floor(name, told, self.reopening(name, told.generation))
        for name, region in self._by_name.items():
            topic = mirror_records.arrivals(JOB.name, self.other(name).name)
            first = region.log.topics[topic][0].first if region.has(topic) else 0
            self._forget(name, first)
            for one in self._new(region, topic):
                decoded = protocol_records.decode(one.value or b"")
                if isinstance(decoded, Arrival) and one.offset >= first:
                    self._arrival(region, decoded, one)
                    self._offsets[name].append(one.offset)
            self._require_standing(region)

    def _forget(self, name: str, first: int) -> None:
        """Arrivals that somebody has deleted."""
        offsets = self._offsets[name]
        gone = bisect_left(offsets, first)
        del offsets[:gone], self.arrived[name][:gone]

    def before_loss(self, name: str) -> None:
        """Look at everything, and remember the claims."""
        self.look()
        self._claims |= {(name, one.generation): one for one in self.claims(name)}

    def tails_lost(self, name: str, places: Iterable[Place]) -> None:
        """Of all places at once: what counts is the milestone that still stands."""
        for place in sorted(places, key=lambda one: one[0] != topics.milestones(JOB.name)):
            self._tail_lost(name, place)

    def _tail_lost(self, name: str, place: Place) -> None:
        """What is not there any more has been looked at before."""
        if self.streams[name]:
            newest = self.streams[name][-1].milestone
            cut = newest.source_cut.and_(newest.changelog_cut).as_dict().get(TopicPartition(*place), 0)
            self._losses.must_say(name, newest.generation, place, cut, f"{newest.token}")
        kept = self._by_name[name].log.kept[place]
        self._seen[name, place] = min(self._seen[name, place], len(kept))
        topic = place[0]
        if topic == topics.milestones(JOB.name):
            there = {one.value for one in kept}
            self.withdrawn[name] += [one for one in self.streams[name] if one.record not in there]
            self.streams[name] = [one for one in self.streams[name] if one.record in there]
        elif topic == mirror_records.arrivals(JOB.name, self.other(name).name):
            offsets = self._offsets[name]
            standing = bisect_left(offsets, kept[-1].offset + 1 if kept else 0)
            del offsets[standing:], self.arrived[name][standing:]

    def _require_standing(self, region: Region) -> None:
        """What has arrived stays whole, whatever is deleted."""
        if self._gone[region.name] == region.log.gone:
            return
        self._gone[region.name] = region.log.gone
        for one in self.arrived[region.name][-1:]:
            told = self.told[one.milestone_hash]
            who = f"arrival {one.token}, which stands in {region.name}"
            self._require_rows(who, region, one.changelog_cut, told)
            self._require_events(who, region, one, told)

    def _listings(self, region: Region) -> Iterator[Listing]:
        for number in range(PARTITIONS):
            for one in self._new(region, topics.late(JOB.name), number):
                value = _late.decode(one.value or b"")
                yield Listing(Generation.parse(value["generation"]), value["epoch"], value["event_value"])

    def _new(self, region: Region, topic: str, partition: int = 0) -> Iterator[Record]:
        place = (topic, partition)
        records, at = region.log.kept[place], (region.name, place)
        while self._seen[at] < len(records):
            one = records[self._seen[at]]
            outcome = one.transaction.outcome if one.transaction else Outcome.COMMITTED
            if outcome is Outcome.OPEN:
                return
            self._seen[at] += 1
            if outcome is Outcome.COMMITTED:
                yield one

    def _require_not_astray(self, one: Record) -> None:
        owner = one.transaction.owner if one.transaction else None
        if owner in self.astray:
            raise Anomaly(FORKED, self.astray[owner])

    # --- commit streams

    def _milestone(self, name: str, one: Milestone, record: bytes) -> None:
        stream = self.streams[name]
        before = stream[-1] if stream else None
        if not self._follows(name, one, record, before):
            return
        names = self._names(name, one, before)
        self._require_origin_cut(name, one, names)
        told = Told(one, record, name, names, self._late(name, one, before, names))
        if not self._losses.any_of(name, dict(one.changelog_cut)):  # or readers find it
            self._require_rows(f"{name} at {one.token}", self._by_name[name], one.changelog_cut, told)
        stream.append(told)
        self.told[link(record)] = told

    def _follows(self, name: str, one: Milestone, record: bytes, before: Told | None) -> bool:
        """False once a stream that has lost its end contradicts itself: nobody may be shown any of that."""
        if name in self._broken:
            return False
        try:
            self._require_next(name, one, record, before)
        except Anomaly:
            if not self._losses.lost(name, topics.milestones(JOB.name)):
                raise
            self._broken.add(name)
            return False
        return True

    def _require_next(self, name: str, one: Milestone, record: bytes, before: Told | None) -> None:
        """One chain, of one promoted generation at a time."""
        changed = before is not None and one.generation != before.milestone.generation
        if changed and one.generation in {told.milestone.generation for told in self.streams[name]}:
            raise Anomaly(INVERSION, f"{name} goes back to {one.generation}: two lines are promoted")
        if one.generation.region != name:
            raise Anomaly(DIVERGENCE, f"{name} has promoted {one.generation}")
        pairs = [(before.milestone, before.record)] if before else []
        found = check([*pairs, (one, record)])
        if found:
            raise Anomaly(GAP if "gap" in found[0].reason else DIVERGENCE, f"{name}: {found[0]}")
        if before is None and is_claimed(one.generation):
            parent = self.told[link(self._claim(name, one.generation).parent)]
            if one.parent_hash != link(parent.record) or one.sequence != parent.milestone.sequence + 1:
                raise Anomaly(GAP, f"{name} begins with {one.token} behind {parent.milestone.token}")

    def candidates(self, name: str) -> list[Candidate]:
        found = Candidates()
        for one in self._by_name[name].log.committed((topics.candidates(JOB.name), 0)):
            found = found.after(protocol_records.decode(one.value or b""))  # type: ignore[arg-type]
        return list(found.by_id.values())

    def claims(self, name: str) -> list[Claim]:
        return [one.claim for one in self.candidates(name)]

    def reopening(self, name: str, generation: Generation) -> Reopening | None:
        """Which windows a generation's claim opens again; remembered, as it is decided with the claim."""
        at = name, generation
        if at not in self._opened and is_claimed(generation):
            for one in self.candidates(name):
                if one.reopening is not None:
                    self._opened[name, one.claim.generation] = one.reopening
        return self._opened.get(at)

    def _claim(self, name: str, generation: Generation) -> Claim:
        standing = (one for one in self.claims(name) if one.generation == generation)
        return next(standing, None) or self._claims[name, generation]

    def _names(self, name: str, one: Milestone, before: Told | None) -> Names:
        """The events that it holds: those of the milestone that it goes on from, and what was read since."""
        since, names = Cut(), Names()
        if before is not None and before.milestone.generation == one.generation:
            since, names = before.milestone.source_cut, before.names
        elif is_claimed(one.generation):
            claim = self._claim(name, one.generation)
            parent = self.told.get(link(claim.parent))
            if parent is None:
                raise Anomaly(ABORTED_READ, f"{one.generation} goes on from a milestone that was never promoted")
            since, names = parent_of(claim).source_cut, parent.names
        read = list(self._read(name, one, since))
        again = names.intersection(read) or {event for event, times in Counter(read).items() if times > 1}
        if again:
            raise Anomaly(REPEATED, f"{name} at {one.token} has read {sorted(again)[:5]} twice")
        return names.union(read)

    def _read(self, name: str, one: Milestone, since: Cut) -> Iterator[bytes]:
        """The events between two cuts. What a log has lost its driver may have read before."""
        region = self._by_name[name]
        by_cuts = region.disks[one.generation].read_by
        for place, end in one.source_cut:
            if self._losses.any_of(name, [place]):
                found = [
                    each
                    for (before, cut), read in by_cuts.items()
                    if since.offset(place) <= before.offset(place) and cut.offset(place) <= end
                    for each in read.get(place, ())
                ]
            else:
                found = list(region.log.committed(place, since.offset(place), end))
            yield from (each.value or b"" for each in found)

    def _late(self, name: str, one: Milestone, before: Told | None, names: Names) -> Mapping[bytes, str]:
        """What was too late is what its generation has listed, and what its parent's line had. A window that was
        closed stays so."""
        follows = before is not None and before.milestone.generation == one.generation
        parent = before if follows else None
        if parent is None and is_claimed(one.generation):
            parent = self.told[link(self._claim(name, one.generation).parent)]
        since = parent.milestone.epoch if parent and follows else -1
        listed = {
            each.event
            for each in self._listed[name]
            if each.generation == one.generation and since < each.epoch <= one.epoch
        }
        closed_ms = parent.milestone.watermark_ms if parent else 0
        opened = self.reopening(name, one.generation) if self._amends and not follows else None
        if self._amends:
            own = follows and one.epoch == since + 1
            closed_ms = one.floor_ms if own else (parent.milestone.floor_ms if parent else 0)
        if opened is not None and parent is not None:
            closed_ms = opened.floor_ms
            self.replays.look(f"{name} at {one.token}", opened, parent, self.streams[name], names, listed)
        new = names - (parent.names if parent else Names())
        closed = {event for event in new if window_end_ms(self._book.by_name[event]) <= closed_ms}
        if closed - listed:
            raise Anomaly(REOPENED, f"{name} at {one.token} counts {sorted(closed - listed)[:5]}")
        if listed - new or (follows and one.epoch == since + 1 and (listed != closed or len(listed) != one.late)):
            raise Anomaly(
                WRONG_LIST, f"{name} at {one.token} lists {sorted(listed)[:5]}, and late are {sorted(closed)[:5]}"
            )
        return {**(parent.late if parent else {}), **dict.fromkeys(listed, name)}

    def _require_origin_cut(self, name: str, one: Milestone, names: Names) -> None:
        """The same events, said in the offsets of the regions that they come from."""
        if any(self._losses.lost(each, JOB.topic) for each in self._by_name):
            return  # and of these an event was lost, or another one stands there
        due: set[bytes] = set()
        for place, end in one.source_cut:
            region = copied_region(JOB.topic, place.topic)
            if region is None:
                due |= self._produced(name, place, end)
            else:
                there = TopicPartition(JOB.topic, place.partition)
                due |= self._produced(region, there, one.origin_cut.offset(place))
        if due != names:
            wrong = sorted(due ^ names)[:5]
            kind = LOST_WRITE if due - names else REPEATED
            raise Anomaly(kind, f"{name} at {one.token}: its origin cut and its source cut differ by {wrong}")

    def _produced(self, name: str, place: TopicPartition, end: int) -> set[bytes]:
        return {one.value or b"" for one in self._by_name[name].log.committed(place, 0, end)}

    def _require_rows(self, who: str, region: Region, cut: Cut, told: Told, standing: bool = False) -> None:
        """The rows below a cut say what the events add up to, above the horizon. `standing`: those there now."""
        rows: dict[Window, int] = {}
        for place, end in cut:
            below = region.log.standing(place, end) if standing else region.log.committed(place, 0, end)
            rows |= {window_of(key): total for key, total in folded(below).items()}
        due = added(self._book.by_name[name] for name in told.counted)
        self._compare(who, rows, due, told.milestone.horizon_ms)

    def _compare(self, who: str, rows: Mapping[Window, int], due: Mapping[Window, int], horizon_ms: int) -> None:
        wrong = {
            one: (rows.get(one), due.get(one))
            for one in {*rows, *due}
            if rows.get(one) != due.get(one) and one[1] + HOUR_MS > horizon_ms
        }
        if wrong:
            kind = PARTIAL if len(wrong) < len(due) else LOST_WRITE
            raise Anomaly(kind, f"{who}: (there, true) {wrong}")

    # --- readers

    def promoted(self, name: str) -> list[Generation]:
        return list(dict.fromkeys(told.milestone.generation for told in self.streams[name]))

    def look_at_reader(self, who: str, reader: Reader, one: CommittedMilestone) -> None:
        """Milestones come in order and none is left out; with all that came it holds what the events add up to."""
        self.look()
        name, number = who.split()[1], one.token.sequence
        said = [*self.streams[name], *self.withdrawn[name]]
        told = next((each for each in said if each.milestone.token == one.token), None)
        if told is None:
            raise Anomaly(ABORTED_READ, f"{who} is given {one.token}, which {name} has not promoted")
        if number <= reader.seen:
            raise Anomaly(INVERSION, f"{who} is given sequence {number} behind {reader.seen}")
        if reader.seen and one.first_sequence != reader.seen + 1:
            raise Anomaly(GAP, f"{who} is given sequences from {one.first_sequence} behind {reader.seen}")
        reader.rows |= {(each.key, each.window_start_ms): each.values["total"] for each in one.changes}
        reader.token, reader.seen = one.token, number
        due = added(self._book.by_name[event] for event in told.counted)
        self._compare(f"{who} at {one.token}", reader.rows, due, told.milestone.horizon_ms)

    # --- I5: arrivals

    def _arrival(self, region: Region, one: Arrival, record: Record) -> None:
        """What has arrived is whole: the milestone's bytes, its rows, and the events that it has read."""
        who, known = f"arrival {one.token} in {region.name}", self.arrived[region.name]
        told = self.told.get(one.milestone_hash)
        if told is None or (told.milestone.token, told.region) != (one.token, one.origin):
            raise Anomaly(ABORTED_READ, f"{who}: its origin has promoted no such milestone")
        if known and one.stream_offset <= known[-1].stream_offset:
            raise Anomaly(INVERSION, f"{who} comes behind that of {known[-1].token}")
        stream = TopicPartition(mirror_records.milestones_from(JOB.name, one.origin), 0)
        if self._losses.unaware(record, region.name, [stream, *dict(one.changelog_cut), *dict(one.source_cut)]):
            known.append(one)
            return
        copy = region.log.committed((mirror_records.milestones_from(JOB.name, one.origin), 0), one.stream_offset)
        if next((each.value for each in copy), None) != told.record:
            raise Anomaly(DIVERGENCE, f"{who}: other bytes stand at {one.stream_offset}")
        if one.watermark_ms != told.milestone.watermark_ms:
            raise Anomaly(DIVERGENCE, f"{who} says another watermark")
        # Who has stood still since he decided may be overtaken meanwhile: readers look by themselves.
        just_decided = region.log.now_ms - one.arrived_ms < MARGIN_MS
        self._require_rows(who, region, one.changelog_cut, told, just_decided)
        self._require_events(who, region, one, told)
        known.append(one)

    def _require_events(self, who: str, region: Region, one: Arrival, told: Told) -> None:
        due = [(place, end) for place, end in told.milestone.source_cut if place.topic == JOB.topic]
        for place, end in due:
            here = TopicPartition(mirror_records.from_origin(JOB.topic, one.origin), place.partition)
            records = list(region.log.committed(here, 0, one.source_cut.offset(here)))
            first = self._first(region.name, place, records)
            copied = [each.value or b"" for each in records]
            if self._losses.any_of(one.origin, [place]):
                self._require_counted(f"{who}: {here}", copied, told)
                continue  # the origin cannot be asked for the same any more
            read = [each.value or b"" for each in self._by_name[one.origin].log.committed(place, first, end)]
            if copied != read:
                kind = PARTIAL if len(copied) < len(read) else ABORTED_READ
                raise Anomaly(kind, f"{who}: {here} holds {len(copied)} events below the cut, not {len(read)}")

    def _require_counted(self, who: str, copied: list[bytes], told: Told) -> None:
        """Nobody here would read what stands below the cut, and was not counted there."""
        if left_out := set(copied) - told.names:
            raise Anomaly(LOST_WRITE, f"{who} holds {sorted(left_out)[:5]}, which were never counted")

    def is_gap(self, name: str, topic: str, cause: str) -> bool:
        """Is there what a mirror has stopped for?"""
        log = self.other(name).log
        if cause == ANEW:
            return (topic, 0) in log.former
        if cause == GONE:
            return topic not in log.topics
        newest = self._positions(name)
        known = {one.partition: one.next for place, one in newest.items() if place.topic == topic}
        # Before the first piece is written, nobody but the mirror itself knows where it began.
        return cause == LOST and any(
            one.first > known.get(number, 0) for number, one in enumerate(log.topics.get(topic, ()))
        )

    def _positions(self, name: str) -> dict[TopicPartition, Mirrored]:
        """How far a region's copies of the other one have come."""
        newest: dict[TopicPartition, Mirrored] = {}
        for one in self._by_name[name].log.committed((mirror_records.positions(JOB.name), 0)):
            if not one.value:
                newest.pop(parse_position_key(one.key or b"")[1], None)
                continue
            decoded = protocol_records.decode(one.value)
            if isinstance(decoded, Mirrored) and decoded.origin == self.other(name).name:
                newest[TopicPartition(decoded.topic, decoded.partition)] = decoded
        return newest

    def _first(self, name: str, place: TopicPartition, copied: list[Record]) -> int:
        """The origin's offset with which a copy begins."""
        known = self._positions(name).get(place)
        if known is not None:
            return known.first
        return int(dict(copied[0].headers or ())[SOURCE_OFFSET]) if copied else 0

    def look_at_safe_time(self, name: str, one: SafeTime) -> None:
        """It is never ahead of what was announced."""
        self.look()
        known = self.arrived[name]
        if one.token is not None and one.token not in {str(each.token) for each in known}:
            raise Anomaly(ABORTED_READ, f"{name} is said to be safe up to {one.token}, which has not arrived")
        if one.watermark_ms is not None and one.watermark_ms > known[-1].watermark_ms:
            raise Anomaly(ABORTED_READ, f"{name} is said to be safe up to {one.watermark_ms}")

    # --- the end

    def behind(self, name: str) -> list[str]:
        """What is not copied yet of the other region."""
        there, newest = self.other(name), self._positions(name)
        generations = {told.milestone.generation for told in self.streams[there.name]}
        wanted = [JOB.topic, topics.milestones(JOB.name)]
        wanted += [topics.changelog(JOB.name, one) for one in sorted(generations)]
        found = []
        for topic in wanted:
            for number, partition in enumerate(there.log.topics.get(topic, ())):
                at = newest.get(TopicPartition(topic, number))
                if at is None or at.next < partition.end:
                    found.append(f"{topic}/{number}: {at.next if at else 'nothing'} of {partition.end}")
        return found

    def look_at_copies(self, name: str, whole: bool) -> None:
        """Each event of the other region is here once, and says where it stood; not `whole`: up to a gap."""
        there = self.other(name)
        for here in self._by_name[name].copy_places(there.name):
            if self._losses.lost(there.name, JOB.topic) or self._losses.lost(name, here.topic):
                continue
            place, records = (
                TopicPartition(JOB.topic, here.partition),
                list(self._by_name[name].log.committed(here)),
            )
            first = self._first(name, place, records)
            copied = [(int(dict(one.headers or ())[SOURCE_OFFSET]), one.value) for one in records]
            due = [(one.offset, one.value) for one in there.log.committed(place, first)]
            due = due if whole else due[: len(copied)]
            if copied != due:
                kind = REPEATED if len(copied) > len(due) else LOST_WRITE
                raise Anomaly(kind, f"{name}: {here} holds {len(copied)} events, and {there.name} {len(due)}")

    def look_at_lists(self, name: str, own: Any, faults: Counter[str]) -> None:
        """The late list of a region is what its own generations of the promoted line have listed."""
        if not self.streams[name] or self._losses:
            return  # an event that was listed, or the milestone that says so, may not be there any more
        newest, found = self.streams[name][-1], late_pairs(own, JOB.name)
        told = sorted(self._at(name, one.event) for one in found.entries)
        due = sorted(event for event, region in newest.late.items() if region == name)
        if told != due or found.problems:
            raise Anomaly(WRONG_LIST, f"{name} at {newest.milestone.token}: {told} for {due}; {found.problems}")
        faults["late"] += len(newest.late)
        faults["late elsewhere"] += len(newest.late) - len(due)

    def _at(self, name: str, place: rejected_events.EventPosition) -> bytes:
        here = self._by_name[name].log.committed((place.topic, place.partition), place.offset, place.offset + 1)
        return next((one.value or b"" for one in here), b"nothing")

    # --- I6: losses

    def look_at_loss(
        self,
        name: str,
        own: Any,
        there: Any,
        printed: Mapping[Generation, Loss],
        planned: set[Generation],
        faults: Counter[str],
    ) -> None:
        """Of the newest failover here: what was printed, what is told now, and what is true."""
        claims = [one.claim for one in self.candidates(name) if one.open and one.claim.origin]
        if not claims:
            return
        claim, origin = claims[-1], self.other(name).name
        try:
            fork, exact = ForkReader(own, JOB, origin, there).loss()
        except CutwaterError as error:
            if not self._losses.may_stop(error):
                raise
            faults["loss not told"] += 1
            return
        if fork.claim != claim:
            raise Anomaly(WRONG_LOSS, f"{fork.claim.generation} is told, and {claim.generation} is the newest")
        faults["loss"] += 1
        faults["loss of events"] += bool(exact.events)
        if self.other(name).log.former:
            if exact.exact:
                raise Anomaly(
                    WRONG_LOSS, f"{claim.generation}: the loss of a topic that was made anew is called exact"
                )
            return
        faults["inexact loss"] += not exact.exact
        if not self._losses or (exact.exact and not self._losses.lost(name, topics.milestones(JOB.name))):
            self._require_exact(name, claim, exact)
        if any(self._losses.lost(origin, topic) for topic in (JOB.topic, topics.milestones(JOB.name))):
            return  # what was told of it at the failover is not there any more
        self._require_fork(name, fork)
        if (bound := printed.get(claim.generation)) is not None:
            self._require_bound(claim, bound, exact, fork, claim.generation in planned)

    def _require_exact(self, name: str, claim: Claim, exact: ExactLoss) -> None:
        """From the histories: who was produced there, not copied at the claim; and who of them came since."""
        there, missed, here, unknown = self.other(name), set[bytes](), set[bytes](), 0
        for place, copied in claim.origin_cut:
            source = (JOB.topic, place.partition)
            first = max(copied, there.log.topics[JOB.topic][place.partition].first)
            own = self._by_name[name].log
            readable = own.topics[place.topic][place.partition].stable_end  # a lost marker hides what follows
            brought = {one.value or b"" for one in own.committed(place, 0, readable)}
            gone = {one.value or b"" for one in there.log.committed(source, copied, first)} & brought
            missed |= gone | {one.value or b"" for one in there.log.committed(source, first)}
            here |= brought
            unknown += first - copied - len(gone)
        newest = self.streams[name][-1] if self.streams[name] else None
        read = newest.names - self.told[link(claim.parent)].names if newest else Names()
        late = missed & here & (newest.late.keys() if newest else Names())
        due = (len(missed), len(missed & here), len(missed - here), len(missed & read), len(late), len(late))
        found = (exact.events, exact.copied, exact.absent, exact.read, exact.late.events, exact.late.pairs)
        if found != due or exact.exact == bool(unknown):
            told = "lost, copied, absent, read, late, late pairs"
            problems = f"; {exact.problems}" if exact.problems else ""
            raise Anomaly(WRONG_LOSS, f"{claim.generation}: {found} are told as {told}; not {due}{problems}")

    def _require_fork(self, name: str, fork: Fork) -> None:
        """Milestones there behind the one gone on from, until that region goes on from here again."""
        there, due, begun = self.streams[self.other(name).name], 0, False
        hashes = {link(told.record) for told in there}
        for told, after in zip(there, [*there[1:], None], strict=True):
            if begun:
                due += 1
            begun = begun or link(told.record) == link(fork.claim.parent)
            if begun and after and after.milestone.generation != told.milestone.generation:
                claim = self._claim(self.other(name).name, after.milestone.generation)
                if link(claim.parent) not in hashes:
                    break
        if fork.lines is None or fork.milestones != due:
            raise Anomaly(
                WRONG_LOSS, f"{fork.claim.generation}: {fork.milestones} milestones contradict it, not {due}"
            )

    def _require_bound(self, claim: Claim, bound: Loss, exact: ExactLoss, fork: Fork, planned: bool) -> None:
        if exact.exact and bound.offsets > exact.events:
            raise Anomaly(
                WRONG_LOSS,
                f"{claim.generation}: at least {bound.offsets} were said to be lost, and {exact.events} are",
            )
        if bound.milestones > fork.milestones:
            raise Anomaly(
                WRONG_LOSS,
                f"{claim.generation}: at least {bound.milestones} milestones were said to be lost, and "
                f"{fork.milestones} are",
            )
        if planned and (fork.milestones or bound.offsets or bound.milestones):
            raise Anomaly(WRONG_LOSS, f"{claim.generation}: a switchover has lost {fork.milestones} milestones")
