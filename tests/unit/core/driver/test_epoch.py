"""One epoch, step by step, and what a driver keeps of the barriers before: over ports that note what they do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from cutwater.core.driver.epoch import Epochs
from cutwater.core.driver.input_stats import InputStats
from cutwater.core.driver.lateness import ByFloor
from cutwater.core.driver.ports import ListCounts, Past, Proved, summarise
from cutwater.core.driver.row_proof import Written
from cutwater.core.generations.start_state import FIRST, StartState
from cutwater.core.protocol.changelog_rows import Writer
from cutwater.core.protocol.cuts import Cut, EpochPlan, Range, TopicPartition
from support.protocol_samples import GENERATION, JOB, OTHER, barrier, committed, source_cut, start

ATTEMPT = 3
RETENTION_MS = 5_000_000
LATENESS_MS = 1_000
WRITTEN = Written({1: 4, 0: 3}, {1: 40, 0: 30})
PROVED = Proved(Cut.of_topic("rows", [7, 9]), ())


@dataclass
class Driver:
    """The ports of one attempt, whose checkpoint has planned what `source_cut` says."""

    past: Past = field(default_factory=lambda: Past(2, {}))
    committed: int = -1
    grown: bool = False
    buried: dict[int, int] | None = None
    seen: InputStats = field(default_factory=lambda: InputStats(events=10, rejected=1, newest_ms={0: 100, 1: 105}))
    lists: bool = False
    origin: StartState = FIRST
    done: list[Any] = field(default_factory=list)
    planned: list[int] = field(default_factory=list)
    """Of which epochs the plan was read."""
    now_ms: int = 1_000

    def __post_init__(self) -> None:
        clearing = SimpleNamespace(collect=self._collect, collected=(8, 9)) if self.buried is not None else None
        self.epochs = Epochs(
            SimpleNamespace(
                name=JOB,
                rows_retention_ms=RETENTION_MS,
                overlap_ms=0,
                fingerprint="definition",
                lateness_ms=LATENESS_MS,
            ),  # type: ignore[arg-type]
            GENERATION,
            ATTEMPT,
            self.past,
            SimpleNamespace(begin_epoch=self._begin, prove=self._prove, has_grown=self._grown),  # type: ignore[arg-type]
            SimpleNamespace(write=lambda signal: self.done.append(("barrier", signal))),  # type: ignore[arg-type]
            SimpleNamespace(newest_committed=lambda: self.committed, plan=self._plan),  # type: ignore[arg-type]
            "fingerprint",
            self._now,
            clearing,  # type: ignore[arg-type]
            self.done.append,
            self.origin,
        )
        if self.lists:
            self.epochs.lists = SimpleNamespace(write=self._list)  # type: ignore[assignment]

    def _now(self) -> int:
        self.now_ms += 1
        return self.now_ms

    def _plan(self, epoch: int) -> EpochPlan:
        self.planned.append(epoch)
        return EpochPlan(source_cut(epoch), 3_600_000 * epoch)

    def _begin(self, before: Any, cut: Cut) -> None:
        self.done.append(("begin", before and before.epoch, cut))

    def _collect(self, me: Writer, before: Any) -> Any:
        self.done.append(("collect", me, before and before.epoch))
        return self.buried

    def _prove(self, before: Any, me: Writer, written: Written, buried: Any) -> Proved:
        self.done.append(("prove", before and before.epoch, me, written, buried))
        return PROVED

    def _grown(self, before: Any) -> bool:
        self.done.append(("grown", before and before.epoch))
        return self.grown

    def _list(self, me: Writer, range_: Range, seen: InputStats) -> ListCounts:
        self.done.append(("list", me, range_, seen))
        return ListCounts(6, 2)

    def write(self, epoch: int) -> Any:
        """The barrier that comes of it."""

        def action(me: Writer) -> Written:
            self.done.append(("action", me))
            return WRITTEN

        self.epochs.write(epoch, action, lambda: self.seen)
        return self.epochs.newest


def test_the_steps_of_an_epoch() -> None:
    """Look, clear, write, prove, tell, in this order and each once; then the barrier is the newest."""
    before = barrier(4)
    one = Driver(Past(2, {4: before}), 4, buried={0: 2, 1: 5})
    me = Writer(GENERATION, ATTEMPT, 5)
    told = one.write(5)
    assert one.done == [
        ("begin", 4, source_cut(5)),
        ("collect", me, 4),
        "cleared",
        ("action", me),
        "rows-written",
        ("prove", 4, me, WRITTEN, {0: 2, 1: 5}),
        "rows-proved",
        ("barrier", told),
        "barrier-written",
    ]
    assert (told.epoch, told.attempt, told.generation, told.job) == (5, ATTEMPT, GENERATION, JOB)
    assert (told.rows, told.digest) == (7, 30 ^ 40)
    assert (told.partition_rows, told.partition_digests) == ((3, 4), (30, 40))
    assert (told.tombstones, told.collected) == (7, (8, 9))
    assert (told.events, told.rejected, told.late, told.skew_ms) == (10, 1, 0, 5)
    assert (told.source_cut, told.changelog_cut) == (source_cut(5), PROVED.changelog_cut)
    assert (told.watermark_ms, told.horizon_ms) == (18_000_000, 13_000_000)
    assert (told.epoch_started_ms, told.written_ms) == (1_001, 1_003)
    assert (told.schema_fingerprint, told.definition) == ("fingerprint", "definition")


def test_without_anything_to_clear_nothing_is_cleared() -> None:
    """Nor where nobody clears."""
    one, nobody = Driver(buried={}), Driver()
    assert (one.write(0).tombstones, nobody.write(0).tombstones) == (0, 0)
    assert nobody.epochs.newest is not None
    assert nobody.epochs.newest.collected == ()
    assert "cleared" not in one.done
    assert ("prove", None, Writer(GENERATION, ATTEMPT, 0), WRITTEN, {}) in nobody.done


def test_a_horizon_never_falls() -> None:
    """Also where the retention was made longer since."""
    before = replace(barrier(4), horizon_ms=14_000_000)
    assert Driver(Past(2, {4: before}), 4).write(5).horizon_ms == 14_000_000
    assert Driver().write(5).horizon_ms == 13_000_000


def test_what_was_read_of_copies_moves_on() -> None:
    """From the barrier before, or from where the generation begins."""
    place, other = TopicPartition("eu.events", 0), TopicPartition("eu.events", 1)
    seen = InputStats(events=1, copied={place: 30})
    begun = StartState(origin_cut=Cut.of({place: 20, other: 7}))
    assert Driver(seen=seen, origin=begun).write(0).origin_cut == Cut.of({place: 30, other: 7})
    before = replace(barrier(4), origin_cut=Cut.of({place: 40}))
    assert Driver(Past(2, {4: before}), 4, seen=seen, origin=begun).write(5).origin_cut == Cut.of({place: 40})


def test_lists_are_written_where_anything_was_read() -> None:
    """Of the epoch's own offsets, and with what is closed for it."""
    one = Driver(Past(2, {4: barrier(4)}), 4, lists=True)
    told = one.write(5)
    assert (told.late, told.no_value) == (6, 2)
    me = Writer(GENERATION, ATTEMPT, 5)
    expected = Range(source_cut(4), source_cut(5), 3_600_000 * 4)
    assert [what for what in one.done if what[0] == "list"] == [("list", me, expected, one.seen)]
    nothing_read = Driver(Past(2, {4: barrier(4)}), 4, lists=True, seen=InputStats())
    assert nothing_read.write(5).late == 0
    assert not [what for what in nothing_read.done if what[0] == "list"]


