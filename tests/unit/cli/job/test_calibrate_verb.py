"""The file that `cutwater calibrate` writes is one that `cutwater size` reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from typer.testing import CliRunner

from cutwater.adapters.config.figure_files import read_figures
from cutwater.cli.job.calibrate import machine_text
from cutwater.cli.main import app
from cutwater.core.sizing.machine import Machine


def test_a_machine_s_file_is_read_back(tmp_path: Path) -> None:
    """To four digits, and without what is as by default."""
    machine = replace(Machine(), cores=16, memory_gb=64.2, event_us=3.14159, row_us=1234.5678, commit_ms=88)
    path = tmp_path / "machine.yaml"
    path.write_text(machine_text(machine))
    assert read_figures(path, Machine) == replace(machine, event_us=3.142, row_us=1235)
    assert "epoch_ms" not in path.read_text()
    path.write_text(machine_text(Machine()))
    assert read_figures(path, Machine) == Machine()


def test_an_existing_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "machine.yaml").write_text("cores: 4\n")
    done = CliRunner().invoke(app, ["calibrate", "--out", str(tmp_path / "machine.yaml")])
    assert done.exit_code == 2
    assert "--force" in done.output
