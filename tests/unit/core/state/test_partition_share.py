"""Which view holds which partition, and what a milestone proves of a part."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.errors import DivergenceError, UsageError
from cutwater.core.protocol.changelog_rows import fold, signed
from cutwater.core.state.backlog import mismatch
from cutwater.core.state.partition_share import (
    Proof,
    held_by,
    owners,
    partition_faults,
    proof_of,
    require_whole_once,
)
from support.protocol_samples import milestone

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
PEERS = st.lists(st.from_regex(r"http://[a-z]{1,9}:8321", fullmatch=True), min_size=1, max_size=8, unique=True)


@given(PEERS, st.integers(8, 200), st.randoms())
def test_every_partition_has_one_owner_and_loads_are_even(
    peers: list[str], partitions: int, random: Random
) -> None:
    """All peers compute the same, in whatever order they are written; loads differ by one at most."""
    found = owners(peers, partitions)
    shuffled = random.sample(peers, len(peers))
    assert owners(shuffled, partitions) == found
    loads = Counter(found)
    assert len(found) == partitions
    assert set(loads) == set(peers)
    assert max(loads.values()) - min(loads.values()) <= 1
    held = [held_by(peer, found) for peer in peers]
    assert frozenset().union(*held) == frozenset(range(partitions))
    assert sum(map(len, held)) == partitions


def test_a_peer_more_leaves_most_partitions_where_they_are() -> None:
    """A store whose partitions change is built anew: so few should change."""
    before = owners([f"http://view-{number}:8321" for number in range(4)], 64)
    after = owners([f"http://view-{number}:8321" for number in range(5)], 64)
    moved = sum(one != other for one, other in zip(before, after, strict=True))
    assert moved <= 32  # 13 must; dealing them out in turn would move 50


@pytest.mark.parametrize(
    ("peers", "says"),
    [(["http://a", "http://a"], "named twice"), (["http://a", "http://b", "http://c"], "3 peers cannot share 2")],
)
def test_peers_that_cannot_share(peers: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        owners(peers, 2)


def test_a_peer_that_is_none_of_them() -> None:
    with pytest.raises(UsageError, match="none of http://a, http://b"):
        held_by("http://c", owners(["http://a", "http://b"], 2))


@given(
    st.lists(st.tuples(st.integers(0, 9), LONGS), min_size=1, max_size=9),
    st.data(),
)
def test_the_proof_of_parts(parts: list[tuple[int, int]], data: st.DataObject) -> None:
    """Parts that divide the partitions prove together what the milestone proves."""
    rows, digests = zip(*parts, strict=True)
    one = replace(
        milestone(1),
        rows=sum(rows),
        digest=signed(fold(digests)),
        partition_rows=rows,
        partition_digests=digests,
    )
    some = data.draw(st.sets(st.integers(0, len(parts) - 1)))
    others = set(range(len(parts))) - some
    proofs = [proof_of(one, frozenset(part)) for part in (some, others) if part]
    assert sum(proof.rows for proof in proofs) == one.rows
    assert signed(fold(proof.digest for proof in proofs)) == one.digest
    assert proof_of(one, None) == (one.rows, one.digest)


def test_a_part_that_the_milestone_does_not_know() -> None:
    one = replace(milestone(1), partition_rows=(1, 2), partition_digests=(3, 4))
    with pytest.raises(DivergenceError, match="proves 2 partitions, but partition 2 is needed"):
        proof_of(one, frozenset({2}))


def test_a_mismatch_names_the_partitions() -> None:
    one = replace(milestone(1), partition_rows=(1, 2), partition_digests=(3, 4))
    assert mismatch(one, 2, 4, frozenset({1})) is None
    assert "partitions 1) says 2 rows with digest 4, but the changelog holds 1" in str(
        mismatch(one, 1, 4, frozenset({1}))
    )


def test_a_fault_is_told_with_partition_and_offsets() -> None:
    one = replace(milestone(1), partition_rows=(2, 0, 5), partition_digests=(7, 0, 9))
    bounds = {0: (4, 6), 1: (3, 3), 2: (10, 15)}
    assert partition_faults("rows", one, bounds, {0: Proof(2, 7), 1: Proof(0, 0), 2: Proof(4, 1)}) == [
        "rows/2, offsets 10 to 14: 4 rows with digest 1, and the milestone says 5 with digest 9"
    ]
    assert partition_faults("rows", one, bounds, {0: Proof(2, 7), 1: Proof(1, 1), 2: Proof(5, 9)}) == [
        "rows/1, no offset: 1 rows with digest 1, and the milestone says 0 with digest 0"
    ]


def test_where_no_partition_is_proved_all_that_was_read_is_named() -> None:
    """A milestone of an early version, and a range that is too large for a second read."""
    one = replace(milestone(1), partition_rows=(2, 0), partition_digests=(7, 0))
    bounds = {0: (4, 6), 1: (3, 3), 2: (10, 11)}
    named = ["The rows were read from rows/0, offsets 4 to 5; rows/2, offset 10"]
    assert partition_faults("rows", one, bounds, None) == named
    assert partition_faults("rows", one, bounds, dict.fromkeys(bounds, Proof(0, 0))) == named


def test_a_second_read_that_finds_all_as_it_should_be_says_so() -> None:
    one = replace(milestone(1), partition_rows=(2,), partition_digests=(7,))
    (said,) = partition_faults("rows", one, {0: (4, 6)}, {0: Proof(2, 7)})
    assert said.startswith("A second read found the rows of each partition")
    assert said.endswith("rows/0, offsets 4 to 5")


def test_views_hold_each_partition_exactly_once() -> None:
    """One with all of them, or several with parts."""
    require_whole_once({"a": None}, 2)
    require_whole_once({"a": frozenset({0}), "b": frozenset({1})}, 2)
    with pytest.raises(UsageError, match="no peer holds partition 1: name all peers"):
        require_whole_once({"a": frozenset({0})}, 2)
    with pytest.raises(UsageError, match="a and b both hold partition 1"):
        require_whole_once({"a": None, "b": frozenset({1})}, 2)
