"""The tree of generations: what wrote the stream, what was claimed, and from which milestone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.console.generation_tree import Reigns, tree
from cutwater.core.generations.candidates import Candidates, fold_candidates
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Decision, Milestone, Promotion, Reopening, Withdrawal
from support.protocol_samples import GENERATION, JOB, OTHER, milestone

THIRD = Generation(3, "local", "00c0ffee")


def claim(generation: Generation, **changes: Any) -> Claim:
    told: dict[str, Any] = {"job": JOB, "generation": generation, "parent": b"", "partitions": 8, "rewinds_to": 0}
    return Claim(**told | {"reason": "more partitions", "at_ms": 70_000} | changes)


def stream(*generations: Generation) -> Reigns:
    found = Reigns()
    for sequence, one in enumerate(generations, 1):
        found.take(replace(milestone(sequence), sequence=sequence, generation=one, committed_ms=1_000 * sequence))
    return found


def node(found: dict[str, Any], generation: Generation) -> dict[str, Any]:
    return next(one for one in found["generations"] if one["id"] == str(generation))


@given(st.lists(st.sampled_from([GENERATION, OTHER, THIRD]), max_size=30).map(sorted))
def test_reigns_are_contiguous_and_count_each_milestone_once(order: list[Generation]) -> None:
    found = stream(*order)
    again = [replace(milestone(1), sequence=at, generation=one) for at, one in enumerate(order, 1)]
    for one in again:
        found.take(one)
    assert sum(one.milestones for one in found.by_id.values()) == len(order)
    assert all(one.last_sequence - one.first_sequence + 1 == one.milestones for one in found.by_id.values())
    assert found.current == (order[-1] if order else None)


def test_a_first_generation_is_a_root_and_current() -> None:
    found = tree(stream(GENERATION, GENERATION).by_id, Candidates(), {})
    assert found["current"] == str(GENERATION)
    only = node(found, GENERATION)
    assert (only["state"], only["parent"], only["claim"]) == ("current", None, None)
    assert (only["reign"]["first_sequence"], only["reign"]["last_sequence"]) == (1, 2)


def test_a_candidate_is_below_its_parent_with_its_claim() -> None:
    parent = replace(milestone(1), sequence=2)
    own = replace(milestone(3), generation=OTHER, source_cut=Cut.of_topic("flights.events", [500, 400]))
    found = tree(stream(GENERATION).by_id, fold_candidates([claim(OTHER), own]), {OTHER: parent})
    made = node(found, OTHER)
    assert (made["state"], made["parent"], made["parent_token"]) == (
        "candidate",
        str(GENERATION),
        f"{GENERATION}:2",
    )
    assert made["claim"]["epoch"] == 3
    assert made["claim"]["events_since_parent"] == 520
    assert made["claim"]["partitions"] == 8


def test_the_states_of_claims() -> None:
    """Requested, given up, overtaken by a later one that was promoted, and promoted itself."""
    reigns = stream(GENERATION, OTHER).by_id
    later = Generation(4, "local", "00000004")
    records = [claim(OTHER), claim(THIRD), claim(later), Promotion(JOB, THIRD, 1), Withdrawal(JOB, later, "no", 2)]
    found = tree(reigns, fold_candidates(records), {})
    assert [node(found, one)["state"] for one in (GENERATION, OTHER, THIRD, later)] == [
        *("replaced", "current", "promoting", "aborted")
    ]
    overtaken = tree(stream(GENERATION, THIRD).by_id, fold_candidates([claim(OTHER)]), {})
    assert node(overtaken, OTHER)["state"] == "replaced"


def test_a_fork_names_its_region_and_the_line_that_counts() -> None:
    region: Milestone = replace(milestone(1), generation=Generation(1, "us"), sequence=9)
    records = [
        claim(OTHER, origin="us", rewinds_to=4),
        Reopening(JOB, OTHER, 5, Cut(), 6),
        Decision(JOB, OTHER, str(OTHER), "ours", 7),
    ]
    found = tree(stream(GENERATION).by_id, fold_candidates(records), {OTHER: region})
    made = node(found, OTHER)["claim"]
    assert (made["origin"], made["rewinds_to"], made["decision"]) == ("us", 4, str(OTHER))
    assert made["counts_late_events"]
    assert node(found, Generation(1, "us"))["reign"] is None
