"""What has changed between two looks at logs."""

from __future__ import annotations

import pytest

from cutwater.adapters.topics.log_evidence import LogState
from cutwater.core.protocol.cuts import TopicPartition
from cutwater.core.protocol.log_evidence import UNKNOWN, LogEnd

FIRST, SECOND = TopicPartition("events", 0), TopicPartition("events", 1)


def state(first: int, second: int = 3, topic_id: str = "one") -> LogState:
    return LogState({"events": topic_id}, {FIRST: LogEnd(9, first), SECOND: LogEnd(9, second)})


@pytest.mark.parametrize(
    ("now", "changed"),
    [
        (state(3), []),
        (state(4), [0]),
        (state(4, 4), [0, 1]),
        (state(UNKNOWN), []),
        (state(3, topic_id="other"), [0, 1]),
    ],
    ids=["the same", "one leader", "both leaders", "nobody knows", "another topic"],
)
def test_new_leaders_and_new_topics_are_named(now: LogState, changed: list[int]) -> None:
    said = now.changes_since(state(3), [FIRST, SECOND])
    assert [one.split()[0] for one in said] == [f"events/{number}" for number in changed]


def test_nothing_has_changed_since_nobody_looked() -> None:
    """The first epoch of an attempt: its consumers have fetched nothing yet. Nor of a partition that is new."""
    assert state(3).changes_since(LogState({}, {}), [FIRST]) == []
    assert state(4).changes_since(LogState({"events": "one"}, {SECOND: LogEnd(9, 3)}), [FIRST]) == []
    assert state(4).changes_since(state(3), [SECOND]) == []
