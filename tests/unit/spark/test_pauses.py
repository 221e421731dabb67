"""The pauses of a driver before its epochs: plain values, with a clock that a pause moves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from cutwater.adapters.avro import protocol_records
from cutwater.core.generations.candidates import Candidates, fold_candidates
from cutwater.core.job.job import Objectives
from cutwater.core.pacing.maintenance_windows import MaintenanceWindows
from cutwater.core.pacing.schedules import WorkBounds
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Candidacy, Claim, Milestone, Promotion
from cutwater_spark.epoch.pauses import LOOK_S, EpochPauses, EpochRead, PausedBy
from support.protocol_samples import JOB, milestone

FIRST, SECOND = Generation(1, "local"), Generation(2, "local", "00000002")
PARENT = replace(milestone(1), generation=FIRST, source_cut=Cut.of_topic("events", [1_000]), committed_ms=0)
CLAIM = Claim(JOB, SECOND, protocol_records.encode(PARENT), 2, 0, "", 0)
NIGHT = WorkBounds(MaintenanceWindows.parse(["02:00-05:00"]))
HOUR_S = 3_600


@dataclass
class World:
    """One driver's surroundings. A pause moves the clock, and `at` says what happens at a second."""

    records: list[Candidacy] = field(default_factory=lambda: [CLAIM])
    last: Milestone | None = PARENT
    now_s: float = 0.0
    at: dict[float, Any] = field(default_factory=dict)
    candidate_s: float = 0.0
    yielded_s: float = 0.0
    read: EpochRead = field(default_factory=EpochRead)
    stopped: bool = False

    def known(self, _age_s: float) -> Candidates:
        return fold_candidates(self.records)

    def newest(self) -> Milestone | None:
        return self.last

    def is_set(self) -> bool:
        return self.stopped

    def wait(self, seconds: float) -> bool:
        self.now_s += seconds
        for second in [one for one in self.at if one <= self.now_s]:
            self.at.pop(second)()
        return self.stopped

    def info(self, _event: str, **_more: object) -> None:
        pass

    def _add(self, name: str, seconds: float) -> None:
        setattr(self, name, getattr(self, name) + seconds)

    def pauses(self, generation: Generation = SECOND, share: float = 1.0) -> EpochPauses:
        me: Any = self
        counts = PausedBy(lambda s: self._add("candidate_s", s), lambda s: self._add("yielded_s", s))
        return EpochPauses(
            generation,
            share,
            Objectives(),
            me,
            lambda: self.read,
            me,
            counts,
            lambda: int(self.now_s * 1_000),
            self,
            generation is SECOND,
            lambda: self.now_s,
        )

    def epoch(self, pauses: EpochPauses, seconds: float, events: int = 0) -> float:
        """Run an epoch; return when it began."""
        with pauses.epoch():
            began_s = self.now_s
            self.read = EpochRead(events, self.read.source_cut)
            self.now_s += seconds
        return began_s


def scheduled(bounds: WorkBounds) -> Candidacy:
    return bounds.record(JOB, SECOND, "alice", 0)


def test_a_candidate_works_within_its_windows_only() -> None:
    """It waits for the first one before it reads its parent's rows, and again behind each."""
    twice = WorkBounds(MaintenanceWindows.parse(["02:00-02:02", "02:05-02:06"]))
    world = World([CLAIM, scheduled(twice)], now_s=2 * HOUR_S - 60)
    pauses = world.pauses()
    assert pauses.await_window()
    assert world.now_s == 2 * HOUR_S
    assert world.epoch(pauses, 150) == 2 * HOUR_S
    assert world.epoch(pauses, 1) == 2 * HOUR_S + 300
    assert world.candidate_s == 60 + 150


def test_a_changed_schedule_counts_at_the_next_look() -> None:
    world = World([CLAIM, scheduled(NIGHT)])
    world.at[100] = lambda: world.records.append(scheduled(WorkBounds()))
    assert world.pauses().await_window()
    assert 100 <= world.now_s <= 100 + LOOK_S


def test_a_stop_ends_a_pause() -> None:
    world = World([CLAIM, scheduled(NIGHT)])
    world.at[10] = lambda: setattr(world, "stopped", True)
    assert not world.pauses().await_window()
    assert world.now_s <= 10 + LOOK_S


def test_a_rate_makes_epochs_small_and_rests_in_proportion() -> None:
    """Also when the promotion is requested; behind the promotion the job lives here."""
    world = World([CLAIM, scheduled(WorkBounds(max_events_per_s=100)), Promotion(JOB, SECOND, 0)])
    pauses = world.pauses()
    assert pauses.events_max() == 200
    assert [world.epoch(pauses, 0.5, 200) for _ in range(3)] == [0, 2, 4]
    world.last = replace(PARENT, generation=SECOND)
    assert world.epoch(pauses, 0.5, 200) == 4.5
    assert pauses.events_max() is None