def test_the_first_epochs_list_begins_where_the_generation_does() -> None:
    begun = StartState(source_cut(0), floor_ms=77)
    one = Driver(lists=True, origin=begun)
    one.write(0)
    (listed,) = [what for what in one.done if what[0] == "list"]
    assert (listed[2].before, listed[2].closed_ms) == (source_cut(0), 77)


def test_a_plan_is_read_once() -> None:
    """That of the epoch before is known from there, but for the first of an attempt, and behind a leap."""
    one = Driver(lists=True)
    for epoch in (3, 4, 6):
        one.write(epoch)
    assert one.planned == [3, 2, 4, 6, 5]


def test_whose_barrier_is_the_newest() -> None:
    """That of an earlier attempt is not its own."""
    one = Driver(Past(2, {4: barrier(4)}), 4)
    assert one.epochs.newest == barrier(4)
    assert one.epochs.newest_own is None
    told = one.write(5)
    assert one.epochs.newest_own is told
    assert Driver().epochs.newest is None
    assert Driver().epochs.newest_own is None


@pytest.mark.parametrize(
    ("barriers", "grown", "begun", "asked"),
    [
        ({}, False, None, [("grown", None)]),
        ({}, True, 5, [("grown", None)]),
        ({3: barrier(3), 4: barrier(4)}, False, None, [("grown", 4)]),
        ({3: barrier(3), 4: barrier(4)}, True, 5, [("grown", 4)]),
        ({4: barrier(4), 5: barrier(5)}, False, 5, []),
    ],
)
def test_an_epoch_that_was_begun(barriers: Any, grown: bool, begun: int | None, asked: list[Any]) -> None:
    """Its barrier is there, or rows stand above the barrier before."""
    one = Driver(Past(2, barriers), 4, grown)
    assert one.epochs.unfinished() == begun
    assert one.done == asked


