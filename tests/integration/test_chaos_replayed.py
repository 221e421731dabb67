"""`cutwater chaos` on a whole stack: every kind of fault under load, and each row as a replay counts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cutwater.adapters.kafka import admin
from cutwater.local import running_file
from support.cli.commandline import Cli, running_stack
from support.cli.jsonshapes import parsed
from support.events import counting

pytestmark = pytest.mark.slow

PLAN = """
duration: 75s
lag_bound: 10s
recovery: 120s
load: {rate: 300, keys: 200, zipf: 1, bad: 0.01, out_of_order: 30s}
faults:
  5s: {kill: driver}
  25s: {stop: commit-signal, for: 4s}
  35s: {full_disk: rehydrator, for: 3s}
  45s: {slow: publisher, for: 5s}
  55s: {kill: broker}
"""
UNSTEADY = """
duration: 100s
lag_bound: 10s
recovery: 120s
load: {rate: 300, keys: 200, zipf: 1, bad: 0.01, out_of_order: 30s}
faults:
  3s: {clock: driver, by: -20m, for: 5s}
  12s: {clock: commit-signal, by: 20m, for: 5s, gradual: true}
  20s: {clock: publisher, by: -3h, for: 5s}
  28s: {clock: rehydrator, by: 3d, for: 5s}
  36s: {clock: rehydrator, by: -3h, for: 4s}
  44s: {clock: watch, by: 3h, for: 4s}
  52s: {clock: driver, by: 2d, for: 8s}
  70s: {slow_disk: rehydrator, for: 6s}
  80s: {slow_disk: driver, by: 20ms, for: 6s}
"""
"""A clock that is off by more than half an hour stops a driver, and a reader that is behind by more than one."""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    (tmp_path / "plan.yaml").write_text(PLAN)
    with running_stack(tmp_path, counting.job_text("broken", per_epoch=5_000), "--movable-clocks") as made:
        yield made


@pytest.mark.timeout(600)
def test_every_fault_happens_and_no_row_is_wrong(cli: Cli) -> None:
    """Nothing of the replay stays behind."""
    stack = running_file.require(cli.folder / "data")
    before = set(admin.names(stack.cluster))
    done = cli.run("chaos", str(cli.folder / "plan.yaml"), "--json", "--report", str(cli.folder / "page.html"))
    told = parsed(["chaos"], done.stdout)
    assert [one["fault"] for one in told["faults"]] == ["kill", "stop", "full_disk", "slow", "kill"]
    assert all(one["processes"] > 0 for one in told["faults"]), told
    assert told["faults"][0]["processes"] > 1, "the driver's Python and its JVM"
    assert told["produced"] > 15_000
    assert (told["caught_up"], told["rows"]["missing"], told["rows"]["unexpected"]) == (True, 0, 0), done.stderr
    assert told["rows"]["rows"] > 200
    assert done.returncode == 0, done.stderr
    assert set(admin.names(stack.cluster)) == before
    assert not (cli.folder / "data" / "chaos").exists()


@pytest.mark.timeout(600)
def test_no_row_is_wrong_whatever_the_clocks_say(cli: Cli) -> None:
    """Clocks that jump and drift, in either direction, and disks that are slow."""
    (cli.folder / "plan.yaml").write_text(UNSTEADY)
    done = cli.run("chaos", str(cli.folder / "plan.yaml"), "--json")
    if "strace" in done.stderr and done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.returncode in (0, 1), done.stderr
    told = parsed(["chaos"], done.stdout)
    assert all(one["processes"] > 0 for one in told["faults"]), told
    assert told["produced"] > 20_000
    assert (told["caught_up"], told["rows"]["missing"], told["rows"]["unexpected"]) == (True, 0, 0), done.stderr
    assert done.returncode == 0, done.stderr
    assert not list((cli.folder / "data" / "clocks").iterdir()), "no clock stays moved"
