"""Two that act at once: what the one is told is true, whatever the other does between any two of its calls."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from cutwater.canary.decision import GateDecision
from cutwater.canary.service import _Comparing
from cutwater.core.canary.gate import GateVerdict
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.errors import FencedError, UnavailableError, UsageError
from cutwater.core.pacing.schedules import WorkBounds
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Release
from cutwater.local.processes.candidate_processes import CANDIDATES_MAX, CandidateProcesses
from cutwater.local.processes.child import Child
from cutwater.local.processes.restart_policy import RestartPolicy
from cutwater.local.processes.supervisor import Supervised
from cutwater.operations.generations.claims import Claims
from cutwater.operations.generations.prune import ExclusiveWriter
from cutwater.operations.generations.requests import RequestedBounds
from simulation.clients import SimProducer
from simulation.job import JOB
from simulation.meeting.meetings import (
    Meeting,
    ask_for_newest,
    begin,
    begin_and_ask,
    give_away,
    is_promoted,
    meetings,
    newest,
    promote,
    start_and_promote,
)
from simulation.world import _Silent


def released(world: Meeting) -> bool:
    return any(isinstance(one, Release) for one in world._decoded(topics.milestones(JOB.name)))


def test_a_release_gives_up_who_is_claimed_during_it() -> None:
    """No generation continues the job here that was claimed before the record: another region does."""
    given_up = 0
    for met in meetings(give_away, lambda world: world.act(start_and_promote), note=released):
        met.world.settle()
        assert met.first is None
        if not met.note:
            assert not is_promoted(met.world)
            assert met.second or not met.world.known().by_id[newest(met.world)].open
            given_up += met.second is None
    assert given_up > 10


@pytest.mark.parametrize("what", ["hold", "schedule"])
def test_who_bounds_a_candidate_that_is_promoted_meanwhile_is_told(what: str) -> None:
    def bound(world: Meeting, _cluster: Any, claims: Claims) -> None:
        if what == "hold":
            claims.hold(newest(world), 3_600_000, "by hand", "")
        else:
            claims.schedule(newest(world), RequestedBounds(WorkBounds(max_events_per_s=5), "by hand"))

    def written(world: Meeting) -> bool:
        one = world.known().by_id[newest(world)]
        return bool(one.hold or one.schedule)

    late = 0
    for met in meetings(bound, promote, begin_and_ask, written):
        if is_promoted(met.world) and not met.note:
            late += 1
            with pytest.raises(UsageError, match="is promoted already"):
                raise met.first or AssertionError("it reports success")
    assert late > 3


def test_who_gives_up_a_candidate_too_late_does_not_end_its_driver() -> None:
    """It is the promoted one's by then: a stack ends with it."""
    late = 0
    for met in meetings(lambda world, _, claims: claims.abort(newest(world), "by hand"), promote, begin_and_ask):
        driver = topics.driver_id(JOB.name, newest(met.world))
        assert (driver in met.world.log.producers) == (met.first is None)
        assert is_promoted(met.world) == isinstance(met.first, UsageError)
        late += is_promoted(met.world)
    assert late > 3


class Gate:
    """The gate of the newest candidate."""

    def __init__(self, verdict: GateVerdict) -> None:
        self._verdict = verdict
        self.done: list[bool] = []

    def decide(self, world: Meeting, cluster: Any, _claims: Claims) -> None:
        settings: Any = SimpleNamespace(
            cluster=cluster, region="local", replication_factor=1, min_insync_replicas=1
        )
        decision = GateDecision(JOB, settings, _Silent(), lambda _s: None)
        decision._write = lambda _one: None  # type: ignore[method-assign]
        found: Any = SimpleNamespace(
            verdict=self._verdict.value, generation=newest(world), compared=3, differing=0, reason="3 are equal"
        )
        self.done.append(decision.carry_out(found))


def test_a_gate_that_another_process_fences_decides_all_the_same() -> None:
    """Nobody runs it again: whoever claims or releases something meanwhile does not take its promotion away."""
    gate = Gate(GateVerdict.PROMOTE)
    for met in meetings(
        gate.decide, lambda world: world.act(lambda w, _, c: c.release(newest(w), "a", "")), begin
    ):
        assert (met.first, met.second) == (None, None)
        assert met.world.known().by_id[newest(met.world)].promoting
    assert all(gate.done)


def test_a_gate_does_not_drop_whom_a_person_promotes_meanwhile() -> None:
    gate, kept = Gate(GateVerdict.DROP), 0
    for met in meetings(gate.decide, lambda world: world.act(ask_for_newest), begin):
        one = met.world.known().by_id[newest(met.world)]
        assert met.first is None
        assert (one.promoting, one.open, gate.done[-1]) in ((True, True, False), (False, False, True))
        assert one.promoting == (met.second is None)
        kept += one.open
    assert kept > 3


def drop_newest(world: Meeting, _cluster: Any, claims: Claims) -> None:
    claims.abort(newest(world), "by hand")


def promote_another(world: Meeting) -> BaseException | None:
    error = world.act(start_and_promote)
    if error is None:
        promote(world)
    return error


