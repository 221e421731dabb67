"""An earlier generation goes only when it was left long ago, and nothing needs what it wrote."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.generations.candidates import Candidate, Candidates
from cutwater.core.generations.retention import GenerationFacts, is_superseded, retention_reason
from cutwater.core.protocol.generation import Generation
from cutwater.core.protocol.records import Claim

GENERATIONS = [Generation(1, "local"), *(Generation(number, "local", f"{number:08x}") for number in range(2, 8))]
FIRST, SECOND, THIRD, FOURTH, FIFTH, *_ = GENERATIONS


def claimed(*generations: Generation, **withdrawn_ms: int) -> Candidates:
    found = {}
    for one in generations:
        candidate = Candidate(Claim("job", one, b"", 2, 0, "", 0))
        at_ms = withdrawn_ms.get(f"g{one.number}")
        found[one] = candidate if at_ms is None else replace(candidate, withdrawn="no", withdrawn_ms=at_ms)
    return Candidates(found)


NOW = GenerationFacts(
    promoted=FOURTH,
    since=FOURTH,
    since_ms=1_000,
    known=claimed(SECOND, THIRD, FOURTH),
    parents={SECOND: FIRST, THIRD: SECOND, FOURTH: THIRD},
    output=FOURTH,
)


def test_what_was_left_long_ago_goes() -> None:
    """All before but the parent of the promoted one."""
    kept = {one: retention_reason(one, NOW) for one in (FIRST, SECOND, THIRD, FOURTH)}
    assert kept == {
        FIRST: None,
        SECOND: None,
        THIRD: f"{FOURTH} was started from one of its milestones",
        FOURTH: "it is promoted",
    }


def test_a_fork_stays_until_it_is_given_up() -> None:
    """A generation that came back from another region may have gone back behind what was committed here."""
    claims = dict(NOW.known.by_id)
    claims[THIRD] = Candidate(Claim("job", THIRD, b"", 2, 7, "", 0, origin="eu"))
    now = NOW._replace(known=Candidates(claims))
    assert f"{THIRD} came back from another region" in (retention_reason(FIRST, now) or "")
    assert retention_reason(FIRST, now._replace(keep_forks=False)) is None
    claims[THIRD] = Candidate(Claim("job", THIRD, b"", 2, 0, "", 0, origin="eu"))
    assert retention_reason(FIRST, now._replace(known=Candidates(claims))) is None, (
        "this region had no milestone before"
    )


def test_a_fork_is_left_by_what_comes_after_it_alone() -> None:
    """What came back from another region went on before the generations that follow it here."""
    claims = dict(NOW.known.by_id)
    claims[SECOND] = Candidate(Claim("job", SECOND, b"", 2, 7, "", 0, origin="eu"))
    now = NOW._replace(known=Candidates(claims), parents={})
    assert f"{SECOND} came back from another region" in (retention_reason(FIRST, now) or "")
    assert retention_reason(SECOND, now) is None, "its own return is no reason to keep it"
    assert retention_reason(THIRD, now) is None


def test_what_was_left_lately_stays() -> None:
    """Of what was promoted when the time began all that comes before was left by then, and nothing else."""
    then = NOW._replace(since=SECOND)
    assert retention_reason(FIRST, then) is None
    assert "replaced too recently" in (retention_reason(SECOND, then) or "")
    assert "replaced too recently" in (retention_reason(FIRST, NOW._replace(since=None)) or "")


def test_each_reader_is_a_reason() -> None:
    assert "FIRST" not in (retention_reason(FIRST, NOW) or "")
    assert "output has not moved on" in (retention_reason(SECOND, NOW._replace(output=SECOND)) or "")
    assert retention_reason(FIRST, NOW._replace(output=SECOND)) is None
    assert "mirror" in (retention_reason(FIRST, NOW._replace(arrived=frozenset({FIRST}))) or "")
    assert "3 snapshots" in (retention_reason(FIRST, NOW._replace(snapshots={str(FIRST): 3})) or "")


def test_candidates_and_their_parents_stay() -> None:
    """One that was given up goes when that was long ago, and its parent with it."""
    coming = NOW._replace(known=claimed(FOURTH, FIFTH), parents={FOURTH: THIRD, FIFTH: FIRST})
    assert retention_reason(FIFTH, coming) == "it is a candidate"
    assert str(FIFTH) in (retention_reason(FIRST, coming) or "")
    given_up = coming._replace(known=claimed(FOURTH, FIFTH, g5=999))
    assert retention_reason(FIFTH, given_up) is None
    assert retention_reason(FIRST, given_up) is None
    lately = coming._replace(known=claimed(FOURTH, FIFTH, g5=1_000))
    assert "replaced too recently" in (retention_reason(FIFTH, lately) or "")


def test_a_claim_with_the_number_of_the_promoted_one_comes_no_more() -> None:
    """Another region may have used it too: neither it nor its parent stays for a promotion."""
    rival = replace(FOURTH, region="eu", parent="0badcafe")
    now = NOW._replace(known=claimed(SECOND, FOURTH, rival), parents={FOURTH: THIRD, rival: FIRST})
    assert retention_reason(FIRST, now) is None
    assert "is a candidate" not in (retention_reason(rival, now) or "")


@given(
    st.integers(0, 6),
    st.none() | st.integers(0, 6),
    st.dictionaries(st.sampled_from(GENERATIONS[1:]), st.sampled_from(GENERATIONS)),
    st.none() | st.sampled_from(GENERATIONS),
)
def test_what_is_needed_never_goes(
    promoted: int, since: int | None, parents: dict[Generation, Generation], output: Generation | None
) -> None:
    """The promoted one, candidates, their parents, the output's, and what was at work within the time."""
    now = GenerationFacts(
        promoted=GENERATIONS[promoted],
        since=None if since is None else GENERATIONS[min(since, promoted)],
        since_ms=1_000,
        known=claimed(*parents),
        parents=parents,
        output=output,
    )
    gone = {one for one in GENERATIONS if retention_reason(one, now) is None}
    open_ones = {one for one in parents if one.number > now.promoted.number}
    needed = {now.promoted, *open_ones, *(parents[one] for one in {now.promoted, *open_ones} & parents.keys())}
    needed |= {output} if output else set()
    assert not gone & needed
    assert all(now.since is not None and one.number < now.since.number for one in gone)


def test_a_generation_is_left_behind_by_a_later_one_alone() -> None:
    """And nothing is known before anything is promoted, or of a topic that is no changelog."""
    assert is_superseded(FIRST, SECOND)
    assert not is_superseded(SECOND, SECOND)
    assert not is_superseded(THIRD, SECOND)
    assert not is_superseded(FIRST, None)
    assert not is_superseded(None, SECOND)
