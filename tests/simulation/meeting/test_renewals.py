"""Stacks whose drivers end for good while other processes claim, promote and give up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.errors import ForeignRowsError, LostRecordsError
from cutwater.core.protocol.generation import Generation
from cutwater.local.processes.auto_recovery import AutoRecovery
from cutwater.local.processes.exit_policy import Fate, ProcessEnd
from cutwater.operations.generations.claims import Claims
from simulation.job import GENERATION, JOB
from simulation.meeting.meetings import (
    Meeting,
    begin,
    begin_and_ask,
    give_away,
    is_promoted,
    meetings,
    newest,
    promote,
    start,
)


def recovery(world: Meeting, cluster: Any, claims: Claims, report: Callable[[str], None]) -> AutoRecovery:
    made: Any = (lambda: UNREPLICATED, lambda _planned: None, lambda: {newest_of(world)}, report)
    return AutoRecovery(cluster, JOB.name, claims, *made, pause=lambda _s: None)


def renew(told: list[str | None]) -> Any:
    def act(world: Meeting, cluster: Any, claims: Claims) -> None:
        asked = recovery(world, cluster, claims, lambda _line: None)
        told.append(asked.reason_to_continue(ProcessEnd(GENERATION, True, ForeignRowsError.exit_code)))

    return act


def newest_of(world: Meeting) -> Generation:
    return list(world.known().by_id or {GENERATION: None})[-1]


def test_a_stack_whose_driver_ends_while_its_successor_is_promoted_goes_on() -> None:
    """And it claims no other generation behind one that works."""
    told: list[str | None] = []
    for met in meetings(renew(told), promote, begin_and_ask):
        assert met.first is None
        assert told[-1] in (Fate.REPLACED.value, Fate.RENEW.value)
        assert len(met.world.known().by_id) == 1
    assert len(set(told)) == 2


def test_a_stack_that_another_process_fences_renews_all_the_same() -> None:
    told: list[str | None] = []
    aborted = 0
    for met in meetings(renew(told), lambda world: world.act(start)):
        assert (met.first, told[-1]) == (None, Fate.RENEW.value)
        assert met.world.known().promoting is not None
        aborted += len(met.world.known().by_id)
    assert aborted > len(told)


def test_a_stack_does_not_renew_a_job_that_is_released_meanwhile() -> None:
    told: list[str | None] = []
    for met in meetings(renew(told), lambda world: world.act(give_away)):
        for one in met.world.known().by_id:
            met.world.drive(one)
        met.world.settle()
        assert (met.first, met.second) == (None, None)
        assert not is_promoted(met.world)
    assert None in told


def test_a_stack_goes_on_with_the_candidate_that_is_promoted_while_it_renews() -> None:
    """No claim of its own stays behind that one."""
    told: list[str | None] = []
    theirs = 0
    for met in meetings(renew(told), lambda world: world.act(ask_for_first), begin):
        known = met.world.known()
        assert (met.first, told[-1]) == (None, Fate.RENEW.value)
        first, *own = known.by_id.values()
        assert known.promoting is not None
        if first.promoting and first.open:
            theirs += 1
            assert not any(one.open for one in own)
    assert theirs > 50


def ask_for_first(world: Meeting, _cluster: Any, claims: Claims) -> None:
    claims.promote(next(iter(world.known().by_id)))


def test_a_successor_whose_records_are_lost_is_given_up_although_another_process_claims() -> None:
    """It would refuse the rollback that is advised."""

    def wait(world: Meeting, cluster: Any, claims: Claims) -> None:
        asked = recovery(world, cluster, claims, lambda _line: None)
        asked._forsaken.add(GENERATION)
        asked._look()
        lost = ProcessEnd(next(iter(world.known().by_id)), True, LostRecordsError.exit_code)
        assert asked._wait(lost) is Fate.WAITS

    fenced = 0
    for met in meetings(wait, lambda world: world.act(release_hold), begin_and_ask):
        assert met.world.known().promoting is None
        fenced += 1
    assert fenced > 10


def release_hold(world: Meeting, _cluster: Any, claims: Claims) -> None:
    claims.release(newest(world), "a", "")


def test_a_stack_that_was_killed_while_it_renewed_promotes_the_claim_it_had_made() -> None:
    """Another one would be claimed at each start, and the first would run beside it."""

    def claim(_world: Meeting, _cluster: Any, claims: Claims) -> None:
        claims.start(None, None, False, f"foreign rows have ended {GENERATION}", UNREPLICATED, lambda _: None)

    world, told = Meeting(), list[str | None]()
    assert world.act(claim) is None
    assert world.act(renew(told)) is None
    assert told == [Fate.RENEW.value]
    assert [one.promoting for one in world.known().by_id.values()] == [True]
