"""`cutwater size` as users see it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cutwater.cli.main import app
from support.cli.jsonshapes import parsed
from support.pages import ROOT

JOB = str(ROOT / "deploy/jobs/flights.yaml")


def size(*options: str) -> str:
    done = CliRunner().invoke(app, ["size", JOB, "--wide", *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_calculations_are_shown_if_asked_for() -> None:
    plain, explained = size("--events-per-second", "50000"), size("--events-per-second", "50000", "--explain")
    assert "driver_cores" in plain
    assert "events/s at the peak" not in plain
    assert "100,000 events/s at the peak" in explained
    assert "simulated at the peak" in plain or "is never read" in plain
    assert "warning: max_events_per_epoch is" in plain


def test_a_price_list_prices_each_amount_of_a_month(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text("currency: EUR\ncore_hour: 1\nregion_gb: 1\n")
    listed = size("--mirror", "--prices", str(tmp_path / "prices.yaml"))
    assert "cost EUR" in listed
    assert "in all" in listed
    assert "cost" not in size("--mirror")
    found = parsed(["size"], size("--mirror", "--prices", str(tmp_path / "prices.yaml"), "--json"))
    priced = {one["name"]: one["cost"] for one in found["month"] if one["cost"]}
    assert set(priced) == {"cores", "to the other region"}
    assert found["currency"] == "EUR"


def test_a_machine_s_own_figures_count(tmp_path: Path) -> None:
    (tmp_path / "machine.yaml").write_text("event_us: 4000\n")
    usual, slow = (
        {one["name"]: one["value"] for one in json.loads(size("--json", *more))["figures"]}
        for more in ((), ("--machine", str(tmp_path / "machine.yaml")))
    )
    assert slow["driver_cores"] > usual["driver_cores"]
    (tmp_path / "machine.yaml").write_text("evnt_us: 40\n")
    done = CliRunner().invoke(app, ["size", JOB, "--machine", str(tmp_path / "machine.yaml")])
    assert done.exit_code == 2
    assert "did you mean 'event_us'" in " ".join(done.output.split())


@pytest.mark.parametrize("option", ["--zipf=-1", "--peak=0.5", "--recovery=0", "--keys=0", "--copies=11"])
def test_options_have_bounds(option: str) -> None:
    assert CliRunner().invoke(app, ["size", JOB, option]).exit_code == 2
