"""A plan carried out beside a job whose looks are known: what ends a run, and what is no result."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.adapters.kafka.client_config import Cluster
from cutwater.core.chaos.plan import KILL, ChaosPlan, Fault, LoadWish
from cutwater.core.chaos.recovery import Look
from cutwater.core.errors import UnavailableError
from cutwater.core.load.load_draw import NO_FLAWS
from cutwater.core.load.rate_profile import RateProfile
from cutwater.core.sizing.skew import KeySkew
from cutwater.local.chaos import observation, run
from cutwater.local.chaos.target import ChaosTarget
from cutwater.operations.load_sender import Delivery
from support.views.changelogs import make_job

NOWHERE = Cluster("127.0.0.1:9")
LOAD = LoadWish(RateProfile(10.0), KeySkew(10), NO_FLAWS)


class Course(observation.Observation):
    """Looks at a job that has read what was produced three looks later."""

    produced, looked = 0, 0

    def _take(self, before: Look) -> Look:
        type(self).looked += bool(self.produced)
        return Look(self.now_s, self.produced, self.produced if self.looked > 3 else 0, frozenset())


@pytest.fixture
def course(monkeypatch: pytest.MonkeyPatch) -> type[Course]:
    monkeypatch.setattr(run, "Observation", Course)
    monkeypatch.setattr(observation, "LOOK_S", 30.0)
    monkeypatch.setattr(Course, "produced", 0)
    monkeypatch.setattr(Course, "looked", 0)
    return Course


def carried_out(folder: Path, *faults: Fault, make: Any = lambda _fault, _span: 1) -> run.ChaosResult:
    job, job_file = make_job(folder / "job")
    plan = ChaosPlan(0.2, 1.0, 1.0, faults, None if faults else LOAD)
    target = ChaosTarget(NOWHERE, job_file, "")
    return run.run_chaos(plan, target, make, job, Settings(), lambda _line: None)


def test_a_job_has_caught_up_with_what_was_produced_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, course: type[Course]
) -> None:
    """The newest look may be older than the load's last events."""

    def send(*_: object) -> Delivery:
        monkeypatch.setattr(course, "produced", 10)
        return Delivery({"plain": 10}, 0.1, 0.0)

    monkeypatch.setattr(run, "send_load", send)
    found = carried_out(tmp_path)
    assert (found.produced, found.caught_up) == (10, True)
    assert found.looks[-1].read == 10


def test_a_load_that_fails_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, course: type[Course]
) -> None:
    """Whatever the error is: its thread has nobody else to tell it."""

    def send(*_: object) -> Delivery:
        raise RuntimeError("a bug")

    monkeypatch.setattr(run, "send_load", send)
    with pytest.raises(RuntimeError, match="a bug"):
        carried_out(tmp_path)


def test_a_fault_that_fails_is_no_result(tmp_path: Path, course: type[Course]) -> None:
    """Its own error is told, and not that nothing ran."""

    def make(_fault: Fault, _span: object) -> int:
        raise PermissionError("not yours")

    with pytest.raises(PermissionError, match="not yours"):
        carried_out(tmp_path, Fault(KILL, "driver", 0.0), make=make)


def test_a_load_that_does_not_end_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, course: type[Course]
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(run, "send_load", lambda *_: ended.wait(60))
    monkeypatch.setattr(run, "LONGER_S", 0.2)
    monkeypatch.setattr(run, "JOIN_S", 0.2)
    with pytest.raises(UnavailableError, match="the load has not ended"):
        carried_out(tmp_path)
    ended.set()


def test_looks_come_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, course: type[Course]) -> None:
    """From two threads: one that began earlier must not come later, with fewer events."""
    monkeypatch.setattr(observation, "LOOK_S", 0.001)
    began, goes_on = threading.Event(), threading.Event()

    def take(self: Course, _before: Look) -> Look:
        at_s, count = self.now_s, len(self.looks)
        if threading.current_thread().name == "observation" and not goes_on.is_set():
            began.set()
            goes_on.wait(1)
        return Look(at_s, count, count, frozenset())

    monkeypatch.setattr(course, "_take", take)
    with course(NOWHERE, make_job(tmp_path / "job")[0]) as seen:
        began.wait(10)
        seen.look()
        goes_on.set()
        seen.look()
    assert [one.produced for one in seen.looks] == [*range(len(seen.looks))]
