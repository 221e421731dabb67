"""Histories of promotions: nobody is promoted who may not be, and somebody always goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.writers.transactional_writer import TransactionalWriter
from cutwater.adapters.topics.own_writes import OwnLog
from cutwater.commit_signal import promotion, signaller
from cutwater.commit_signal.signaller import CommitSignal
from cutwater.core.generations.holds import make_hold, may_be_held
from cutwater.core.protocol import topics
from cutwater.core.protocol.records import Candidacy, Withdrawal
from cutwater.operations.generations.claims import Claims
from simulation.checker import Anomaly
from simulation.holes import off
from simulation.job import JOB
from simulation.processes import Killed, Process
from simulation.promotions import BROKEN, TOPICS, Promotions, play

SEEDS, STEPS = 8, 400
FIRST = 7
"""The seeds before it are known to show nothing without the look."""
DEATHS = (40, 73, 103)
"""Seeds whose first promotion comes as far as the fence."""
LATE = ((29, False), (119, True))
"""Seeds with a withdrawal that is written behind the promotion, and whether logs lose their ends."""
AT_ONCE = 28
"""Turns of 0.7 s: below the half minute for which a fenced signaller waits."""
LOST_AT_ONCE = (2, 11)
"""Seeds whose first promotion is asked for behind the start, and followed by more milestones."""


@pytest.mark.variations
@pytest.mark.parametrize("seeds", [range(SEEDS), range(SEEDS, 12 * SEEDS)], ids=["first", "others"])
def test_no_history_of_promotions_breaks_the_stream(seeds: range) -> None:
    """And the faults happened; generations followed each other, by promotion and by rollback."""
    faults, followed = Counter[str](), 0
    for seed in seeds:
        world = play(seed, STEPS)
        faults += world.faults
        followed += len({one.generation for one in world.stream()}) - 1
    assert {"kill", "stall", "promote", "abort", "rollback", "left as fenced"} <= faults.keys()
    assert followed >= len(seeds) // 3


@pytest.mark.variations
@pytest.mark.parametrize("seeds", [range(SEEDS), range(SEEDS, 13 * SEEDS)], ids=["first", "others"])
def test_no_history_with_holds_breaks_the_stream_or_ends_it(seeds: range) -> None:
    """Promotions are held, released and forced at any moment; somebody writes the stream in the end."""
    faults, followed = Counter[str](), 0
    for seed in seeds:
        world = play(seed, STEPS, holds=True)
        faults += world.faults
        followed += len({one.generation for one in world.stream()}) - 1
    wanted = {"hold", "release", "force", "promote", "kill"}
    assert wanted | ({"hold done", "release done"} if len(seeds) > SEEDS else set()) <= faults.keys()
    assert followed >= len(seeds) // 4


@pytest.mark.variations
@pytest.mark.parametrize("seeds", [range(1), range(1, SEEDS)], ids=["first", "others"])
def test_a_hold_that_comes_behind_the_fence_is_not_waited_for(
    seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old signaller is fenced then: nobody would write the stream. Each promotion is held there, for hours."""
    held: list[str] = []
    for seed in seeds:
        world = Promotions(seed)
        monkeypatch.setattr(promotion, "reach", partial(hold_what_is_coming, world, held))
        for _ in range(STEPS):
            world.step()
        world.drain()
    assert held


def hold_what_is_coming(world: Promotions, held: list[str], point: str) -> None:
    coming = world.known().promoting
    if point == "stream-taken" and coming is not None:
        hold = make_hold(JOB.name, coming.claim.generation, 7_200_000, "by luck", "", world.log.now_ms)
        world.log.append((topics.candidates(JOB.name), 0), None, protocol_records.encode(hold))
        held.append(str(hold.generation))


def test_who_gives_up_a_candidate_that_is_promoted_meanwhile_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The promotion is written behind the look at the stream, and before the withdrawal."""
    write, late = Claims._write, list[str]()

    def write_late(self: Claims, writer: TransactionalWriter, *records: Candidacy) -> None:
        newest = world.stream()[-1].generation
        late.extend(str(one) for one in records if isinstance(one, Withdrawal) and one.generation == newest)
        write(self, writer, *records)

    monkeypatch.setattr(Claims, "_write", write_late)
    for seed, tails in LATE:
        world = Promotions(seed, tails)
        for _ in range(STEPS):
            world.step()
        world.drain()
    assert len(late) >= len(LATE)


@pytest.mark.slow
def test_commits_go_on_at_once_if_a_held_candidate_dies_behind_the_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fenced signaller takes the stream back: the candidate's next one waits for the end of the hold."""
    assert died_behind_the_fence(DEATHS, monkeypatch) == len(DEATHS)


