"""Stacks whose drivers end for good while other processes claim, promote and give up."""

from __future__ import annotations

from typing import Any

from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.errors import ForeignRowsError
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
    promote,
    start,
)


def renew(told: list[str | None]) -> Any:
    def act(_world: Meeting, cluster: Any, claims: Claims) -> None:
        made: Any = (lambda: UNREPLICATED, lambda _planned: None, lambda: {newest_of(_world)}, lambda _line: None)
        asked = AutoRecovery(cluster, JOB.name, claims, *made, pause=lambda _s: None)
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
