"""A stack goes on without a process only where another does its work, or the next generation was begun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import candidates, parent_of
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.errors import DivergenceError, FencedError, ForeignRowsError, MachineError
from cutwater.core.protocol.generation import Generation
from cutwater.local.processes.auto_recovery import AutoRecovery
from cutwater.local.processes.exit_policy import Fate, ProcessEnd, Stage, decide_fate
from cutwater.operations.generations.claims import Claims
from support.views.changelogs import GENERATION, Sold, Writing, make_job, now_ms

SECOND, THIRD = Generation(2, "local", "aaaaaaaa"), Generation(3, "local", "bbbbbbbb")
FENCED, LOST, FOREIGN = FencedError.exit_code, DivergenceError.exit_code, ForeignRowsError.exit_code


@pytest.mark.parametrize(
    ("ended", "stage", "expected"),
    [
        # nothing promoted: nothing to start from
        (ProcessEnd(GENERATION, True, LOST), Stage(None, ()), Fate.ENDS),
        # the promoted one's
        (ProcessEnd(GENERATION, True, LOST), Stage(GENERATION, ()), Fate.RENEW),
        (ProcessEnd(GENERATION, True, FOREIGN), Stage(GENERATION, ()), Fate.RENEW),
        (ProcessEnd(GENERATION, True, FENCED), Stage(GENERATION, ()), Fate.ENDS),
        (ProcessEnd(GENERATION, False, LOST), Stage(GENERATION, ()), Fate.ENDS),
        (ProcessEnd(SECOND, True, MachineError.exit_code), Stage(SECOND, {SECOND}), Fate.ENDS),
        (ProcessEnd(SECOND, True, FOREIGN), Stage(SECOND, {SECOND}), Fate.RENEW),
        # of one before, whose successor works here, or elsewhere
        (ProcessEnd(GENERATION, True, FENCED), Stage(SECOND, {SECOND}), Fate.REPLACED),
        (ProcessEnd(GENERATION, False, FENCED), Stage(SECOND, ()), Fate.ENDS),
        # a candidate beside a promoted one that works
        (ProcessEnd(SECOND, True, FOREIGN), Stage(GENERATION, {SECOND}), Fate.SPARE),
        # a candidate that is to take the place of one that has ended
        (ProcessEnd(SECOND, True, FOREIGN), Stage(GENERATION, {SECOND}, True, SECOND), Fate.RENEW),
        (ProcessEnd(SECOND, True, LOST), Stage(GENERATION, {SECOND}, True, SECOND), Fate.ENDS),
        (ProcessEnd(SECOND, False, FENCED), Stage(GENERATION, {SECOND}, True, SECOND), Fate.ENDS),
        (ProcessEnd(SECOND, False, FENCED), Stage(GENERATION, {SECOND, THIRD}, True, THIRD), Fate.SPARE),
        (ProcessEnd(SECOND, False, FENCED), Stage(GENERATION, {SECOND}, True, None), Fate.ENDS),
    ],
)
def test_what_follows_an_end(ended: ProcessEnd, stage: Stage, expected: Fate) -> None:
    """Decided by what is promoted, never by which process was started first."""
    assert decide_fate(ended, stage) is expected


@pytest.fixture
def written(broker: Any, tmp_path: Path) -> Writing:
    one = Writing(broker.cluster, make_job(tmp_path)[0])
    one.epoch([Sold("a", 1, 5)])
    return one


def renewals(one: Writing, cluster: Cluster, said: list[str]) -> AutoRecovery:
    claims = Claims(cluster, one.job, "local", now_ms)
    return AutoRecovery(cluster, one.job.name, claims, lambda: UNREPLICATED, frozenset, said.append)


@pytest.mark.slow
def test_generations_follow_one_another_three_times_at_most(written: Writing, broker: Any) -> None:
    """Each from the last milestone and asked to be promoted; one that foreign rows ended, too, is given up."""
    said: list[str] = []
    asked, job = renewals(written, broker.cluster, said), written.job.name

    def successor() -> Generation:
        found = candidates(broker.cluster, job).promoting
        assert found is not None
        assert written.last is not None
        assert parent_of(found.claim).token == written.last.token
        return found.claim.generation

    assert asked.reason_to_continue(ProcessEnd(GENERATION, True, LOST)) == Fate.RENEW.value
    second = successor()
    assert second.number == 2
    assert asked.reason_to_continue(ProcessEnd(second, True, FOREIGN)) == Fate.RENEW.value
    third = successor()
    assert third.number == 3
    assert candidates(broker.cluster, job).by_id[second].withdrawn
    assert asked.reason_to_continue(ProcessEnd(second, False, FENCED)) == Fate.SPARE.value
    assert asked.reason_to_continue(ProcessEnd(third, True, FOREIGN)) == Fate.RENEW.value
    assert asked.reason_to_continue(ProcessEnd(successor(), True, FOREIGN)) is None
    assert "started 3 generations by itself" in said[-1]
    assert str(GENERATION) in said[0]
    assert str(second) in said[0]


def test_one_that_was_begun_by_hand_is_the_one_that_follows(written: Writing, broker: Any) -> None:
    """No second one is claimed where a promotion was asked for; where its driver ends otherwise, all end."""
    claims = Claims(broker.cluster, written.job, "local", now_ms)
    claim = claims.start(None, 4, False, "by hand", UNREPLICATED)
    claims.promote(claim.generation)
    asked = renewals(written, broker.cluster, [])
    assert asked.reason_to_continue(ProcessEnd(claim.generation, True, LOST)) == Fate.SPARE.value
    assert asked.reason_to_continue(ProcessEnd(GENERATION, True, FOREIGN)) == Fate.RENEW.value
    assert list(candidates(broker.cluster, written.job.name).by_id) == [claim.generation]
    assert asked.reason_to_continue(ProcessEnd(claim.generation, True, LOST)) is None
