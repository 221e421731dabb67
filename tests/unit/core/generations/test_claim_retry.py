"""A start or a rollback that is asked for again: which claim it goes on with, over plain values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutwater.core.generations.candidates import EarlierClaim, fold_candidates
from cutwater.core.generations.claim_retry import ClaimRequest, find_earlier_claim, may_be_gone_on_with
from cutwater.core.generations.late_replay import Opening
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import (
    Canary,
    Candidacy,
    Claim,
    FileText,
    Milestone,
    Promotion,
    Redefinition,
    Reopening,
    Withdrawal,
)
from support.protocol_samples import JOB, milestone, source_cut

OLD, LAST = replace(milestone(3), sequence=3), replace(milestone(5), sequence=5)
SECOND, THIRD = (Generation(number, "local", f"{number:08x}") for number in (2, 3))
PARTITIONS = len(LAST.changelog_cut)


def claim(parent: Milestone = LAST, back: int = 0, generation: Generation = SECOND, **changes: object) -> Claim:
    made = Claim(JOB, generation, bytes([parent.sequence]), PARTITIONS, back, "", 0)
    return replace(made, **changes)  # type: ignore[arg-type]


def parent_of(one: Claim) -> Milestone:
    return {OLD.sequence: OLD, LAST.sequence: LAST}[one.parent[0]]


def found(wish: ClaimRequest, *records: Candidacy, last: Milestone = LAST) -> EarlierClaim | None:
    return find_earlier_claim(wish, fold_candidates(records), last, parent_of)


ANY, WIDE = ClaimRequest(None, None, rewinds=False), ClaimRequest(None, PARTITIONS + 1, rewinds=False)
BACK = ClaimRequest(OLD, None, rewinds=True)


def test_the_same_words_go_on_with_the_open_claim() -> None:
    """Without a token of any parent of this line: the newest was another one then. Of several the newest claim."""
    assert found(ANY) is None
    assert found(ANY, claim()) == EarlierClaim(claim(), done=False)
    assert found(ANY, claim(OLD)) == EarlierClaim(claim(OLD), done=False)
    assert found(ClaimRequest(LAST, PARTITIONS, rewinds=False), claim()) == EarlierClaim(claim(), done=False)
    assert found(ANY, claim(), claim(generation=THIRD)) == EarlierClaim(claim(generation=THIRD), done=False)
    assert found(BACK, claim(OLD, 3)) == EarlierClaim(claim(OLD, 3), done=False)


@pytest.mark.parametrize(
    ("wish", "other"),
    [
        (ClaimRequest(OLD, None, rewinds=False), claim()),
        (WIDE, claim()),
        (ANY, claim(partitions=PARTITIONS + 1)),
        (ANY, claim(LAST, 5)),
        (BACK, claim(OLD)),
        (BACK, claim(LAST, 5)),
        (ANY, claim(origin="us")),
    ],
)
def test_other_words_claim_another(wish: ClaimRequest, other: Claim) -> None:
    """Another parent, other partitions, a rollback where none was, none where one was, or a failover's."""
    assert found(wish, other) is None


def test_late_events_go_on_only_with_a_claim_that_counts_them() -> None:
    """An ordinary start never goes on with such a claim, nor one for late events with an ordinary one."""
    cut = source_cut(7)
    wish = ClaimRequest(LAST, None, rewinds=False, opened=Opening(20, source_cut(9), cut))
    opened = Reopening(JOB, SECOND, 20, cut, 0)
    assert found(wish, claim(), opened) == EarlierClaim(claim(), done=False)
    assert found(wish, claim()) is None
    assert found(ANY, claim(), opened) is None
    assert found(wish, claim(), replace(opened, source_cut=source_cut(6))) is None, "later ones came"
    both = (claim(), claim(generation=THIRD), replace(opened, generation=THIRD))
    assert found(ANY, *both) == EarlierClaim(claim(), done=False)


def test_what_may_not_follow_is_gone_on_with_by_nobody() -> None:
    """Given up, overtaken, or of a line that ended."""
    assert found(ANY, claim(), Withdrawal(JOB, SECOND, "why", 0)) is None
    assert found(BACK, claim(OLD, 3), last=replace(LAST, generation=THIRD)) is None
    assert found(ANY, claim(generation=THIRD), last=replace(LAST, generation=SECOND)) is None


def test_a_rollback_that_is_promoted_is_done() -> None:
    """Nothing was promoted behind it: the state is what was asked for. A start from there is another wish."""
    there = replace(LAST, generation=SECOND)
    assert found(BACK, claim(OLD, 3), Promotion(JOB, SECOND, 0), last=there) == EarlierClaim(
        claim(OLD, 3), done=True
    )
    assert found(ANY, claim(), Promotion(JOB, SECOND, 0), last=there) is None


def test_another_one_that_is_being_promoted_goes_first() -> None:
    """Two candidates cannot both follow."""
    both = fold_candidates([claim(), claim(generation=THIRD), Promotion(JOB, THIRD, 0)])
    asked = both.promoting_behind(LAST)
    assert may_be_gone_on_with(EarlierClaim(claim(generation=THIRD), done=False), asked)
    assert not may_be_gone_on_with(EarlierClaim(claim(), done=False), asked)
    assert may_be_gone_on_with(EarlierClaim(claim(), done=False), None)


def test_another_job_file_is_another_wish() -> None:
    """The claim goes on with the one that carries the same texts; a wish without one never with such a claim."""
    one, two = (FileText("job.yaml", "1"),), (FileText("job.yaml", "2"),)
    redefined = Redefinition(JOB, SECOND, "", one, 0, 0)
    assert found(ANY._replace(files=one), claim(), redefined) == EarlierClaim(claim(), done=False)
    assert found(ANY._replace(files=two), claim(), redefined) is None
    assert found(ANY, claim(), redefined) is None
    assert found(ANY._replace(files=one), claim()) is None


def test_a_canary_is_another_wish() -> None:
    """Its driver ends its epochs where the promoted one has, which it decides when it starts."""
    canary = Canary(JOB, SECOND, 10, 0, 0.0, 0, 0)
    assert found(ANY._replace(compares=True), claim(), canary) == EarlierClaim(claim(), done=False)
    assert found(ANY, claim(), canary) is None
    assert found(ANY._replace(compares=True), claim()) is None
