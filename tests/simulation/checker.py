"""Compares what anybody is shown with what is true, and names what is wrong as Jepsen does.

The truth knows nothing of Cutwater's code but its records: the events below a milestone's source cut, added up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.topics.candidates import parent_of
from cutwater.core.errors import LostRecordsError
from cutwater.core.job.job import Job
from cutwater.core.protocol import topics
from cutwater.core.protocol.chain import ROOT_HASH, link
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Barrier, Claim, Heartbeat, Milestone, Start
from cutwater.core.state.partition_share import Partitions
from simulation.disk import Disk
from simulation.job import GENERATION, HOUR_MS, JOB, partition_of_key
from simulation.log import Log, Outcome
from simulation.spark import writer_of

LOST_WRITE = "lost write"
ABORTED_READ = "aborted read"
DIVERGENCE = "divergence"
GAP = "gap"
INVERSION = "inversion"
PARTIAL = "partial milestone"
UNNOTICED = "foreign row unnoticed"
STALE = "old state called fresh"
FALSE_ALARM = "false alarm"
STUCK = "stuck"
REPEATED = "repeated event"
WRONG_LOSS = "wrong loss"
WRONG_LIST = "wrong list"
REOPENED = "closed window reopened"
UNCOUNTED = "late event not counted"
FELL = "wrong floor"
UNNAMED = "loss without a place"
FORKED = "fork of who came back"
INCOMPLETE = "incomplete window called complete"
REPEATED_FINAL, SAID_AGAIN = "final said twice", "said again"
WINDOWS, FINALS, ROWS = "windows", "finals", "rows"
"""What a reader is given of each milestone: the windows that it changed, or closed, or the changelog's rows."""

Window = tuple[Any, ...]
State = dict[Window, Any]
"""(total, writer) by (key, window start)."""


GONE: Any = (None, None)
"""Of a window that was deleted."""