@pytest.mark.parametrize(
    ("second", "expected"), [(lambda world: world.act(drop_newest), None), (promote_another, FencedError)]
)
def test_a_gate_that_promotes_too_late_ends_as_the_candidate_does(second: Any, expected: Any) -> None:
    """A usage error would be final: what starts the process again would not."""

    def carry_out(world: Meeting, cluster: Any, _claims: Claims) -> None:
        settings: Any = SimpleNamespace(
            cluster=cluster, region="local", replication_factor=1, min_insync_replicas=1
        )
        decision = GateDecision(JOB, settings, _Silent(), lambda _s: None)
        decision._write = lambda _one: None  # type: ignore[method-assign]
        of: Any = SimpleNamespace(context=(JOB, settings, _Silent()), decision=decision, stopped=threading.Event())
        known = next(iter(world.known().by_id.values()))
        feed: Any = SimpleNamespace(candidate=known, poll=lambda _s: ())
        found: Any = SimpleNamespace(
            verdict=GateVerdict.PROMOTE.value,
            generation=known.claim.generation,
            compared=3,
            differing=0,
            reason="3 are equal",
        )
        assert _Comparing(of, feed, None, None)._carry_out(found)  # type: ignore[arg-type]

    ended = 0
    for met in meetings(carry_out, second, begin):
        assert met.first is None or type(met.first) is expected
        ended += met.first is not None or met.second is None
    assert ended > 5


def test_a_gate_that_drops_too_late_says_so() -> None:
    """An error would end the comparing process, and nothing would keep the way back."""

    def ask_and_promote(world: Meeting) -> BaseException | None:
        error = world.act(ask_for_newest)
        if error is None:
            promote(world)
        return error

    gate, late = Gate(GateVerdict.DROP), 0
    for met in meetings(gate.decide, ask_and_promote, begin):
        assert met.first is None
        assert gate.done[-1] != is_promoted(met.world)
        late += is_promoted(met.world)
    assert late > 3


def test_a_claim_that_is_refused_behind_its_record_is_given_up_for_that_reason() -> None:
    asked: list[None] = []

    def require(_planned: object) -> None:
        asked.append(None)
        if len(asked) == 2:
            raise UsageError("the job was released")

    def refused(_world: Meeting, _cluster: Any, claims: Claims) -> None:
        claims.start(None, None, False, "by hand", UNREPLICATED, require)

    world = Meeting()
    assert isinstance(world.act(refused), UsageError)
    assert world.known().by_id[newest(world)].withdrawn == "the job was released"


def test_the_driver_of_the_generation_that_a_rollback_undoes_is_ended() -> None:
    """However many candidates were given up since."""
    world = Meeting()
    token = str(world.stream()[-1].token)
    begin_and_ask(world)
    promote(world)
    undone = newest(world)
    for _ in range(5):
        begin(world)
        assert world.act(lambda w, _, c: c.abort(newest(w), "by hand")) is None

    def roll_back(w: Meeting, _cluster: Any, claims: Claims) -> None:
        claim = claims.start(token, None, True, "by hand", UNREPLICATED, lambda _: None)
        w.drive(claim.generation)
        claims.promote(claim.generation)

    assert world.act(roll_back) is None
    world.settle(lambda: world.stream()[-1].rewinds_to > 0)
    world.settle(turns=3)
    assert world.stream()[-1].generation == newest(world)
    assert topics.driver_id(JOB.name, undone) in world.log.producers


def test_nothing_is_pruned_while_brokers_do_not_say_who_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim may have been made since the look, from what would be removed."""

    def unanswered(_self: SimProducer, _timeout: float) -> int:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))

    def require(_world: Meeting, cluster: Any, _claims: Claims) -> None:
        alone = ExclusiveWriter(cluster, JOB.name)
        alone.require()
        monkeypatch.setattr(SimProducer, "flush", unanswered)
        alone.require()

    assert isinstance(Meeting().act(require), UnavailableError)


def test_a_candidate_that_is_to_be_promoted_is_started_beside_others() -> None:
    """Nothing else is promoted before it: a rollback would wait for ever behind two others."""
    world = Meeting()
    for _ in range(CANDIDATES_MAX + 1):
        begin(world)
    assert started_by_up(world) == list(world.known().by_id)[:CANDIDATES_MAX]
    assert world.act(ask_for_newest) is None
    world._markers()
    assert started_by_up(world) == list(world.known().by_id)


def test_a_candidate_whose_driver_has_ended_makes_room_for_another() -> None:
    """As one of a plan that its checkpoint does not fit: it stays claimed until an operator aborts it."""
    world = Meeting()
    for _ in range(CANDIDATES_MAX + 1):
        begin(world)
    assert started_by_up(world, "driver") == list(world.known().by_id)
    assert started_by_up(world, "canary") == list(world.known().by_id)[:CANDIDATES_MAX]


def started_by_up(world: Meeting, ends: str = "") -> list[Generation]:
    """Return whose processes `up` starts. `ends`: what of each candidate ends as soon as it has begun."""
    started = list[Generation]()
    seconds = iter(range(0, 1_000, 10))

    def processes(generation: Generation) -> list[Supervised]:
        started.append(generation)
        made = {
            name: Supervised(Child(name, [], {}, Path(name), RestartPolicy()), essential=name == "driver")
            for name in ("driver", "canary")
        }
        if ends:
            made[ends].finished = True
        return list(made.values())

    def look(_world: Meeting, cluster: Any, _claims: Claims) -> None:
        candidates = CandidateProcesses(cluster, JOB.name, processes, lambda _line: None, lambda: next(seconds))
        while True:
            candidates()

    process = world.begin(look)
    while process.run():
        pass  # until it waits for more
    process.kill()
    return started
