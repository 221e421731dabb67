"""The digest: one number for a set of rows, whatever order they arrive in."""

from __future__ import annotations

from functools import reduce
from operator import xor

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.protocol.changelog_rows import fold, signed

UNSIGNED = st.integers(0, 2**64 - 1)


@given(st.lists(UNSIGNED), st.randoms(use_true_random=False))
def test_order_does_not_matter(hashes: list[int], random: object) -> None:
    """Partitions deliver in any order; the digest is the same."""
    shuffled = sorted(hashes, key=lambda _: random.random())  # type: ignore[attr-defined]
    assert fold(hashes) == fold(shuffled) == reduce(xor, hashes, 0)


@given(st.lists(UNSIGNED), st.lists(UNSIGNED))
def test_a_digest_can_be_continued(one: list[int], other: list[int]) -> None:
    """The digest of a union is the fold of the second set started at the first's, signed or not."""
    assert fold(one + other) == fold(other, start=fold(one)) == fold(other, start=signed(fold(one)))


@given(st.lists(UNSIGNED))
def test_signed_hashes_give_the_same_number(hashes: list[int]) -> None:
    """Spark's hashes are signed, xxhash's are not."""
    assert fold(signed(one) for one in hashes) == fold(hashes)


@given(UNSIGNED)
def test_signed_is_twos_complement(value: int) -> None:
    """The signed form has the same 64 bits, so Avro's long can carry it."""
    assert -(2**63) <= signed(value) < 2**63
    assert signed(value) % 2**64 == value
    assert signed(signed(value)) == signed(value)


def test_no_rows_have_digest_zero() -> None:
    """An empty epoch's digest is 0, as Spark's coalesce makes it."""
    assert fold([]) == 0


@given(st.lists(UNSIGNED, min_size=1, unique=True), st.data())
def test_a_lost_row_shows(hashes: list[int], data: st.DataObject) -> None:
    """Leaving out one row changes the digest, unless its hash is 0."""
    lost = data.draw(st.integers(0, len(hashes) - 1))
    rest = hashes[:lost] + hashes[lost + 1 :]
    assert (fold(rest) != fold(hashes)) == (hashes[lost] != 0)
