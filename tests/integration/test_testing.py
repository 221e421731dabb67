"""`cutwater.testing` on this machine, as its users have it: the example project passes, and says what it lacks."""

from __future__ import annotations

from pathlib import Path

from example_project import run_pytest


def test_the_example_project_passes() -> None:
    ran = run_pytest()
    assert ran.returncode == 0, ran.stdout
    assert "2 passed" in ran.stdout


def test_a_project_without_a_job_file_is_told_what_to_define(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_one(cutwater_job):\n    pass\n")
    ran = run_pytest(folder=tmp_path)
    assert ran.returncode == 1
    assert "define the fixture cutwater_job_file in your conftest.py" in ran.stdout
