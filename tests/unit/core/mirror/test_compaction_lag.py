"""By which compaction lag a copy goes: by one that was said a moment ago, or by none."""

from __future__ import annotations

from cutwater.core.mirror.compaction_lag import FRESH_S, HELD_S, CompactionLagLease
from cutwater.core.mirror.copy_progress import NEVER_MS
from cutwater.mirror.topics.config_sync import LOOK_S

DAY_MS, TEN_MINUTES_MS = 86_400_000, 600_000


def waits(one: CompactionLagLease, now_s: float) -> bool:
    """Does what comes right now?"""
    return one.must_wait(now_s, now_s)


def test_nothing_waits_while_brokers_answer() -> None:
    """The mirror asks every ten seconds, and an answer may take some."""
    assert LOOK_S + 4 < FRESH_S
    one = CompactionLagLease(DAY_MS, 100.0)
    for asked_s in (110.0, 120.0, 130.0):
        assert not waits(one, asked_s + 4)  # the question before counts
        assert not one.update(DAY_MS, asked_s)
        assert not waits(one, asked_s + 4)
    assert one.lag_ms == DAY_MS


def test_after_an_outage_what_has_come_waits_for_the_lag_of_now() -> None:
    """Three hours later the origin may have shortened it, and its compaction have begun."""
    one = CompactionLagLease(DAY_MS, 0.0)
    back_s = 3 * 3600.0
    assert waits(one, back_s)
    assert waits(one, back_s + 3)
    assert one.update(TEN_MINUTES_MS, back_s + 2)
    assert not waits(one, back_s + 4)
    assert one.lag_ms == TEN_MINUTES_MS


def test_what_was_read_before_the_outage_waits_for_nothing() -> None:
    """It is here, and compaction there takes nothing of it: the origin may be gone for good."""
    one = CompactionLagLease(DAY_MS, 0.0)
    assert not one.must_wait(FRESH_S, 1e6)
    assert (one.lag_ms, one.unknown) == (DAY_MS, False)
    assert one.must_wait(FRESH_S + 1, 1e6)


def test_when_the_question_began_counts_and_not_when_it_was_answered() -> None:
    """One that hung all the outage long says how it was before."""
    one = CompactionLagLease(DAY_MS, 0.0)
    one.update(DAY_MS, 10.0)
    assert waits(one, 10.0 + FRESH_S + 1)
    one.update(DAY_MS, 5.0)  # an older one, answered later
    assert not waits(one, 10.0 + FRESH_S)


def test_it_does_not_wait_for_ever() -> None:
    """Brokers that let the topic be read and do not say its settings: then nothing counts as spared."""
    one = CompactionLagLease(DAY_MS, 0.0)
    assert one.must_wait(None, 1000.0), "nothing has come, and so nothing waits: an outage is no time of waiting"
    assert waits(one, 2000.0)
    assert waits(one, 2000.0 + HELD_S - 1)
    assert not waits(one, 2000.0 + HELD_S)
    assert (one.lag_ms, one.unknown) == (0, True)
    assert not one.must_wait(None, 9000.0), "copying on, it waits no more"
    one.update(DAY_MS, 9001.0)
    assert one.lag_ms == 0, "what is being written was taken before this was asked"
    assert not waits(one, 9002.0)
    assert (one.lag_ms, one.unknown) == (DAY_MS, False)
    assert waits(one, 9002.0 + FRESH_S), "and the next time it waits again"


def test_a_longer_lag_counts_from_the_next_start() -> None:
    one = CompactionLagLease(DAY_MS, 0.0)
    assert one.update(TEN_MINUTES_MS, 1.0)
    assert one.lag_ms == TEN_MINUTES_MS, "a shorter one counts at once"
    assert not one.update(DAY_MS, 2.0)
    assert not waits(one, 3.0)
    assert one.lag_ms == TEN_MINUTES_MS


def test_what_is_not_compacted_waits_for_nothing() -> None:
    one = CompactionLagLease(NEVER_MS, 0.0)
    assert not waits(one, 1e9)
    assert one.lag_ms == NEVER_MS
    assert one.update(TEN_MINUTES_MS, 1e9), "until it is"
    assert waits(one, 2e9)


def test_how_old_an_answer_is_and_that_it_is_one() -> None:
    one = CompactionLagLease(1_000, 40.0)
    assert one.old_s(47.5) == 7.5
    assert not one.unknown


def test_the_age_of_the_last_question() -> None:
    """The mirror logs it: the time from the question to now."""
    assert CompactionLagLease(DAY_MS, 100.0).old_s(130.0) == 30.0
    assert not CompactionLagLease(DAY_MS, 100.0).unknown
