"""That a topic does not exist is believed once it was said for long enough, without a break."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.util.topic_absence import Absences

BELIEVED_S = 20.0
SAID, BROKEN = True, False


def test_one_answer_is_not_believed() -> None:
    """A broker that is just back knows no topic for a moment."""
    absences = Absences(BELIEVED_S)
    assert not absences.said("t", 0.0)
    absences.broken("t")
    assert not absences.said("t", 100.0), "an hour later it says so once more: that is another absence"
    assert not absences.said("t", 119.9)
    assert absences.said("t", 120.0)
    assert not absences.said("other", 120.0), "each topic by itself"


@given(st.lists(st.tuples(st.floats(0, 30), st.sampled_from([SAID, BROKEN]))))
def test_it_is_believed_exactly_when_nothing_has_broken_it_for_so_long(steps: list[tuple[float, bool]]) -> None:
    absences, now, since = Absences(BELIEVED_S), 0.0, None
    for after, what in steps:
        now += after
        if what is BROKEN:
            absences.broken("t")
            since = None
        else:
            since = now if since is None else since
            assert absences.said("t", now) == (now - since >= BELIEVED_S)
