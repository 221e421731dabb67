"""Backlog of a reader of the commit stream (view, publisher, client): the milestone to apply next, and how.

A *step* applies one milestone's own rows to the milestone before it and proves them by count and digest. A *jump*
takes the newest record per key up to a later milestone's cut, after a start or an absence beyond the compaction
lag.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from cutwater.core.errors import DivergenceError, FencedError, UnavailableError
from cutwater.core.protocol.chain import find_chain_faults
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.lineage import UNKNOWN, Lineage
from cutwater.core.protocol.records import Milestone
from cutwater.core.protocol.topics import MIN_COMPACTION_LAG_MS
from cutwater.core.state.partition_share import Partitions, proof_of
from cutwater.core.state.reader_names import VIEW, Reader

MARGIN_MS = 3_600_000
"""Allowance for the difference between a broker's clock and ours, and for the time a read takes."""

PENDING_MAX = 1_000


class Entry(NamedTuple):
    """A milestone on the commit stream."""

    milestone: Milestone
    record: bytes
    """The bytes as written; the next milestone's parent hash covers them."""
    offset: int
    """The offset on the commit stream."""
    arrived: int | None = None
    """For another region's milestone: the offset of its arrival, whose changelog cut replaces its own."""


class MissedMilestone(NamedTuple):
    """A milestone of another region that did not arrive here and never will, since a later one has."""

    entry: Entry


@dataclass(frozen=True)
class Step:
    """Apply the rows of this milestone's own epoch and attempt."""

    to: Entry


@dataclass(frozen=True)
class Jump:
    """Apply the newest record per key up to this milestone's cut."""

    to: Entry


class Backlog:
    """The milestones that a reader has read and not applied yet; bounded. Checks the chain of hashes.

    `floor`: the sequence of a milestone whose application was interrupted. The store may hold rows of it, so no
    earlier milestone may be shown.
    `lineage`: the lineage of the stream up to the applied milestone.
    `hands_over`: another generation's promotion ends this reader without an error; see `over`.
    """

    def __init__(
        self,
        generation: Generation,
        applied: Entry | None = None,
        floor: int = 0,
        pending_max: int = PENDING_MAX,
        reader: Reader = VIEW,
        lineage: Lineage = UNKNOWN,
        hands_over: bool = False,
    ) -> None:
        self.lineage = lineage
        """The generations up to this one, as far as the stream has been read."""
        self.successor: Milestone | None = None
        """The first milestone of the generation that takes over from this one."""
        self._hands_over = hands_over
        self._generation = generation
        self._applied = applied
        self._floor = floor
        self._pending_max = pending_max
        self._reader = reader
        self._pending: deque[Entry] = deque()
        self._last: Entry | None = None
        self._gap = False
        self._complete = False

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def full(self) -> bool:
        """Whether to pause reading until a milestone is applied; false until the stream's end is reached once."""
        return self._complete and len(self._pending) >= self._pending_max

    @property
    def position(self) -> int | None:
        """The offset to read the stream from: that of the last known milestone, which is checked again."""
        return self.known.offset if self.known else None

    @property
    def known(self) -> Entry | None:
        """The last milestone known."""
        return self._last or self._applied

    def reopened(self, offset: int) -> None:
        """Record that the stream is read again, from this offset on. Above the last known milestone it was pruned
        meanwhile, so what follows need not be its successor: a jump leads past what is missing."""
        if self._last is not None and offset > self._last.offset:
            self._last, self._gap, self._complete = None, True, False

    def add(self, entry: Entry) -> None:
        """Add the next milestone of the stream, or the last one again after a pause.

        Raises DivergenceError for a broken chain or a stream that is not the reader's; FencedError if a newer
        generation was promoted and `hands_over` is false. The backlog is unchanged then.
        """
        if self._last and entry.offset == self._last.offset:
            return self._check_same(entry, self._last)
        if self.successor:
            return None  # later milestones are for the successor's reader
        self._check(entry)
        milestone = entry.milestone
        if milestone.generation.number > self._generation.number:
            self.successor = milestone
            return None
        self._last = entry
        self.lineage = self.lineage.after(milestone)
        if milestone.generation != self._generation or milestone.sequence <= self._sequence:
            return None
        if self._applied and not self._pending and milestone.sequence != self._sequence + 1:
            self._gap = True  # the stream was pruned past the reader
        self._pending.append(entry)
        if len(self._pending) > self._pending_max:
            self._pending = deque([entry])
            self._gap = True
        return None

    def missed(self, entry: Entry) -> None:
        """Record that the next milestone cannot be read here: only a jump leads past it. Raises as `add` does."""
        if self._last and entry.offset == self._last.offset:
            return self._check_same(entry, self._last)
        if self.successor:
            return None
        self._check(entry)
        self._last = entry
        milestone = entry.milestone
        if milestone.generation.number <= self._generation.number:
            self.lineage = self.lineage.after(milestone)
        self._gap |= milestone.generation == self._generation and milestone.sequence > self._sequence
        return None

    def end_of_stream(self) -> None:
        """Record the end of the stream. Raises DivergenceError if it ends before the reader's milestone."""
        self._complete = True
        read = self._last.milestone.sequence if self._last else 0
        if read < self._sequence:
            raise DivergenceError(
                f"the commit stream ends at sequence {read}, but {self._reader.name} is at {self._sequence}: "
                f"the topic was replaced or truncated. Find the cause; then {self._reader.anew}."
            )

    def plan(self, now_ms: int) -> Step | Jump | None:
        """Return what to apply next; None if nothing yet. Raises UnavailableError if this machine's clock is
        slow."""
        if not self._pending or self.over(now_ms):
            return None
        self._require_clock(now_ms)
        if not self._must_jump(now_ms):
            return Step(self._pending[0])
        newest = self._pending[-1]
        if not self._complete or newest.milestone.sequence < self._floor:
            return None
        return Jump(newest)

    def _require_clock(self, now_ms: int) -> None:
        """Raise UnavailableError for a slow clock: it makes a milestone look young that compaction has passed."""
        newest = self._pending[-1].milestone
        if newest.committed_ms - now_ms > MARGIN_MS:
            minutes = (newest.committed_ms - now_ms) // 60_000
            raise UnavailableError(
                f"milestone {newest.token} was committed {minutes:,} minutes from now, by this machine's clock: "
                "the clock is behind that of commit-signal's machine. Synchronise both by NTP. Until they agree, "
                "this reader cannot know which values compaction has removed"
            )

    def over(self, now_ms: int) -> bool:
        """Return whether another generation has taken over and only a jump could add anything here. A jump takes
        as long as starting with the other generation, and this changelog may be deleted by then."""
        return self.successor is not None and (not self._pending or self._must_jump(now_ms))

    def mark_applied(self, entry: Entry) -> None:
        """Record that this milestone is completely applied."""
        self._applied = entry
        self._floor = 0
        self._gap = False
        while self._pending and self._pending[0].milestone.sequence <= entry.milestone.sequence:
            self._pending.popleft()

    def mark_overtaken(self, entry: Entry, looked: bool) -> None:
        """Record that compaction may have removed values of this milestone: only a jump can be complete.

        `looked`: records above the cut show it, so only a later milestone will do. Otherwise this one is possible
        too: it grew too old while it was read, and an idle job may write no other. The store may hold rows above
        the applied milestone by now, so that one may not be shown again either.
        """
        least = entry.milestone.sequence + looked
        self._gap = True
        self._floor = max(self._floor, least)
        while self._pending and self._pending[0].milestone.sequence < least:
            self._pending.popleft()

    @property
    def _sequence(self) -> int:
        return self._applied.milestone.sequence if self._applied else 0

    def _must_jump(self, now_ms: int) -> bool:
        first = self._pending[0].milestone
        away = self._applied is None or self._gap or self._floor > first.sequence
        return away or not fresh(first, now_ms)

    def _check(self, entry: Entry) -> None:
        milestone = entry.milestone
        # The reader's own milestone is read first, or was pruned: its hash is known either way.
        known = self._applied if milestone.sequence == self._sequence + 1 else None
        pair = [one for one in (self._last or known, entry) if one is not None]
        for found in find_chain_faults((one.milestone, one.record) for one in pair):
            if found.sequence == milestone.sequence:
                raise DivergenceError(f"the commit stream is broken at sequence {found.sequence}: {found.reason}")
        if milestone.generation.number > self._generation.number and not self._hands_over:
            raise FencedError(
                f"generation {milestone.generation} was promoted at sequence {milestone.sequence}; "
                f"{self._reader.name} follows {self._generation}. Start it with the promoted generation."
            )
        if self._applied and milestone.sequence == self._sequence:
            self._check_same(entry, self._applied)

    def _check_same(self, entry: Entry, known: Entry) -> None:
        if entry.record != known.record:
            raise DivergenceError(
                f"at offset {entry.offset} of the commit stream {known.milestone.token} is not as "
                f"{self._reader.name} knows it: the topic was replaced. Find the cause; then {self._reader.anew}."
            )