@pytest.mark.slow
def test_without_the_look_at_the_hold_commits_wait_for_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signaller, "active_hold", lambda *_args: None)
    for seed in DEATHS:
        with pytest.raises(Anomaly, match="nobody writes the stream"):
            died_behind_the_fence([seed], monkeypatch)


def died_behind_the_fence(seeds: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> int:
    """Return in how many histories a candidate's signaller died once it had taken the stream, and a hold was
    written meanwhile. Raises Anomaly if nobody has committed within 20 s since then."""
    fired = 0
    for seed in seeds:
        world, died = Promotions(seed), list[str]()
        monkeypatch.setattr(promotion, "reach", partial(hold_and_die, world, died))
        for _ in range(STEPS):
            world.step()
            if died:
                world.drain(AT_ONCE)
                fired += 1
                break
    return fired


def hold_and_die(world: Promotions, died: list[str], point: str) -> None:
    coming = world.known().promoting
    if point == "stream-taken" and coming is not None and may_be_held(coming.claim) and not died:
        hold_what_is_coming(world, died, point)
        Process.running.alive = False
        raise Killed


@pytest.mark.variations
@pytest.mark.parametrize("seeds", [range(SEEDS), range(SEEDS, 24 * SEEDS)], ids=["first", "others"])
def test_no_history_of_promotions_that_loses_tails_promotes_who_may_not_be(seeds: range) -> None:
    """Commit-signals hand over and roll back while all topics lose their ends: right, or somebody says why."""
    faults = Counter[str]()
    for seed in seeds:
        faults += play(seed, STEPS, tails=True).faults
    wanted = {"power lost", "made again", "promote", "rollback", "told: LostRecordsError"}
    assert wanted | {f"lost tail of {topic}" for topic in TOPICS} <= faults.keys()


def test_a_signaller_that_does_not_look_at_its_own_log_breaks_the_stream() -> None:
    """Without the look a history with lost tails goes wrong, and with it the same is right."""
    for seed in range(FIRST, FIRST + 3 * SEEDS):
        with off(OwnLog, "require")():
            found = anomaly_of(seed)
        if found is not None:
            assert found.kind == BROKEN
            assert anomaly_of(seed) is None
            return
    pytest.fail(f"{3 * SEEDS} histories without the look, and nothing went wrong")


def test_a_promotion_that_the_stream_loses_at_once_is_not_followed() -> None:
    """The loss falls between the promotion and the promoted signaller's first look at its own log. With the
    comparison nobody writes behind nothing; without it somebody does."""
    for seed in LOST_AT_ONCE:
        assert lost_promotions(seed) == 1
        with off(CommitSignal, "_require_promotion")(), pytest.raises(Anomaly, match=BROKEN):
            lost_promotions(seed)


def lost_promotions(seed: int) -> int:
    """The number of promotions that the stream has lost at once. Raises Anomaly."""
    world = Promotions(seed)
    with losing_what_is_promoted(world) as lost:
        for _ in range(STEPS):
            world.step()
        world.drain()
    return len(lost)


@contextmanager
def losing_what_is_promoted(world: Promotions) -> Iterator[list[str]]:
    wait, lost = OwnLog._await_markers, list[str]()

    def wait_until_the_loss(self: OwnLog) -> None:
        wait(self)
        of = [str(one.generation) for one in world.stream()[-2:]]
        if self._who == "commit-signal" and not self.evidence and len({*of}) == 2 and of[-1] not in lost:
            lost.append(of[-1])
            world._lose_tail(topics.milestones(JOB.name), 2)

    with patch.object(OwnLog, "_await_markers", wait_until_the_loss):
        yield lost


def anomaly_of(seed: int) -> Anomaly | None:
    try:
        play(seed, STEPS, tails=True)
    except Anomaly as found:
        return found
    return None
