"""`cutwater policy check`, and the verbs that read CUTWATER_POLICY."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cutwater.cli.main import app
from support.cli.jsonshapes import parsed

ROOT = Path(__file__).parents[4]
JOB_FILE = str(ROOT / "deploy/jobs/flights.yaml")


def check(*words: str) -> Any:
    return CliRunner().invoke(app, ["policy", "check", *words])


def test_jobs_that_keep_a_policy_and_one_that_does_not(tmp_path: Path) -> None:
    kept = check(JOB_FILE, "--policy", str(ROOT / "deploy/policy.yaml"), "--json")
    assert (kept.exit_code, [one["level"] for one in parsed(["policy", "check"], kept.stdout)]) == (0, ["ok"])
    (tmp_path / "policy.yaml").write_text("lateness: {at_most: 1h}\n")
    told = check(JOB_FILE, JOB_FILE, "--policy", str(tmp_path / "policy.yaml"))
    assert told.exit_code == 1
    assert told.output.count("lateness is 2d") == 2
    none = check(JOB_FILE, "--policy", str(tmp_path / "none.yaml"))
    assert none.exit_code == 2


def test_plan_warns_of_a_broken_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policy.yaml").write_text("shards: {at_least: 4096}\n")
    monkeypatch.setenv("CUTWATER_POLICY", str(tmp_path / "policy.yaml"))
    done = CliRunner().invoke(app, ["plan", JOB_FILE, "--data-dir", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    assert any("shards is 1,024" in one for one in parsed(["plan"], done.stdout)["warnings"])
