"""`cutwater.testing` on this machine, as its users have it: the example project passes, and says what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutwater.core.errors import UsageError
from cutwater.testing import embedded
from support.example_project import EXAMPLE, run_pytest


@pytest.mark.slow
def test_the_example_project_passes() -> None:
    ran = run_pytest()
    assert ran.returncode == 0, ran.stdout
    assert "2 passed" in ran.stdout


@pytest.mark.slow
def test_a_project_without_a_job_file_is_told_what_to_define(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_one(cutwater_job):\n    pass\n")
    ran = run_pytest(folder=tmp_path)
    assert ran.returncode == 1
    assert "define the fixture cutwater_job_file in your conftest.py" in ran.stdout


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("CUTWATER_PORT", "8321", "CUTWATER_PORT is set by cutwater.testing"),
        ("CUTWATER_TRIGER_MS", "1", "CUTWATER_TRIGER_MS is not a setting"),
        ("CUTWATER_HEARTBEAT_MS", "soon", "CUTWATER_HEARTBEAT_MS: .*valid integer"),
    ],
)
def test_settings_that_cannot_be_given_are_refused_before_anything_starts(
    name: str, value: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said), embedded(EXAMPLE / "orders.yaml", settings={name: value}):
        pass
