"""When brokers are taken for away, by plain moments."""

from __future__ import annotations

from cutwater.core.util.liveness import AGAIN_S, QUIET_S, BrokerLiveness


def test_who_is_heard_is_not_asked() -> None:
    """Records are an answer; a question is due only after a time without any."""
    contact = BrokerLiveness(100.0)
    for moment in range(101, 110):
        assert not contact.due(float(moment))
        assert contact.record_answer(float(moment)) is None
    assert contact.due(109.0 + QUIET_S)


def test_two_questions_without_an_answer_mean_away_and_that_is_told_once() -> None:
    """Since when is the moment in which they were heard last; back, they tell how long it was."""
    contact = BrokerLiveness(100.0)
    assert contact.record_timeout(103.0) is False
    assert not contact.away
    assert not contact.due(103.0 + AGAIN_S / 2)
    assert contact.due(103.0 + AGAIN_S)
    assert contact.record_timeout(105.0) is True
    assert [contact.record_timeout(105.0 + later) for later in range(50)] == [False] * 50
    assert (contact.away, contact.heard_s) == (True, 100.0)
    assert contact.record_answer(160.0) == 60.0
    assert contact.record_answer(161.0) is None
    assert not contact.away


def test_one_question_without_an_answer_means_nothing() -> None:
    """A process that stood still has connections that broke: the next question finds a new one."""
    contact = BrokerLiveness(100.0)
    for _ in range(5):
        assert contact.record_timeout(500.0) is False
        assert contact.record_answer(501.0) is None
