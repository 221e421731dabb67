"""Rows of two Parquet files, in any order."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

from cutwater.adapters.config.settings import Settings
from cutwater.core.errors import MachineError
from cutwater.core.protocol.cuts import Cut
from cutwater.local.chaos import replay
from cutwater.local.chaos.replay import ReplayComparison, compare_files

ROWS = "SELECT range // 10 AS key, range AS window_start, [range, 1] AS several FROM range(1000)"


def file(folder: Path, name: str, query: str) -> Path:
    path = folder / name
    duckdb.sql(query).write_parquet(str(path))
    return path


@pytest.mark.parametrize(
    ("query", "missing", "unexpected"),
    [
        (f"{ROWS} ORDER BY range DESC", 0, 0),
        (f"{ROWS} WHERE range <> 7", 1, 0),
        (f"{ROWS} UNION ALL SELECT 1, 7, [7, 1]", 0, 1),
        (ROWS.replace("[range, 1]", "[range, CASE range WHEN 7 THEN 2 ELSE 1 END]"), 1, 1),
    ],
)
def test_each_difference_is_counted(tmp_path: Path, query: str, missing: int, unexpected: int) -> None:
    replayed, served = file(tmp_path, "one.parquet", ROWS), file(tmp_path, "other.parquet", query)
    found = compare_files(replayed, served)
    assert found == ReplayComparison(1_000 - missing + unexpected, missing, unexpected)
    assert found.equal == (missing == unexpected == 0)


def test_the_users_settings_do_not_reach_beyond_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its alerts are told to nobody, its checkpoint goes with its folder, and its ports are no others'."""
    for name, value in {
        "CHECKPOINT": "s3a://bucket/checkpoint",
        "ORIGIN_REGION": "us",
        "ORIGIN_BOOTSTRAP_SERVERS": "kafka-us:9092",
        "ALERT_WEBHOOK_URL": "https://pager.example/alerts",
        "WATCH_ACTIONS": "restart",
        "OTLP_URL": "http://traces:4318",
        "DRIVER_PORT": "9100",
        "REPLICA": "true",
        "SELECT_KEYS": "a",
    }.items():
        monkeypatch.setenv(f"CUTWATER_{name}", value)
    for name, value in replay.OWN.items():
        monkeypatch.setenv(name, value)
    own = Settings()
    assert (own.checkpoint or None, own.origin_region, own.alert_webhook_url.get_secret_value()) == (None, "", "")
    assert (own.safe_actions, own.otlp_url, own.driver_port, own.replica) == (frozenset(), "", 0, False)
    assert own.select_keys == ""


def test_a_replay_whose_stack_has_ended_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half an hour for nothing; and its error says why."""
    monkeypatch.setattr(replay.commit_stream, "milestones", lambda *_: [])

    def check() -> None:
        raise MachineError("the driver has ended")

    target: Any = SimpleNamespace(cluster=None)
    job: Any = SimpleNamespace(name="some-replay", topic="some")
    with pytest.raises(MachineError, match="the driver has ended"):
        replay._wait_for(target, job, Cut(), check)
