"""The pipeline's picture: each stage's state, and unknown figures that stay unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cutwater.core.console.pipeline import ALERT, BEHIND, OK, UNKNOWN, Names, pipeline
from cutwater.core.monitoring.alert_rules import Limits
from cutwater.core.monitoring.alerts import Alert
from cutwater.core.monitoring.job_status import JobStatus, Reader
from support.protocol_samples import GENERATION, JOB, barrier, milestone

NAMES = Names("flights.events", "flights.changelog.g1", "flights.output")
NEWEST = replace(milestone(4), sequence=5, committed_ms=50_000)
NOW_MS = 60_000
WORKS = JobStatus(
    JOB,
    GENERATION,
    attempt=2,
    spoke_ms=59_000,
    processed=replace(barrier(4), written_ms=49_000, epoch_started_ms=47_500),
    committed=NEWEST,
    confirmed=4,
    waiting=0,
    publisher=Reader(5, 50_200),
    view=Reader(5, 50_100),
)


def shown(status: JobStatus, limits: Limits | None = None, *more: Alert) -> dict[str, Any]:
    return pipeline(status, limits or Limits(), NAMES, NOW_MS, more)


def states(found: dict[str, Any]) -> dict[str, str]:
    return {one["id"]: one["state"] for one in found["stages"]}


def link(found: dict[str, Any], end: str) -> dict[str, Any]:
    return next(one for one in found["links"] if one["to"] == end)


def silent(part: str) -> Alert:
    return Alert(JOB, GENERATION, "silent", part, "watch", 1, None, 5, 7, "it does not move")


def test_a_job_in_step_is_ok_everywhere() -> None:
    found = shown(WORKS)
    assert set(states(found).values()) == {OK}
    assert list(states(found)) == ["source", "driver", "changelog", "commit-signal", "view", "publisher", "output"]
    assert found["milestone"]["token"] == f"{GENERATION}:5"
    assert found["milestone"]["age_ms"] == 10_000
    assert link(found, "changelog")["ms"] == 1_500


def test_a_job_that_publishes_nothing_has_no_output() -> None:
    found = shown(WORKS, Limits(publishes=False))
    assert list(states(found)) == ["source", "driver", "changelog", "commit-signal", "view"]
    assert {one["to"] for one in found["links"]} == {"driver", "changelog", "commit-signal", "view"}


@pytest.mark.parametrize(
    ("changes", "stage", "state"),
    [
        ({"waiting": 10_000}, "driver", BEHIND),
        ({"waiting": 500}, "driver", OK),
        ({"waiting": None}, "driver", UNKNOWN),
        ({"processed": replace(barrier(7), written_ms=59_000)}, "commit-signal", BEHIND),
        ({"processed": replace(barrier(5), written_ms=59_000)}, "commit-signal", OK),
        ({"view": None}, "view", UNKNOWN),
        ({"view": Reader(4, 50_100)}, "view", OK),
        ({"view": Reader(2, 50_100)}, "view", BEHIND),
        ({"publisher": Reader(1, 50_100)}, "publisher", BEHIND),
        ({"alerts": {("silent", "publisher"): silent("publisher")}}, "publisher", ALERT),
    ],
)
def test_a_stage_is_behind_by_its_own_link(changes: dict[str, Any], stage: str, state: str) -> None:
    assert states(shown(replace(WORKS, **changes)))[stage] == state


def test_before_the_first_epoch_figures_are_unknown() -> None:
    """Null, and never 0: nothing is known of a driver that has not started."""
    found = shown(JobStatus(JOB, GENERATION))
    assert found["milestone"] is None
    assert [link(found, end)["behind"] for end in ("driver", "changelog", "commit-signal", "view")] == [None] * 4
    assert states(found)["driver"] == UNKNOWN


def test_alerts_of_the_stack_are_shown_too() -> None:
    """A process that ends again and again is on no topic."""
    found = shown(WORKS, None, silent("rehydrator"))
    assert states(found)["view"] == ALERT
    assert [(one["kind"], one["part"]) for one in found["alerts"]] == [("silent", "rehydrator")]
