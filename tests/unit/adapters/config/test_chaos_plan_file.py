"""Plans of faults: what is read, and that each mistake names its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutwater.adapters.config.chaos_plan_file import read_chaos_plan
from cutwater.core.chaos.plan import Fault
from cutwater.core.errors import UsageError

WHOLE = """
duration: 2m
lag_bound: 15s
load: {rate: 500, zipf: 1, shape: spike, bad: 0.01, move_hot_keys: 10s}
faults:
  40s: {stop: commit-signal, for: 5s}
  10s: {kill: driver}
  1m: {slow: rehydrator}
"""


def read(folder: Path, text: str) -> object:
    path = folder / "plan.yaml"
    path.write_text(text)
    return read_chaos_plan(path)


def test_a_plan_is_read(tmp_path: Path) -> None:
    """Faults in the order of their times; a lasting one without a time has ten seconds."""
    (tmp_path / "plan.yaml").write_text(WHOLE)
    plan = read_chaos_plan(tmp_path / "plan.yaml")
    assert (plan.seconds, plan.lag_bound_s, plan.recovery_s) == (120, 15, 60)
    assert list(plan.faults) == [
        Fault("kill", "driver", 10),
        Fault("stop", "commit-signal", 40, 5),
        Fault("slow", "rehydrator", 60, 10),
    ]
    assert plan.load is not None
    assert (plan.load.profile.rate, plan.load.profile.shape, plan.load.skew.exponent) == (500, "spike", 1)
    assert (plan.load.flaws.bad, plan.load.move_hot_keys_s) == (0.01, 10)


def test_clocks_and_disks_have_a_size(tmp_path: Path) -> None:
    """A slow disk has one by itself. A clock may go back, and may get there gradually."""
    clocks = "1s: {clock: driver, by: -20m, for: 5s}, 7s: {clock: watch, by: 2s, gradual: true}"
    text = f"duration: 1m\nfaults: {{{clocks}, 9s: {{slow_disk: driver}}}}"
    (tmp_path / "plan.yaml").write_text(text)
    assert list(read_chaos_plan(tmp_path / "plan.yaml").faults) == [
        Fault("clock", "driver", 1, 5, -1_200),
        Fault("clock", "watch", 7, 10, 2, gradual=True),
        Fault("slow_disk", "driver", 9, 10, 0.05),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lag_bound: 1s", "duration"),
        ("duration: long", ":1:"),
        ("duration: 1m\nspeed: 3", ":2:"),
        ("duration: 1m\nfaults:\n  5s: {kill: everybody}", ":3:"),
        ("duration: 1m\nfaults:\n  5s: {kill: driver, stop: driver}", ":3:"),
        ("duration: 1m\nfaults:\n  5s: {kill: driver, for: 3s}", "a kill does not last"),
        ("duration: 1m\nfaults:\n  soon: {kill: driver}", ":3:"),
        ("duration: 1m\nfaults:\n  2m: {kill: driver}", "not before the plan's end"),
        ("duration: 1m\nfaults:\n  5s: {stop: driver, for: 9s}\n  6s: {kill: driver}", "begins within"),
        ("duration: 1m\nload: {rate: -1}", ":2:"),
        ("duration: 1m\nfaults:\n  5s: {clock: driver}", "write by how much"),
        ("duration: 1m\nfaults:\n  5s: {clock: driver, by: -9999d}", "more than a clock may be moved"),
        ("duration: 1m\nfaults:\n  5s: {clock: driver, by: 0s}", "write by how much"),
        ("duration: 1m\nfaults:\n  5s: {clock: broker, by: 5s}", "compaction goes by"),
        ("duration: 1m\nfaults:\n  5s: {stop: driver, by: 5s}", "'by' is for slow_disk, clock"),
        ("duration: 1m\nfaults:\n  5s: {slow_disk: driver, gradual: true}", "'gradual' is for clock"),
        ("duration: 1m\nfaults:\n  5s: {slow_disk: driver, by: -5ms}", "more than nothing"),
        ("duration: 1m\nfaults:\n  5s: {slow_disk: driver, by: 11s}", "at most 10 s"),
        ("duration: 1m\nfaults:\n  5s: {restart: driver, for: 5s}", "a restart does not last"),
        ("duration: 2000h", "longer than a plan may be"),
        ("- 1", "duration and faults"),
        ("", "duration and faults"),
    ],
)
def test_a_mistake_names_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        read(tmp_path, text)
    assert "plan.yaml" in str(error.value)
    assert said in str(error.value)
