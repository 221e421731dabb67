"""The tree of generations: what wrote the stream, what was claimed, and from which milestone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.console.generation_tree import Reigns, tree
from cutwater.core.console.held_promotions import held_promotions
from cutwater.core.generations.candidates import Candidates, fold_candidates
from cutwater.core.generations.holds import make_hold, make_release
from cutwater.core.protocol.cuts import Cut
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim, Decision, Milestone, Promotion, Reopening, Withdrawal
from support.protocol_samples import GENERATION, JOB, OTHER, milestone

THIRD = Generation(3, "local", "00c0ffee")
NOW_MS = 100_000


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
    found = tree(stream(GENERATION, GENERATION).by_id, Candidates(), {}, NOW_MS)
    assert found["current"] == str(GENERATION)
    only = node(found, GENERATION)
    assert (only["state"], only["parent"], only["claim"]) == ("current", None, None)
    assert (only["reign"]["first_sequence"], only["reign"]["last_sequence"]) == (1, 2)


def test_a_candidate_is_below_its_parent_with_its_claim() -> None:
    parent = replace(milestone(1), sequence=2)
    own = replace(milestone(3), generation=OTHER, source_cut=Cut.of_topic("flights.events", [500, 400]))
    found = tree(stream(GENERATION).by_id, fold_candidates([claim(OTHER), own]), {OTHER: parent}, NOW_MS)
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
    found = tree(reigns, fold_candidates(records), {}, NOW_MS)
    assert [node(found, one)["state"] for one in (GENERATION, OTHER, THIRD, later)] == [
        *("replaced", "current", "promoting", "aborted")
    ]
    overtaken = tree(stream(GENERATION, THIRD).by_id, fold_candidates([claim(OTHER)]), {}, NOW_MS)
    assert node(overtaken, OTHER)["state"] == "replaced"


def test_a_fork_names_its_region_and_the_line_that_counts() -> None:
    region: Milestone = replace(milestone(1), generation=Generation(1, "us"), sequence=9)
    records = [
        claim(OTHER, origin="us", rewinds_to=4),
        Reopening(JOB, OTHER, 5, Cut(), 6),
        Decision(JOB, OTHER, str(OTHER), "ours", 7),
    ]
    found = tree(stream(GENERATION).by_id, fold_candidates(records), {OTHER: region}, NOW_MS)
    made = node(found, OTHER)["claim"]
    assert (made["origin"], made["rewinds_to"], made["decision"]) == ("us", 4, str(OTHER))
    assert made["counts_late_events"]
    assert node(found, Generation(1, "us"))["reign"] is None


def test_a_hold_is_shown_while_it_lasts() -> None:
    """With who, why and until when; one that was released, has ended, or is of a remedy is not."""
    hold = make_hold(JOB, OTHER, 3_600_000, "alice", "dead letters", NOW_MS)
    shown = {"by": "alice", "reason": "dead letters", "since_ms": NOW_MS, "until_ms": NOW_MS + 3_600_000}
    reigns = stream(GENERATION).by_id

    def of(now_ms: int, *records: Any, asked: Claim = claim(OTHER)) -> Any:  # noqa: B008
        known = fold_candidates([asked, *records])
        found = node(tree(reigns, known, {}, now_ms), OTHER)["claim"]["hold"]
        (held,) = held_promotions(known, GENERATION, now_ms) or [None]
        assert (held and {name: held[name] for name in shown}) == found
        return found

    assert of(NOW_MS + 1, hold) == shown
    assert of(NOW_MS + 3_600_000, hold) is None
    assert of(NOW_MS + 2, hold, make_release(JOB, OTHER, "bob", "", NOW_MS + 1)) is None
    assert of(NOW_MS + 1, hold, asked=claim(OTHER, rewinds_to=1)) is None
    endless = replace(hold, until_ms=NOW_MS + 10**12)
    assert of(NOW_MS + 1, endless)["until_ms"] == NOW_MS + 86_400_000


def test_a_hold_of_an_overtaken_candidate_holds_nothing() -> None:
    """And a held one says whether its promotion is requested."""
    known = fold_candidates(
        [claim(OTHER), claim(THIRD), Promotion(JOB, THIRD, 1)]
        + [make_hold(JOB, one, 3_600_000, "watch", "", NOW_MS) for one in (OTHER, THIRD)]
    )
    every = held_promotions(known, GENERATION, NOW_MS + 1)
    assert [(one["generation"], one["requested"]) for one in every] == [(str(OTHER), False), (str(THIRD), True)]
    assert [one["generation"] for one in held_promotions(known, OTHER, NOW_MS + 1)] == [str(THIRD)]
    assert held_promotions(known, THIRD, NOW_MS + 1) == []
