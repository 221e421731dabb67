"""What retention keeps for claims: a broker's answer that it knows no topic is not taken for "no claims"."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutwater.adapters.avro import protocol_records
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.adapters.topics import candidates as module
from cutwater.adapters.topics.candidates import parents_needed
from cutwater.core.errors import UnavailableError, UsageError
from cutwater.core.generations.candidates import Candidates, fold_candidates
from cutwater.core.protocol import topics
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Milestone
from support.protocol_samples import JOB, milestone

FIRST, SECOND = Generation(1, "local"), Generation(2, "local", "00000002")
PARENT = replace(milestone(1), generation=FIRST)
CLAIM = Claim(JOB, SECOND, protocol_records.encode(PARENT), 2, 0, "", 0)
CLUSTER = Cluster("127.0.0.1:1")


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics that the brokers say they have; empty as of a broker that has just started."""
    found = [topics.candidates(JOB), topics.milestones(JOB), "other.events"]

    def asked(_: Cluster, names: list[str]) -> dict[str, None]:
        return {name: None for name in names if name in found}

    def last(*_: object) -> Milestone | None:
        if topics.milestones(JOB) not in found:
            raise UsageError("no such topic")
        return PARENT

    monkeypatch.setattr(module, "descriptions", asked)
    monkeypatch.setattr(module, "names", lambda _: [*found])
    monkeypatch.setattr(module, "promoted", last)
    monkeypatch.setattr(module, "candidates", lambda *_: fold_candidates([CLAIM]))
    return found


def test_what_a_claim_starts_from_is_needed(known: list[str]) -> None:
    assert parents_needed(CLUSTER, JOB, FIRST) == {PARENT.sequence}
    assert parents_needed(CLUSTER, JOB, SECOND) == frozenset()
    known.remove(topics.milestones(JOB))
    assert parents_needed(CLUSTER, JOB, FIRST) == {PARENT.sequence}, "which are promoted is not known"


def test_brokers_that_know_no_topic_of_the_job_do_not_say_that_nothing_is_needed(known: list[str]) -> None:
    """The parent's snapshot would be deleted, and the generation that was claimed could not start."""
    known[:] = ["other.events"]
    with pytest.raises(UnavailableError, match=f"know no topic of job {JOB}"):
        parents_needed(CLUSTER, JOB, FIRST)


def test_a_broker_that_knows_no_candidates_yet_beside_one_that_does_is_not_believed(
    known: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that has just started answers the first question, a complete one the second."""
    monkeypatch.setattr(module, "descriptions", lambda *_: {})
    assert topics.candidates(JOB) in known
    with pytest.raises(UnavailableError, match=f"differ on whether {topics.candidates(JOB)} exists"):
        parents_needed(CLUSTER, JOB, FIRST)


def test_a_job_without_claims_needs_nothing(known: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It has never had a candidate, or the caller may not read them."""
    known.remove(topics.candidates(JOB))
    assert parents_needed(CLUSTER, JOB, FIRST) == frozenset()
    known.append(topics.candidates(JOB))

    def refused(*_: object) -> Candidates:
        raise UsageError("not authorized")

    monkeypatch.setattr(module, "candidates", refused)
    assert parents_needed(CLUSTER, JOB, FIRST) == frozenset()