def test_a_driver_that_starts_behind_its_promotion_is_not_bounded() -> None:
    world = World([CLAIM, scheduled(NIGHT), Promotion(JOB, SECOND, 0)], replace(PARENT, generation=SECOND))
    pauses = world.pauses()
    assert pauses.await_window()
    assert world.epoch(pauses, 1) == 0


def test_a_promotion_at_the_windows_end_ends_the_wait() -> None:
    """The driver was started again just then. It must not be silent until the next night."""
    world = World([CLAIM, scheduled(NIGHT), Promotion(JOB, SECOND, 0)])
    world.at[10] = lambda: setattr(world, "last", replace(PARENT, generation=SECOND))
    assert world.pauses().await_window()
    assert world.now_s == 10


def test_a_share_ends_with_the_request() -> None:
    """In the middle of a rest, and for ever."""
    world = World()
    pauses = world.pauses(share=0.05)
    world.at[2] = lambda: world.records.append(Promotion(JOB, SECOND, 0))
    assert [world.epoch(pauses, 0.5) for _ in range(3)] == [0, 0.5 + LOOK_S, 1 + LOOK_S]


def own(read: int, second: int, epoch: int) -> Milestone:
    cut = Cut.of_topic("events", [read])
    return replace(milestone(epoch), generation=SECOND, source_cut=cut, committed_ms=second * 1_000)


def test_a_share_grows_while_the_candidate_reads_less_than_arrives() -> None:
    """It reads 10 of the 100 that arrive each second."""
    last = replace(PARENT, source_cut=Cut.of_topic("events", [11_000]), committed_ms=100_000)
    world = World([CLAIM, own(2_000, 80, 1), own(2_100, 90, 2)], last)
    pauses = world.pauses(share=0.25)
    rests = list[float]()
    for _ in range(6):
        before_s = world.now_s + 1
        world.epoch(pauses, 1)
        rests.append(world.epoch(pauses, 1) - before_s)
    assert rests[0] == 3
    assert rests[-1] == 0


def live(world: World, seconds: float, rate: int = 1_000) -> list[float]:
    """Epochs of the promoted driver for some time; return the waits before them."""
    pauses, waits = world.pauses(FIRST), list[float]()
    while world.now_s < seconds:
        before_s = world.now_s
        with pauses.epoch():
            waits.append(world.now_s - before_s)
            world.now_s += 1
            world.read = EpochRead(rate, Cut.of_topic("events", [int(world.now_s * rate)]))
    return waits


def follower(reads: int, *records: Candidacy) -> list[Candidacy]:
    """A candidate that reads so many events per second, of a job that has read a million."""
    return [CLAIM, own(0, 0, 1), own(10 * reads, 10, 2), *records]


def test_the_promoted_driver_waits_for_a_slower_candidate_within_its_bound() -> None:
    """Half of what was asked for before each epoch, since an event may wait twice."""
    world = World(follower(500, scheduled(WorkBounds(yield_ms=6_000))), now_s=1_000)
    waits = live(world, 1_060)
    assert waits[:2] == [0, 0], "it does not know its own rate yet"
    assert set(waits[3:]) == {3.0}
    assert world.yielded_s == sum(waits)


def test_it_waits_for_nobody_else() -> None:
    """Not for a faster one, without being asked, for another line, or outside of the windows."""
    yields = scheduled(WorkBounds(yield_ms=6_000))
    others = replace(CLAIM, parent=protocol_records.encode(replace(PARENT, generation=SECOND)))
    for records in (
        follower(5_000, yields),
        follower(500),
        [others, *follower(500, yields)[1:]],
        follower(500, scheduled(WorkBounds(MaintenanceWindows.parse(["00:00-00:01"]), yield_ms=6_000))),
        [],
    ):
        assert sum(live(World(records, now_s=1_000), 1_030)) == 0, records


def test_a_wait_ends_at_once_when_the_candidate_has_arrived() -> None:
    """Its milestone at second 1,020 covers all that the promoted driver has read."""
    world = World(follower(500, scheduled(WorkBounds(yield_ms=60_000))), now_s=1_000)
    world.at[1_020] = lambda: world.records.append(own(10**9, 20, 3))
    waits = live(world, 1_040)
    assert 10 < max(waits) < 20
    assert all(wait == 0 for wait in waits[waits.index(max(waits)) + 1 :])