def test_the_past_is_of_one_generation() -> None:
    """The highest attempt, and of each epoch what was told of it last."""
    again = barrier(1, attempt=2)
    signals = [
        start(1), barrier(0), barrier(1), start(2), again, committed(1), start(9, generation=OTHER),
        replace(barrier(7), generation=OTHER),
    ]  # fmt: skip
    past = summarise(signals, GENERATION)
    assert past == Past(2, {0: barrier(0), 1: again})
    assert past.newest == again
    assert (past.newest_before(1), past.newest_before(2), past.newest_before(0)) == (barrier(0), again, None)
    assert summarise([], GENERATION) == Past(0, {})
    assert Past(0, {}).newest is None


def test_the_past_keeps_what_proofs_may_still_need() -> None:
    """The two newest and the new one."""
    past = Past(1, {epoch: barrier(epoch) for epoch in (4, 2, 3)}).with_(barrier(5, attempt=2))
    assert sorted(past.barriers) == [3, 4, 5]
    assert past.attempt == 2
    assert sorted(past.with_(barrier(5, attempt=3)).barriers) == [4, 5]


def test_the_newest_event_of_a_backlog_is_ahead_of_its_watermark() -> None:
    """That follows the partition furthest behind; a later attempt knows how far they were apart."""
    apart = InputStats(events=10, newest_ms={0: 5_000_000, 1: 9_000_000}, full=True)
    one = Driver(seen=apart)
    one.epochs.closing = ByFloor(FIRST, 0, LATENESS_MS)
    assert one.epochs.newest_event_before(0) is None
    told = one.write(0)
    assert told.watermark_ms == 5_000_000 - LATENESS_MS
    assert one.epochs.newest_event_before(1) == 9_000_000
    again = Driver(Past(ATTEMPT, {0: told}), 0)
    assert again.epochs.newest_event_before(1) == 5_000_000, "Spark's watermark follows the newest partition"
    again.epochs.closing = one.epochs.closing
    assert again.epochs.newest_event_before(1) == 9_000_000
    one.seen = InputStats(events=10, newest_ms={0: 6_000_000}, full=True)
    one.write(1)
    assert one.epochs.newest_event_before(2) == 9_000_000, "also if that partition has no event"


def test_an_old_event_of_another_partition_moves_no_newest_event() -> None:
    """Without a backlog the watermark follows the newest partition; nothing before 1970 moves it."""
    one = Driver(seen=InputStats(events=1, newest_ms={0: -9_000, 1: -5_000}))
    one.epochs.closing = ByFloor(FIRST, 0, LATENESS_MS)
    one.write(0)
    assert one.epochs.newest_event_before(1) == -5_000
    one.seen = InputStats(events=2, newest_ms={0: 2_000_000, 1: 8_000_000})
    one.write(1)
    assert one.epochs.newest_event_before(2) == 8_000_000
