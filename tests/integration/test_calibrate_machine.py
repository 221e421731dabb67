"""`cutwater calibrate` on this machine, with less work than users give it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutwater.adapters.config.settings import load_settings
from cutwater.local.calibration import run
from cutwater.local.calibration.jobs import JOBS

pytestmark = pytest.mark.slow


@pytest.mark.timeout(900)
def test_the_costs_explain_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each phase has the events and rows that it was made for; a cost is above 0 where it is most of the work."""
    monkeypatch.setattr(run, "ROUND", tuple(_less(one) for one in run.ROUND))
    found = run.calibrate(load_settings(), tmp_path / "work", print)
    assert len(found.phases) == len(JOBS) * len(run.ROUND)
    for phase, load in zip(found.phases, run.ROUND * len(JOBS), strict=True):
        assert phase.events == (load.events or round(load.rate * load.seconds))
        assert phase.driver_s > 0
        assert phase.view_s > 0
        assert (phase.rows > 20_000) == (load.keys == run.MANY_KEYS)
    machine = found.machine
    assert machine.row_us > 0
    assert machine.epoch_ms > 0
    assert machine.epoch_wall_ms > 0
    assert machine.epoch_gap_ms > 0
    assert 1 < machine.start_s < 300
    assert machine.commit_ms > 0


def _less(load: run.Load) -> run.Load:
    return load._replace(events=40_000) if load.events else load._replace(seconds=4.0)
