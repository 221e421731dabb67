"""Where a canary's epochs end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.canary.alignment import BEHIND_MAX, LiveCuts
from cutwater.core.protocol.cuts import Cut
from support.protocol_samples import JOB

STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30)


def cut(*offsets: int) -> Cut:
    return Cut.of_topic(JOB, offsets)


@given(STEPS, st.tuples(st.integers(0, 5), st.integers(0, 5)), st.integers(1, 3))
def test_it_never_goes_back_and_meets_each_cut_it_can(
    steps: list[tuple[int, int]], begin: tuple[int, int], most: int
) -> None:
    """Whatever a limit of rows leaves of an epoch: from the first cut that it meets on, it meets every one."""
    cuts, live, at = LiveCuts(), list[Cut](), (0, 0)
    for one, two in steps:
        at = at[0] + one, at[1] + two
        live.append(cut(*at))
        cuts.add(live[-1])
    position, met = cut(*begin), list[Cut]()
    for _ in range(200):
        end = cuts.next(position)
        assert end.covers(position)
        if end == position:
            break
        assert end in live
        # Spark reads at most so many events of each partition.
        position = Cut.of(
            {place: min(offset, position.offset(place) + most) for place, offset in end.as_dict().items()}
        )
        if position in live:
            met.append(position)
    wanted = [one for number, one in enumerate(live) if one.covers(cut(*begin)) and one not in live[:number]]
    assert met == [one for one in wanted if one != cut(*begin)]


def test_far_behind_it_goes_to_the_newest() -> None:
    cuts = LiveCuts()
    for number in range(BEHIND_MAX + 2):
        cuts.add(cut(number))
    assert cuts.next(cut(0)) == cut(BEHIND_MAX + 1)
    assert cuts.next(cut(1)) == cut(2)


def test_it_waits_while_no_cut_is_past_it() -> None:
    cuts = LiveCuts()
    cuts.add(cut(5, 1))
    assert cuts.next(cut(3, 2)) == cut(3, 2)
    cuts.add(cut(6, 2))
    assert cuts.next(cut(3, 2)) == cut(6, 2)
