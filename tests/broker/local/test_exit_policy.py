"""A stack goes on without a process only where another does its work, or the next generation was begun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from cutwater.adapters.config.settings import load_settings
from cutwater.adapters.kafka import admin
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics.candidates import candidates, parent_of
from cutwater.adapters.topics.log_evidence import LogCheck
from cutwater.core.checks.replication import UNREPLICATED
from cutwater.core.errors import DivergenceError, FencedError, ForeignRowsError, LostRecordsError, MachineError
from cutwater.core.protocol import topics
from cutwater.core.protocol.cuts import Cut, TopicPartition
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Milestone
from cutwater.local.processes.auto_recovery import AutoRecovery
from cutwater.local.processes.exit_policy import Fate, ProcessEnd, Stage, decide_fate
from cutwater.operations.generations.claim_check import require_works
from cutwater.operations.generations.claims import Claims
from cutwater.operations.generations.requests import Planned
from support.views.changelogs import GENERATION, Sold, Writing, make_job, now_ms

SECOND, THIRD = Generation(2, "local", "aaaaaaaa"), Generation(3, "local", "bbbbbbbb")
FENCED, LOST, FOREIGN = FencedError.exit_code, DivergenceError.exit_code, ForeignRowsError.exit_code
RECORDS = LostRecordsError.exit_code


@pytest.mark.parametrize(
    ("ended", "stage", "expected"),
    [
        # nothing promoted: nothing to start from
        (ProcessEnd(GENERATION, True, LOST), Stage(None, ()), Fate.ENDS),
        # the promoted one's
        (ProcessEnd(GENERATION, True, LOST), Stage(GENERATION, ()), Fate.RENEW),
        (ProcessEnd(GENERATION, True, FOREIGN), Stage(GENERATION, ()), Fate.RENEW),
        (ProcessEnd(GENERATION, True, FENCED), Stage(GENERATION, ()), Fate.ENDS),
        (ProcessEnd(GENERATION, True, RECORDS), Stage(GENERATION, ()), Fate.WAITS),
        (ProcessEnd(GENERATION, False, RECORDS), Stage(GENERATION, ()), Fate.ENDS),
        (ProcessEnd(GENERATION, True, RECORDS), Stage(None, ()), Fate.ENDS),
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
        (ProcessEnd(SECOND, True, RECORDS), Stage(GENERATION, {SECOND}, True, SECOND), Fate.WAITS),
        (ProcessEnd(SECOND, True, RECORDS), Stage(GENERATION, {SECOND}), Fate.SPARE),
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
    settings = load_settings()

    def require(planned: Planned) -> None:
        require_works(cluster, one.job, settings, planned.claim, "")

    return AutoRecovery(cluster, one.job.name, claims, lambda: UNREPLICATED, require, frozenset, said.append)


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


@pytest.fixture
def lossy(broker: Any, tmp_path: Path) -> tuple[Writing, list[Milestone]]:
    """A job of three milestones; below the cut of the third, the source has lost its end."""
    one = Writing(broker.cluster, make_job(tmp_path)[0])
    source = one.job.topic
    admin.create_topics(broker.cluster, [topics.events(source, 1)])
    producer = broker.cluster.client(Producer, {"acks": "all"})
    for _ in range(2):
        producer.produce(source, b"event", partition=0)
    assert producer.flush(20) == 0
    evidence = LogCheck(broker.cluster).read_state([TopicPartition(source, 0)]).evidence
    cuts = (Cut.of_topic(source, [read]) for read in (1, 2, 3))
    rows = [Sold("a", 1, 5)]
    return one, [one.epoch(rows, source_cut=cut, evidence=evidence) for cut in cuts]


@pytest.mark.parametrize("exit_code", [RECORDS, FOREIGN])
def test_a_stack_that_lost_records_waits_for_an_operator(
    lossy: tuple[Writing, list[Milestone]], broker: Any, exit_code: int
) -> None:
    """No claim is written that cannot work, and nothing stands in the way of the one that is advised."""
    one, (_, newest, _) = lossy
    said: list[str] = []
    asked = renewals(one, broker.cluster, said)
    assert asked.reason_to_continue(ProcessEnd(GENERATION, True, exit_code)) == Fate.WAITS.value
    assert f"'cutwater rollback --to {newest.token}' starts a generation from it" in said[-1]
    assert not candidates(broker.cluster, one.job.name).by_id
    claims = Claims(broker.cluster, one.job, "local", now_ms)
    claims.promote(claims.start(str(newest.token), None, True, "as advised", UNREPLICATED).generation)


def test_a_successor_that_lost_records_is_given_up(lossy: tuple[Writing, list[Milestone]], broker: Any) -> None:
    """Its open promotion would refuse the rollback."""
    one, _ = lossy
    claims = Claims(broker.cluster, one.job, "local", now_ms)
    claim = claims.start(None, None, False, "by hand", UNREPLICATED)
    claims.promote(claim.generation)
    asked = renewals(one, broker.cluster, [])
    assert asked.reason_to_continue(ProcessEnd(GENERATION, True, FOREIGN)) == Fate.RENEW.value
    assert asked.reason_to_continue(ProcessEnd(claim.generation, True, RECORDS)) == Fate.WAITS.value
    assert candidates(broker.cluster, one.job.name).by_id[claim.generation].withdrawn
