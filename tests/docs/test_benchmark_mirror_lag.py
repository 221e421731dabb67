"""B4's verdict of the lag, with plain values."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

PEER = "mirrormaker2"


@pytest.fixture
def run(part: Any) -> Any:
    """A run of ours: milestones are held soon, and said to have arrived at p99 after so long."""
    lag = part("mirror.lag")

    def ours(pair: int, arrived_ms: float) -> Any:
        held = {"p50": 1.0, "p99": 5.0, "max": 9.0}
        lags = {"held": held, "arrived": {"p50": 2.0, "p99": arrived_ms, "max": 9_999.0}}
        return lag.LagRun("cutwater", pair, 50, lags, 1.0, exact=True)

    return ours


def said(part: Any, *runs: Any) -> list[str]:
    return [one.rsplit(": ", 1)[1] for one in part("b4").lag_verdicts(runs)]


def test_a_lag_is_kept_up_to_two_seconds_and_an_interval(part: Any, run: Any) -> None:
    """The limit itself is kept. It is of the p99 until it is said, not of the slowest one or until it is there."""
    assert said(part, run(1, 2_200.0)) == ["kept)"]
    assert said(part, run(1, 2_200.1)) == ["not kept)"]
    assert part("b4").lag_verdicts([run(1, 190.4)]) == [
        "lag behind 80 ms, arrived at p99: 190 ms (at most 2,200: kept)"
    ]


def test_of_several_runs_the_median_counts_and_a_peer_has_no_limit(part: Any, run: Any) -> None:
    peer = replace(run(1, 0.0), contender=PEER, lags_ms={"held": {"p99": 9_000.0}})
    assert said(part, run(1, 5_000.0), run(2, 100.0), run(3, 200.0), peer) == ["kept)"]
    assert said(part, run(1, 100.0), run(2, 5_000.0), run(3, 6_000.0)) == ["not kept)"]
    assert said(part, peer) == said(part) == []


def test_the_files_tell_the_verdict(part: Any, run: Any, tmp_path: Path) -> None:
    """For programs and for people; also where only this part was run, and what is too slow is still exact."""
    results = part("b4").Results(SimpleNamespace(out=tmp_path))
    results.lags.append(run(1, 2_500.0))
    results.write()
    written = json.loads((tmp_path / "b4.json").read_text(encoding="utf-8"))
    assert written["verdicts"] == ["lag behind 80 ms, arrived at p99: 2,500 ms (at most 2,200: not kept)"]
    assert written["exact"], "a verdict is told, and fails nothing"
    assert f"- {written['verdicts'][0]}\n" in (tmp_path / "b4.md").read_text(encoding="utf-8")
