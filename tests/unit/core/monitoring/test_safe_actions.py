"""What watch does by itself: only what is allowed, never too soon, never twice, and never too often."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutwater.core.monitoring import alerts
from cutwater.core.monitoring.alerts import HOLD, PAUSE_MIRROR, RESTART, SAFE_ACTIONS, SHED, Alert, Key
from cutwater.core.monitoring.disk_forecast import Disk, Forecast, FreeSpace
from cutwater.core.monitoring.job_status import JobStatus, Reader
from cutwater.core.monitoring.safe_actions import (
    DOUBTFUL,
    HOLD_MS,
    HOUR_MS,
    HOURLY_MAX,
    PAUSE_WITHIN_MS,
    PROCESS_OF,
    SHED_MOST_MS,
    ActionRules,
    SafeAction,
    decide_action,
)
from support.protocol_samples import GENERATION, JOB, OTHER

NOW = 100 * HOUR_MS
ALL = ActionRules(frozenset(SAFE_ACTIONS), after_ms=300_000, apart_ms=1_800_000, origin="us", trigger_ms=500)
TARGETS = ((RESTART, "driver"), (RESTART, "commit-signal"), (SHED, "driver"))
STUCK: Key = (alerts.STUCK_EPOCH, alerts.DRIVER)
FULL: Key = (alerts.FILLING_DISK, alerts.DATA_FOLDER)
SLOW: Key = (alerts.SLOWER, alerts.SIGNAL)
FULL_SOON = Disk(1_000, FreeSpace(NOW, 500), (), (Forecast(PAUSE_WITHIN_MS - 1.0, HOUR_MS),))


def state(*keys: Key, since_ms: int = NOW - 300_000, **known: Any) -> JobStatus:
    """A job with these alerts on since then, a view that follows, and a disk that is full soon."""
    on = {key: Alert(JOB, GENERATION, *key, "watch", since_ms, None, 1, 0, "") for key in keys}
    more = {"view": Reader(sequence=5), "disks": {alerts.DATA_FOLDER: FULL_SOON}, **known}
    return replace(JobStatus(JOB, GENERATION), alerts=on, **more)


@pytest.mark.parametrize(
    ("key", "kind", "target", "value"),
    [
        *((key, RESTART, process, 0) for key, process in PROCESS_OF.items()),
        (FULL, PAUSE_MIRROR, "us", 0),
        ((alerts.FILLING_DISK, alerts.BROKERS), PAUSE_MIRROR, "us", 0),
        (SLOW, SHED, "driver", 2_000),
        ((alerts.GROWING_DRIFT, alerts.SIGNAL), SHED, "driver", 2_000),
        *(((kind, "any"), HOLD, str(OTHER), HOLD_MS) for kind in DOUBTFUL),
    ],
)
def test_each_alert_has_its_action(key: Key, kind: str, target: str, value: int) -> None:
    """If it is allowed, and not without."""
    known = {"candidate": OTHER}
    found = decide_action(state(key, **known), ALL, [], NOW)
    assert found is not None
    assert (found.kind, found.target, found.value) == (kind, target, value)
    assert found.alert == f"{JOB}/{key[0]}/{key[1]}/{NOW - 300_000}"
    assert decide_action(state(key, **known), replace(ALL, allowed=ALL.allowed - {kind}), [], NOW) is None


@pytest.mark.parametrize("key", [(alerts.SKEW, alerts.SOURCE), (alerts.OLD_SNAPSHOT, alerts.VIEW)])
def test_of_other_alerts_nothing_follows(key: Key) -> None:
    assert decide_action(state(key, candidate=OTHER), ALL, [], NOW) is None


@pytest.mark.parametrize("kind", DOUBTFUL)
def test_without_a_candidate_there_is_nothing_to_hold(kind: str) -> None:
    assert decide_action(state((kind, "any")), ALL, [], NOW) is None


@pytest.mark.parametrize("key", [STUCK, (alerts.SILENT, alerts.SIGNAL), SLOW])
def test_what_a_hand_over_may_cure_holds_none(key: Key) -> None:
    """Only its own action follows, also where that was done already."""
    done = [SafeAction(kind, target, f"{JOB}/{key[0]}/{key[1]}/{NOW - 300_000}", 0) for kind, target in TARGETS]
    assert decide_action(state(key, candidate=OTHER), ALL, done, NOW) is None


def test_by_default_nothing_is_done() -> None:
    every = state(*PROCESS_OF, FULL, SLOW, since_ms=0)
    assert decide_action(every, ActionRules(), [], NOW) is None


def test_an_alert_gets_time_to_end_by_itself() -> None:
    assert decide_action(state(STUCK, since_ms=NOW - 299_999), ALL, [], NOW) is None


def test_an_alert_that_has_ended_leads_to_nothing() -> None:
    known = state(STUCK)
    ended = {key: replace(one, resolved_ms=NOW) for key, one in known.alerts.items()}
    assert decide_action(replace(known, alerts=ended), ALL, [], NOW) is None


def test_a_view_that_restores_is_left_alone() -> None:
    """A restart would begin the restore again, each time."""
    silent: Key = (alerts.SILENT, alerts.VIEW)
    assert decide_action(state(silent, view=Reader(sequence=0)), ALL, [], NOW) is None
    assert decide_action(state(silent, view=None), ALL, [], NOW) is None


def test_a_mirror_goes_on_while_there_is_time() -> None:
    """It is paused only if a disk is full within two hours, or nearly full, and if there is one."""
    later = replace(FULL_SOON, forecasts=(Forecast(float(PAUSE_WITHIN_MS), HOUR_MS),))
    assert decide_action(state(FULL, disks={"a": later}), ALL, [], NOW) is None
    nearly = Disk(1_000, FreeSpace(NOW, 29))
    assert decide_action(state(FULL, disks={"a": nearly}), ALL, [], NOW) is not None
    assert decide_action(state(FULL), replace(ALL, origin=""), [], NOW) is None


def test_what_did_not_help_is_not_repeated() -> None:
    """For one alert, however long it is on."""
    known = state(STUCK)
    first = decide_action(known, ALL, [], NOW)
    assert first is not None
    assert decide_action(known, ALL, [first], NOW + 50 * HOUR_MS) is None
    again = state(STUCK, since_ms=NOW + HOUR_MS)
    assert decide_action(again, ALL, [first], NOW + 2 * HOUR_MS) is not None


def test_of_two_alerts_of_one_process_one_is_acted_on() -> None:
    known = state(STUCK, (alerts.SILENT, alerts.DRIVER))
    first = decide_action(known, ALL, [], NOW)
    assert first is not None
    assert decide_action(known, ALL, [first], NOW + ALL.apart_ms - 1) is None


def test_the_cadence_has_an_end() -> None:
    done: list[SafeAction] = []
    for number in range(5):
        at_ms = NOW + number * 10 * HOUR_MS
        found = decide_action(state(SLOW, since_ms=at_ms - HOUR_MS), ALL, done, at_ms)
        done += [found] if found else []
    assert [one.value for one in done] == [2_000, 8_000, SHED_MOST_MS]


STEPS = st.lists(
    st.tuples(
        st.integers(-HOUR_MS // 2, 2 * HOUR_MS),
        st.sets(st.sampled_from([*PROCESS_OF, FULL, SLOW]), max_size=4),
        st.sets(st.sampled_from([*PROCESS_OF, FULL, SLOW]), max_size=2),
    ),
    max_size=40,
)


@given(STEPS, st.frozensets(st.sampled_from(SAFE_ACTIONS)))
@settings(max_examples=200, deadline=None)
def test_over_any_history_the_bounds_hold(
    steps: list[tuple[int, set[Key], set[Key]]], allowed: frozenset[str]
) -> None:
    """Alerts come and go, the clock is set back, watch starts again: it is the list of actions that counts."""
    rules, now, done = replace(ALL, allowed=allowed), NOW, list[SafeAction]()
    known: dict[Key, Alert] = {}
    for after_ms, raised, resolved in steps:
        now = max(0, now + after_ms)
        for key in raised - known.keys():
            known[key] = Alert(JOB, GENERATION, *key, "watch", now, None, 1, 0, "")
        for key in resolved:
            known.pop(key, None)
        for _look in range(3):
            found = decide_action(replace(state(), alerts=known), rules, done, now)
            if found is not None:
                assert found.kind in allowed
                done.append(found)
    for at, one in enumerate(done):
        earlier = done[:at]
        assert not any(other.kind == one.kind and other.alert == one.alert for other in earlier)
        same = [other for other in earlier if (other.kind, other.target) == (one.kind, one.target)]
        assert all(abs(one.at_ms - other.at_ms) >= rules.apart_ms for other in same)
        assert sum(abs(one.at_ms - other.at_ms) < HOUR_MS for other in earlier) < HOURLY_MAX
