"""Lag and recovery from looks, against a job whose course is known."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from cutwater.core.chaos.plan import CUT, KILL, STOP, ChaosPlan, Fault, overlaps
from cutwater.core.chaos.recovery import Look, lags, reactions
from cutwater.core.chaos.report import chaos_page

RATE = 100


def course(stalls: list[tuple[int, int]], seconds: int = 100, alert_s: int = 5) -> list[Look]:
    """A look each second at a job that reads nothing while it stalls, and everything at once behind it."""
    looks, read, since = [], 0, 0
    for at in range(seconds):
        stalled = any(first <= at < end for first, end in stalls)
        since = since + 1 if stalled else 0
        read = read if stalled else at * RATE
        alerts = frozenset({"stuck-epoch/driver"} if since >= alert_s else ())
        looks.append(Look(float(at), at * RATE, read, alerts))
    return looks


def plan(*faults: Fault, bound_s: float = 3, recovery_s: float = 20) -> ChaosPlan:
    return ChaosPlan(100, bound_s, recovery_s, faults)


def test_the_lag_is_the_time_since_the_source_had_as_much() -> None:
    found = lags(course([(20, 31)]))
    assert [round(one) for one in found[18:33]] == [0, 0, *range(11), 0, 0]


@given(st.integers(1, 80), st.integers(1, 15))
def test_a_stall_is_recovered_from_at_its_end(first: int, long: int) -> None:
    """The fault is a kill, so all of the stall counts; a bound that is never passed needs a new milestone only."""
    looks = course([(first, first + long)])
    (found,) = reactions(plan(Fault(KILL, "driver", float(first))), looks)
    assert found.recovered_s == long
    assert found.in_time
    assert found.lag_max_s == max(0, long - 1)
    assert found.alerted_s == (4 if long >= 5 else None)


def test_what_lasts_counts_from_its_end() -> None:
    (found,) = reactions(plan(Fault(STOP, "driver", 20, 10)), course([(20, 34)]))
    assert (found.recovered_s, found.alert, found.alerted_s) == (4, "stuck-epoch/driver", 4)


def test_a_job_that_stays_behind_has_not_recovered() -> None:
    (found,) = reactions(plan(Fault(KILL, "driver", 50)), course([(50, 200)]))
    assert (found.recovered_s, found.in_time) == (None, False)
    slow = plan(Fault(KILL, "driver", 50), recovery_s=5)
    assert not reactions(slow, course([(50, 60)]))[0].in_time


def test_each_fault_has_its_own_alert() -> None:
    """One that is active already is none of the next fault, unless it was resolved and is raised again."""
    faults = plan(Fault(KILL, "driver", 10), Fault(KILL, "publisher", 18), Fault(KILL, "driver", 50))
    found = reactions(faults, course([(10, 30), (50, 60)]))
    assert [one.alert for one in found] == ["stuck-epoch/driver", "", "stuck-epoch/driver"]


def test_brokers_that_do_not_answer_are_no_recovery() -> None:
    looks = [one._replace(answers=not 20 <= one.at_s < 40) for one in course([])]
    (found,) = reactions(plan(Fault(KILL, "broker", 20)), looks)
    assert found.recovered_s == 20


def test_faults_of_one_process_do_not_overlap() -> None:
    assert overlaps([Fault(STOP, "driver", 10, 5), Fault(STOP, "driver", 15, 5), Fault(KILL, "watch", 12)]) == []
    (why,) = overlaps([Fault(STOP, "driver", 10, 5), Fault(KILL, "driver", 14)])
    assert "'kill driver' at 14 s begins within 'stop driver for 5 s' at 10 s" in why


def test_the_page_shows_each_fault_and_loads_nothing() -> None:
    faults = plan(Fault(KILL, "driver", 10), Fault(STOP, "broker", 50, 10))
    looks = course([(10, 30), (50, 62)])
    page = chaos_page("a<b", faults, looks, reactions(faults, looks), ["1 < 2 rows"])
    assert page.count("<rect") == 2
    assert "kill driver" in page
    assert "stop broker for 10 s" in page
    assert "a&lt;b" in page
    assert "1 &lt; 2 rows" in page
    assert not re.search(r"(src|href)=|https?://|<script", page)


def test_a_link_is_recovered_from_once_the_other_region_has_followed() -> None:
    """Its lag counts, and not the job's, which has none."""
    looks = [one._replace(region_lag_s=max(0.0, min(one.at_s, 45) - 20)) for one in course([])]
    looks = [one._replace(region_lag_s=0.5 if one.at_s > 45 else one.region_lag_s) for one in looks]
    (found,) = reactions(plan(Fault(CUT, "link", 20, 20)), looks)
    assert (found.recovered_s, found.lag_max_s, found.in_time) == (6, 25, True)


def test_a_milestone_that_was_under_way_is_no_recovery() -> None:
    """It follows the kill at once; then nothing does, until the job is back."""
    looks = [one._replace(read=2_050) if 21 <= one.at_s < 71 else one for one in course([(20, 71)])]
    (found,) = reactions(plan(Fault(KILL, "driver", 20)), looks)
    assert (found.recovered_s, found.in_time) == (51, False)


def test_what_the_next_fault_does_is_not_of_the_one_before() -> None:
    faults = plan(Fault(KILL, "driver", 20), Fault(KILL, "driver", 40))
    first, second = reactions(faults, course([(20, 25), (40, 90)]))
    assert (first.recovered_s, first.in_time) == (5, True)
    assert (second.recovered_s, second.in_time) == (50, False)


def test_a_lag_of_the_next_fault_may_begin_before_it() -> None:
    """What was not read yet when it came."""
    late = [one._replace(read=max(0, one.read - RATE)) for one in course([(20, 36), (40, 60)])]
    first, _ = reactions(plan(Fault(KILL, "driver", 20), Fault(KILL, "driver", 40)), late)
    assert (first.recovered_s, first.in_time) == (16, True)
