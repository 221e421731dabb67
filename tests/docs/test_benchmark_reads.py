"""The reads benchmark's load and figures, with plain values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def test_few_groups_are_asked_for_most_of_the_time(part: Any) -> None:
    """By 1/rank; a seed gives one load, another one another."""
    wanted = part("reading.load").choices(1_000, 20_000, 7)
    counts = np.bincount(wanted, minlength=1_000)
    assert counts[0] > 5 * counts[9] > 5 * counts[99]
    assert (wanted == part("reading.load").choices(1_000, 20_000, 7)).all()
    assert not (wanted == part("reading.load").choices(1_000, 20_000, 8)).all()


def test_the_layers_add_up_to_the_request(part: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of the whole is the application's own, and of the thread the view's."""
    timed = part("reading.timed_rehydrator")
    monkeypatch.setattr(timed, "_spent", timed.defaultdict(float))
    for layer, seconds in (("whole", 10.0), ("hop", 2.0), ("thread", 6.0), ("seek", 1.0), ("seek", 1.0)):
        timed.add(layer, seconds)
    timed.add("present", 1.0)
    found = timed.layers()
    assert set(found) == set(timed.LAYERS)
    assert sum(found.values()) == pytest.approx(10e6)
    assert (found["application"], found["seek"], found["shape"]) == (2e6, 2e6, 3e6)


def test_the_table_shows_waits_layers_and_rocksdb(part: Any) -> None:
    """HTTP is what the client saw beyond the application."""
    times = {"p50": 1.0, "p99": 2.0, "p99.9": 3.0}
    layers = dict.fromkeys(part("reading.timed_rehydrator").LAYERS, 100.0)
    plain = {"waited_ms": times, "served_ms": times, "cpu_s": 35.0, "served_mean_us": 1_000.0}
    written = {
        "machine": {"cores": 2}, "exact": True, "rate": 1_000, "seconds": 60, "rows": 5, "tail_rows_per_s": 9,
        "runs": [plain, {**plain, "rate": 100, "layers_us": layers}],
        "bare_ms": {"bare-gets": times, "bare-seeks": times},
    }  # fmt: skip
    text = "\n".join(part("reads").result_lines(written))
    assert "| due to answered | 1.000 | 2.000 | 3.000 |" in text
    assert "| HTTP: socket, server, queue, client | 400 | 40% |" in text
    assert "| seek and read | 100 | 10% |" in text
    assert "used 0.50 cores" in text


def test_what_does_not_fit_is_refused(part: Any) -> None:
    parse = part("reads").COMMAND.parse
    assert (parse([]).rate, parse([]).seconds) == (1_000, 60)
    for wrong in (["--rate", "0"], ["--seconds", "4000"], ["--size", "1"]):
        with pytest.raises(SystemExit) as refused:
            parse(wrong)
        assert refused.value.code == 2