def fresh(milestone: Milestone, now_ms: int, lag_ms: int = MIN_COMPACTION_LAG_MS) -> bool:
    """Return whether all records above the cut, written after the barrier, are too young to be compacted."""
    return now_ms - milestone.written_ms < lag_ms - MARGIN_MS


def kept_until(now_ms: int, until_ms: int | None, lag_ms: int = MIN_COMPACTION_LAG_MS) -> bool:
    """Return whether what is written from now on is too young to be compacted until then."""
    return until_ms is not None and until_ms - now_ms < lag_ms - MARGIN_MS


def contained(first_above_ms: Iterable[int | None], now_ms: int, lag_ms: int = MIN_COMPACTION_LAG_MS) -> bool:
    """Return whether compaction has kept every value below a cut. A reader checks this when it passes the cut.

    `first_above_ms`: by partition, the log time of the first record above the cut; None if there is none.
    Compaction removes a value only if a newer record of its key is older than the lag.
    """
    return all(time is None or now_ms - time < lag_ms - MARGIN_MS for time in first_above_ms)


def mismatch(milestone: Milestone, rows: int, digest: int, partitions: Partitions | None = None) -> str | None:
    """Return how the rows read differ from the milestone's proof (`digest` signed), or None."""
    proof = proof_of(milestone, partitions)
    if (rows, digest) == proof:
        return None
    says = f"says {proof.rows} rows with digest {proof.digest}"
    of = f"epoch {milestone.epoch}, attempt {milestone.attempt}"
    if partitions is not None:
        of += f", partitions {', '.join(map(str, sorted(partitions)))}"
    return f"milestone {milestone.token} ({of}) {says}, but the changelog holds {rows} with digest {digest}"
