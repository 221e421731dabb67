"""How large the state is: exact sums, and the largest keys within the error that is stated."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.state.size_census import LARGEST_KEYS, Heaviest, Size, Tally

runs = st.lists(
    st.tuples(st.integers(-3, 3), st.integers(0, 3), st.sampled_from("abcdefghij"), st.integers(1, 5)),
    max_size=200,
)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 1_000)), max_size=400), st.integers(1, 20))
def test_the_heaviest_are_known_within_the_error(added: list[tuple[int, int]], most: int) -> None:
    """Never too much, too little by the error at most; and the error is less than the sum divided by the bound."""
    sketch, truth = Heaviest(most), Counter[str]()
    for name, weight in added:
        sketch.add(str(name), weight)
        truth[str(name)] += weight
        assert len(sketch) <= 2 * most
    assert sketch.error * most <= truth.total()
    said = dict(sketch.first(len(truth)))
    for name, weight in truth.items():
        assert weight - sketch.error <= said.get(name, 0) <= weight
    if len(truth) <= 2 * most:
        assert (sketch.error, said) == (0, dict(truth))


@given(runs, st.integers(2, 30))
def test_sums_are_exact_however_few_keys_are_held(found: list[tuple[int, int, str, int]], held: int) -> None:
    """By segment and by shard, and in total; of the keys the largest come first."""
    tally, segments, shards = Tally(held), Counter[int](), Counter[int]()
    for segment, shard, key, rows in found:
        tally.add(segment, shard, key, rows, 10 * rows)
        segments[segment] += rows
        shards[shard] += rows
    sizes = tally.sizes()
    assert sizes.total == Size(segments.total(), 10 * segments.total())
    assert sizes.segments == {at: Size(rows, 10 * rows) for at, rows in segments.items()}
    assert sizes.shards == {at: Size(rows, 10 * rows) for at, rows in shards.items()}
    assert len(sizes.largest) <= LARGEST_KEYS
    assert [one.bytes for one in sizes.largest] == sorted((one.bytes for one in sizes.largest), reverse=True)


def test_what_is_taken_from_all_is_the_weight_of_the_first_that_is_not_to_be_known() -> None:
    """Of one name to be known it is the second's: the third has none left, and the error is that weight."""
    sketch = Heaviest(1)
    for name, weight in (("a", 5), ("b", 3), ("c", 1)):
        sketch.add(name, weight)
    assert (sketch.first(9), sketch.error) == ([("a", 2)], 3)