class Anomaly(Exception):
    """What a reader must never see."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


PLACE = re.compile(r"[\w.-]+/\d+|partition \d+")


def require_place(slot: str, error: BaseException) -> None:
    """A loss that is reported says of which partition."""
    if isinstance(error, LostRecordsError) and not PLACE.search(str(error)):
        raise Anomaly(UNNAMED, f"{slot} reports a loss of no partition: {error}")


class Truth(NamedTuple):
    """What a milestone stands for: in windows, as readers see it, or in rows."""

    milestone: Milestone
    state: State
    """Windows above the horizon."""
    changed: frozenset[Window]
    everything: State
    """Windows below the horizon too."""
    horizon_ms: int
    size_ms: int
    """Of a window."""
    rows: Truth | None = None
    """The same in rows, if they are no windows."""

    @property
    def in_rows(self) -> Truth:
        return self.rows or self

    @property
    def closed(self) -> State:
        """The windows that the watermark has passed."""
        up_to_ms = self.milestone.watermark_ms
        return {one: found for one, found in self.everything.items() if one[1] + self.size_ms <= up_to_ms}

    def closed_since(self, before: Truth | None) -> frozenset[Window]:
        """The windows that the watermark has passed since."""
        after_ms, up_to_ms = before.milestone.watermark_ms if before else -1, self.milestone.watermark_ms
        return frozenset(one for one in self.everything if after_ms < one[1] + self.size_ms <= up_to_ms)


class Checker:
    def __init__(self, log: Log, disk: Disk, differs: bool, job: Job = JOB) -> None:
        self._log = log
        self.disks = {GENERATION: disk}
        """The checkpoint of each generation."""
        self.claims: dict[Generation, Claim] = {}
        self.may_repeat: Callable[[], bool] = lambda: False
        """May a hand-over say again what is as it was, since the published state is lost?"""
        self._differs = differs
        self._job = job
        self._position = 0
        self._bytes = b""
        self._floors: dict[str, int] = {}
        self.truths: list[Truth] = []
        """Of sequences 1, 2, 3, …"""
        self.broken = False
        """Does the stream contradict itself since it has lost its end? Whoever reads on from before that says so,
        and of whoever begins behind it nothing is known here."""
        self._was_broken = False
        self._beats: dict[tuple[Generation, int], Heartbeat] = {}
        """The latest heartbeat of each epoch that the stream says."""
        self._lost: list[list[Truth]] = []
        """As they were when the commit stream lost its end."""

    def begin(self, generation: Generation, disk: Disk, claim: Claim) -> None:
        """A generation was claimed: it may follow on the stream."""
        self.disks[generation], self.claims[generation] = disk, claim

    def parent_of(self, generation: Generation) -> Milestone:
        return parent_of(self.claims[generation])

    def stream_lost(self) -> None:
        """The commit stream has lost its end: what was told there stays true, and something else may follow."""
        self._lost.append(self.truths)
        self._was_broken |= self.broken
        self.truths, self._position, self._bytes, self.broken = [], 0, b"", False

    @property
    def milestones_max(self) -> int:
        """The most milestones that the stream held at one time."""
        return max(map(len, (self.truths, *self._lost)))

    # --- the commit stream

    def look_at_stream(self) -> None:
        """Every milestone that can be read: contiguous, chained, each epoch once and only once it is committed."""
        partition = self._log.topics[topics.milestones(JOB.name)][0]
        while (record := partition.next(self._position, committed=True)) is not None:
            self._position = record.offset + 1
            decoded = protocol_records.decode(record.value or b"")
            if isinstance(decoded, Heartbeat):
                self._beat(decoded)
            if not isinstance(decoded, Milestone) or self.broken:
                continue
            try:
                self._milestone(decoded, record.value or b"")
            except Anomaly as found:
                if not self._lost or found.kind == ABORTED_READ:
                    raise
                self.broken = True

    def _milestone(self, milestone: Milestone, record: bytes) -> None:
        known = self.truths[-1].milestone if self.truths else None
        number = milestone.sequence
        if known and number <= known.sequence:
            raise Anomaly(INVERSION, f"the stream says sequence {number} behind {known.sequence}")
        if number != (known.sequence + 1 if known else 1):
            raise Anomaly(GAP, f"the stream goes to sequence {number}")
        if milestone.parent_hash != (link(self._bytes) if known else ROOT_HASH):
            raise Anomaly(DIVERGENCE, f"sequence {number} names another parent")
        changed = known is not None and milestone.generation != known.generation
        if not changed and milestone.epoch != (known.epoch + 1 if known else 0):
            raise Anomaly(GAP, f"sequence {number} is of epoch {milestone.epoch}")
        if known is not None and changed:
            self._require_caught_up(milestone, known)
        disk = self.disks[milestone.generation]
        if milestone.epoch not in disk.ever_committed:
            raise Anomaly(ABORTED_READ, f"epoch {milestone.epoch} is a milestone, and Spark has not committed it")
        plan = disk.plans.get(milestone.epoch)
        if plan is not None and milestone.source_cut != plan.source_cut:
            raise Anomaly(DIVERGENCE, f"epoch {milestone.epoch} reads other events than the checkpoint says")
        self._bytes = record
        self.truths.append(self._truth(milestone))

    def _require_caught_up(self, first: Milestone, known: Milestone) -> None:
        """Without a rollback nothing goes back from one generation to the next."""
        claim, parent = self.claims[first.generation], self.parent_of(first.generation)
        if parent.sequence > known.sequence:
            raise Anomaly(GAP, f"{first.token} follows {known.token}, and goes on from {parent.token}")
        if first.rewinds_to != claim.rewinds_to:
            raise Anomaly(DIVERGENCE, f"{first.token} rewinds to {first.rewinds_to}, not {claim.rewinds_to}")
        ahead = first.source_cut.covers(known.source_cut) and first.watermark_ms >= known.watermark_ms
        if not ahead and not claim.rewinds_to:
            raise Anomaly(INVERSION, f"{first.token} has not read all that {known.token} has")

    def _truth(self, milestone: Milestone) -> Truth:
        before = self.truths[-1].in_rows if self.truths else None
        disk, generation = self.disks[milestone.generation], milestone.generation
        writer = milestone.attempt if self._differs and generation == GENERATION else 0
        read = disk.fetched[milestone.epoch, milestone.source_cut]
        if before is not None and generation != before.milestone.generation:
            # It has read whatever follows its parent, and its first milestone is of any epoch.
            before = self.truths[self.parent_of(generation).sequence - 1].in_rows
            epochs = range(milestone.epoch + 1)
            read = [event for one in epochs for event in disk.fetched[one, disk.plans[one].source_cut]]
        state = dict(before.everything) if before else {}
        changed = set()
        for event in read:
            window = (event.key, event.at_ms - event.at_ms % HOUR_MS)
            changed.add(window)
            state[window] = (state.get(window, (0, 0))[0] + event.amount, writer)
        live = {one: found for one, found in state.items() if one[1] + HOUR_MS > milestone.horizon_ms}
        rows = Truth(milestone, live, frozenset(changed), state, milestone.horizon_ms, HOUR_MS)
        return self._in_windows(rows) if self._job.overlap_ms else rows

    def _in_windows(self, rows: Truth) -> Truth:
        """Each window is the sum of its hours; the newest of their writers is the greatest."""
        size_ms = self._job.window.size_ms
        above_ms = self._job.shown_above_ms(rows.horizon_ms)
        windows: State = {}

        def starts(hour_ms: int) -> range:
            return range(hour_ms + HOUR_MS - size_ms, hour_ms + 1, HOUR_MS)

        for (key, hour_ms), (total, writer) in rows.everything.items():
            for start_ms in starts(hour_ms):
                known = windows.get((key, start_ms), (0, 0))
                windows[key, start_ms] = known[0] + total, max(known[1], writer)
        changed = {(key, start_ms) for key, hour_ms in rows.changed for start_ms in starts(hour_ms)}
        live = {one: found for one, found in windows.items() if one[1] + size_ms > above_ms}
        return Truth(rows.milestone, live, frozenset(changed), windows, above_ms, size_ms, rows)

    # --- readers

    def truth(self, who: str, sequence: int, milestone: Milestone | None = None) -> Truth:
        self.look_at_stream()
        for lost in self._lost:
            if sequence <= len(lost) and lost[sequence - 1].milestone == milestone:
                return lost[sequence - 1]
        if not 1 <= sequence <= len(self.truths):
            raise Anomaly(
                ABORTED_READ, f"{who} shows sequence {sequence}, and the stream ends at {len(self.truths)}"
            )
        return self.truths[sequence - 1]

    def look_at_state(
        self,
        who: str,
        milestone: Milestone,
        rows: Mapping[Window, tuple[int, int]],
        partitions: Partitions | None = None,
        lower_ms: int | None = None,
    ) -> None:
        """A reader that shows the whole state at a milestone, of some partitions, or from a lower bound on."""
        if self._unknown(milestone.sequence):
            return
        truth = self.truth(who, milestone.sequence, milestone)
        if milestone != truth.milestone:
            raise Anomaly(DIVERGENCE, f"{who} shows another milestone {milestone.token}")
        due = truth.state
        if partitions is not None:
            count = len(milestone.changelog_cut)
            due = {one: row for one, row in due.items() if partition_of_key(one[0], count) in partitions}
        if lower_ms is not None:
            if lower_ms > milestone.watermark_ms:
                raise Anomaly(LOST_WRITE, f"{who} dropped windows up to {lower_ms}, which are open")
            due = {window: row for window, row in due.items() if window[1] + truth.size_ms > lower_ms}
        self._compare(f"{who} at {milestone.token}", rows, due, truth)

    def look_at_bound(self, who: str, milestone: Milestone, lower_ms: int | None) -> None:
        """A reader that says from where on windows are there: what was let go of does not come back."""
        horizon_ms = self._job.shown_above_ms(milestone.horizon_ms)
        floor = horizon_ms if lower_ms is None else max(horizon_ms, lower_ms)
        known = self._floors.get(who, floor)
        if floor < known:
            raise Anomaly(INVERSION, f"{who} begins at {floor} behind {known}, at {milestone.token}")
        self._floors[who] = floor

    def begins_anew(self, who: str) -> None:
        """A reader that has lost all that it held."""
        self._floors.pop(who, None)

    def look_at_changes(
        self,
        who: str,
        before: int,
        first: int,
        sequence: int,
        rows: Mapping[Window, tuple[int, int]],
        of: str = WINDOWS,
    ) -> None:
        """A reader that was given what milestones `first` to `sequence` changed, or closed, behind `before`."""
        if sequence <= before:
            raise Anomaly(INVERSION, f"{who} is given sequence {sequence} behind {before}")
        if first != before + 1:
            raise Anomaly(GAP, f"{who} is given sequences from {first} behind {before}")
        for truths in [one for one in self._lost if sequence <= len(one)]:
            with suppress(Anomaly):
                return self._compare_changes(who, before, rows, truths[:sequence], of)
        if self._unknown(sequence):
            return None
        self.truth(who, sequence)
        return self._compare_changes(who, before, rows, self.truths[:sequence], of)

    def _unknown(self, sequence: int) -> bool:
        self.look_at_stream()
        broken = self.broken or self._was_broken
        return broken and all(sequence > len(one) for one in (self.truths, *self._lost))

    def _compare_changes(
        self, who: str, before: int, rows: Mapping[Window, tuple[int, int]], truths: list[Truth], of: str
    ) -> None:
        if of == ROWS:
            truths = [one.in_rows for one in truths]
        last = truths[-1]
        if last.milestone.generation != (truths[before - 1].milestone.generation if before else GENERATION):
            self._compare_difference(who, truths[before - 1] if before else None, last, rows, of)
            return
        if of == FINALS:
            changed = last.closed_since(truths[before - 1] if before else None)
            if before == len(truths) - 1:
                last = last._replace(horizon_ms=-1)  # it tells of windows that its horizon has passed, too
        else:
            changed = frozenset[Window]().union(*(one.changed for one in truths[before:]))
        due = {window: last.everything[window] for window in changed}
        self._compare(f"{who} at sequence {len(truths)}", rows, due, last)

    def _compare_difference(
        self, who: str, before: Truth | None, last: Truth, rows: Mapping[Window, tuple[int, int]], of: str
    ) -> None:
        """From one generation to another one a reader is given what differs, and below horizons maybe more."""
        name = f"{who} at sequence {last.milestone.sequence}, of another generation"
        target = last.closed if of == FINALS else last.everything
        published = (before.closed if of == FINALS else before.everything) if before else {}
        open_ms = before.milestone.watermark_ms if before else 0
        for one, row in rows.items():
            if row != target.get(one, GONE):
                raise Anomaly(ABORTED_READ, f"{name}: {one} is {row}, not {target.get(one, 'gone')}")
            again = published.get(one) == row and one[1] + last.size_ms > open_ms
            if again and not self.may_repeat():
                raise Anomaly(SAID_AGAIN, f"{name}: {one} is {row} as before")
        due = {one: row for one, row in target.items() if published.get(one) != row or one in rows}
        # Of what the published milestone's horizon had passed nobody may know any more that it was there.
        known_ms = before.horizon_ms if before else 0
        gone = published.keys() - target.keys()
        due |= {one: GONE for one in gone if one in rows or one[1] + last.size_ms > known_ms}
        self._compare(name, rows, due, last)

    def _compare(self, who: str, rows: Mapping[Window, tuple[int, int]], due: State, truth: Truth) -> None:
        wrong = {
            window
            for window in {*rows, *due}
            if rows.get(window) != due.get(window) and window[1] + truth.size_ms > truth.horizon_ms
        }
        if wrong:
            kind = self._kind(rows, wrong, truth)
            found = {window: (rows.get(window), due.get(window)) for window in sorted(wrong)}
            raise Anomaly(kind, f"{who}: (shown, true) {found}")

    def _kind(self, rows: Mapping[Window, tuple[int, int]], wrong: Iterable[Window], truth: Truth) -> str:
        sequence = truth.milestone.sequence
        earlier = self.truths[: sequence - 1]
        wrong = set(wrong)
        for window in wrong:
            shown = rows.get(window)
            if shown is not None and all(one.everything.get(window) != shown for one in earlier):
                return ABORTED_READ  # never the committed value of this window so far
        if wrong <= truth.changed and wrong != truth.changed:
            return PARTIAL
        return LOST_WRITE

    # --- how old it is

    def look_at_age(self, who: str, milestone: Milestone, fresh_ms: int) -> None:
        """A reader that says: at `fresh_ms` there was nothing newer than this milestone."""
        self.look_at_stream()
        beat = self._beats.get((milestone.generation, milestone.epoch))
        said = max(milestone.committed_ms, beat.at_ms if beat else 0)
        if fresh_ms > said:
            raise Anomaly(STALE, f"{who} calls {milestone.token} fresh at {fresh_ms}, and it was at {said}")

    def _beat(self, beat: Heartbeat) -> None:
        known = self._beats.get((beat.generation, beat.epoch))
        if known is None or beat.at_ms > known.at_ms:
            self._beats[beat.generation, beat.epoch] = beat

    def look_at_freshness(self, skew_ms: int) -> None:
        """What the stream calls fresh: no barrier came before that was said, and no event that is not counted.

        `skew_ms`: so far off the driver's clock may be.
        """
        self.look_at_stream()
        newest: dict[Generation, int] = {}
        for record in self._log.topics[topics.barriers(JOB.name)][0].records:
            transaction = record.transaction
            if record.marker or transaction is None or transaction.outcome is not Outcome.COMMITTED:
                continue
            signal = protocol_records.decode(record.value or b"")
            if isinstance(signal, Barrier):
                newest[signal.generation] = max(newest.get(signal.generation, -1), signal.epoch)
            elif isinstance(signal, Heartbeat) and self._beats.get((signal.generation, signal.epoch)) == signal:
                known = newest.get(signal.generation, -1)
                if known > signal.epoch:
                    raise Anomaly(STALE, f"epoch {signal.epoch} is called fresh behind the barrier of {known}")
                self._require_counted(signal, skew_ms)

    def _require_counted(self, beat: Heartbeat, skew_ms: int) -> None:
        for truth in self.truths:
            if (truth.milestone.generation, truth.milestone.epoch) == (beat.generation, beat.epoch):
                for place, offset in truth.milestone.source_cut:
                    for record in self._log.topics[place.topic][place.partition].records[offset:]:
                        if record.time_ms < beat.at_ms - skew_ms:
                            raise Anomaly(
                                STALE,
                                f"epoch {beat.epoch} is called fresh at {beat.at_ms}, and {place}@{record.offset} "
                                f"of {record.time_ms} is not counted",
                            )

    # --- the barriers

    def look_at_barriers(self, generation: Generation, began: Mapping[int, int]) -> None:
        """A driver that starts, or says that all is quiet, has seen every row that does not belong there.

        `began`: by attempt, which record was the newest when its process began.
        """
        newest: Barrier | None = None
        beats: dict[tuple[int, int], int] = {}
        for record in self._log.topics[topics.barriers(JOB.name)][0].records:
            transaction = record.transaction
            if record.marker or transaction is None or transaction.outcome is not Outcome.COMMITTED:
                continue
            signal = protocol_records.decode(record.value or b"")
            if getattr(signal, "generation", None) != generation:
                continue
            if isinstance(signal, Barrier):
                newest = signal
            elif isinstance(signal, Start) and newest and signal.attempt in began:
                self._require_noticed(newest, began[signal.attempt], f"start {signal.attempt}")
            elif isinstance(signal, Heartbeat) and newest:
                said = (signal.attempt, signal.epoch)
                if said in beats:
                    self._require_noticed(newest, beats[said], f"a heartbeat of epoch {signal.epoch}")
                beats[said] = record.serial

    def _require_noticed(self, newest: Barrier, before: int, when: str) -> None:
        """Rows of older epochs above the newest barrier's cut: nobody may have written there."""
        for place, offset in newest.changelog_cut:
            for record in self._log.topics[place.topic][place.partition].records if self._stands(place) else ():
                writer = writer_of(record.headers)
                # A tombstone below the horizon changes nothing.
                old = writer is not None and writer.epoch < newest.epoch and record.value is not None
                if record.offset >= offset and record.serial <= before and old:
                    raise Anomaly(UNNOTICED, f"{when}: {place.topic}/{place.partition}@{record.offset}")

    def _stands(self, place: TopicPartition) -> bool:
        return place.topic in self._log.topics

    # --- the output as plain readers see it

    def look_at_output(self) -> None:
        """Each milestone once and whole in every partition, nothing of aborted transactions."""
        for number, partition in enumerate(self._log.topics[topics.output(JOB.name)]):
            last = rows = 0
            for record in partition.records:
                if (
                    record.transaction is None
                    or record.marker
                    or record.transaction.outcome is not Outcome.COMMITTED
                ):
                    continue
                if record.key is not None:
                    rows += 1
                    continue
                end = protocol_records.decode(record.value or b"")
                if end.last and end.first_sequence != last + 1:
                    kind = INVERSION if end.first_sequence <= last else GAP
                    raise Anomaly(kind, f"output/{number} goes from sequence {last} to {end.first_sequence}")
                if end.last and end.rows != rows:
                    raise Anomaly(
                        PARTIAL, f"output/{number} has {rows} rows of sequence {end.sequence}, not {end.rows}"
                    )
                if end.last:
                    last, rows = end.sequence, 0
