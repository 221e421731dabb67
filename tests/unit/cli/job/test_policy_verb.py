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


def test_what_is_kept_is_shown_with_its_bytes_and_price(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that is broken costs the exit code, and so does one about what nobody knows."""
    policy, prices = tmp_path / "policy.yaml", tmp_path / "prices.yaml"
    load = "loads: {flights: {events_per_second: 5000, keys: 3000}}\n"
    prices.write_text("currency: EUR\ndisk_gb_month: 0.08\nobject_gb_month: 0.02\n")
    policy.write_text(f"lifecycle: {{streams: {{keep: {{at_most: 60d}}}}}}\n{load}")
    done = check(JOB_FILE, "--policy", str(policy), "--prices", str(prices), "--json")
    assert done.exit_code == 0, done.output
    told = {one["resource"]: one for one in parsed(["policy", "check"], done.stdout) if one["resource"]}
    assert list(told) == ["changelog", "generations", "output", "lists", "streams", "snapshots", "total"]
    kept = [one for name, one in told.items() if name != "total"]
    assert told["total"]["bytes"] == pytest.approx(sum(one["bytes"] for one in kept), abs=10)
    assert told["total"]["monthly_cost"] == pytest.approx(sum(one["monthly_cost"] for one in kept), abs=0.05)
    monkeypatch.setenv("CUTWATER_KEEP_STREAMS_HOURS", "2000")
    worse = check(JOB_FILE, "--policy", str(policy), "--prices", str(prices))
    assert worse.exit_code == 1
    assert "CUTWATER_KEEP_STREAMS_HOURS" in worse.output
    policy.write_text("lifecycle: {total: {cost: {at_most: 1000}}}\n")
    assert "unknown without a load" in check(JOB_FILE, "--policy", str(policy)).output
    policy.write_text(f"lifecycle: {{total: {{cost: {{at_most: 1000}}}}}}\n{load}")
    unpriced = check(JOB_FILE, "--policy", str(policy))
    assert (unpriced.exit_code, "give --prices" in unpriced.output) == (1, True)
    assert check(JOB_FILE, "--policy", str(policy), "--prices", str(prices)).exit_code == 0


def test_plan_warns_of_a_broken_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policy.yaml").write_text("shards: {at_least: 4096}\n")
    monkeypatch.setenv("CUTWATER_POLICY", str(tmp_path / "policy.yaml"))
    done = CliRunner().invoke(app, ["plan", JOB_FILE, "--data-dir", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    assert any("shards is 1,024" in one for one in parsed(["plan"], done.stdout)["warnings"])
