"""That a topic does not exist is believed once it was said for long enough, without a break."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.util.topic_absence import TopicAbsence

BELIEVED_S = 20.0
SAID, BROKEN = True, False


def test_one_answer_is_not_believed() -> None:
    """A broker that is just back knows no topic for a moment."""
    absences = TopicAbsence(BELIEVED_S)
    assert not absences.record_missing("t", 0.0)
    absences.reset("t")
    assert not absences.record_missing("t", 100.0), "an hour later it says so once more: that is another absence"
    assert not absences.record_missing("t", 119.9)
    assert absences.record_missing("t", 120.0)
    assert not absences.record_missing("other", 120.0), "each topic by itself"


@given(st.lists(st.tuples(st.floats(0, 30), st.sampled_from([SAID, BROKEN]))))
def test_it_is_believed_exactly_when_nothing_has_broken_it_for_so_long(steps: list[tuple[float, bool]]) -> None:
    absences, now, since = TopicAbsence(BELIEVED_S), 0.0, None
    for after, what in steps:
        now += after
        if what is BROKEN:
            absences.reset("t")
            since = None
        else:
            since = now if since is None else since
            assert absences.record_missing("t", now) == (now - since >= BELIEVED_S)
