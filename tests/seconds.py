"""How long each test took when all of them ran last: for the order, for even shares, for the time that is left.

`tests/seconds.json` has those of half a second or more, a number for all parameters of a test; `make test-all
RECORD=1` writes it.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).with_name("seconds.json")
LEAST_S = 0.5
OTHERS_S = 0.03
"""What a test that is not in the file takes, about."""
SAY_EVERY_S = 30.0


@cache
def _recorded() -> dict[str, float]:
    return dict(json.loads(FILE.read_text(encoding="utf-8"))) if FILE.exists() else {}


def expected_s(nodeid: str) -> float:
    return _recorded().get(nodeid.partition("[")[0], OTHERS_S)


def costliest_files_first(items: list[pytest.Item]) -> None:
    """Were a costly file the last, one worker would run it for long, and the other be idle."""
    cost: defaultdict[str, float] = defaultdict(float)
    for item in items:
        cost[str(item.path)] += expected_s(item.nodeid)
    items.sort(key=lambda item: -cost[str(item.path)])


class TimeLeft:
    """Says how far a run is, and how long the rest will take by what it has taken so far."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._began = self._said = time.monotonic()
        self._rest: dict[str, float] = {}
        self._all_s = 0.0
        self._count = 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._begin(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self._begin([one.nodeid for one in session.items])

    def _begin(self, ids: list[str]) -> None:
        if not self._rest:
            self._rest = {one: expected_s(one) for one in ids}
            self._all_s, self._count = sum(self._rest.values()), len(ids)
            self._began = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self._rest.pop(report.nodeid, None)
        now = time.monotonic()
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")  # not there when this is made
        if terminal is not None and now - self._said >= SAY_EVERY_S:
            self._said = now
            terminal.write_line(f"\n{self._line(now - self._began)}")

    def _line(self, gone_s: float) -> str:
        done = self._count - len(self._rest)
        rest_s = sum(self._rest.values())
        share = 1 - rest_s / self._all_s if self._all_s else 1.0
        left = (
            f"about {gone_s * (1 - share) / share / 60:.1f} minutes left"
            if share > 0.02
            else "time left not known"
        )
        return f"{done:,} of {self._count:,} tests, {gone_s / 60:.1f} minutes gone, {left}"


class Record:
    """Writes the file anew from a run of all tests."""

    def __init__(self) -> None:
        self._took: defaultdict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[report.nodeid.partition("[")[0]][report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        means = {test: sum(each.values()) / len(each) for test, each in self._took.items()}
        long = {test: round(mean, 1) for test, mean in sorted(means.items()) if mean >= LEAST_S}
        FILE.write_text(json.dumps(long, indent=0) + "\n", encoding="utf-8")
