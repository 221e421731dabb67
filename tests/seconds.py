"""How long each test took when all of them ran last: for the order, for even shares, for the time that is left.

`tests/seconds.json` has those of half a second or more, a number for all parameters of a test; `tests/tiers.json`
has the number of tests and their seconds by folder and tier, for docs/TESTS.md. `make test-all RECORD=1` writes
both.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from journal import Passed

FILE = Path(__file__).with_name("seconds.json")
TIERS_FILE = Path(__file__).with_name("tiers.json")
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


Tiers = dict[str, dict[str, tuple[int, int]]]
"""(number of tests, their seconds) by folder and tier."""


def tiers_of(took: Iterable[tuple[str, bool, float]]) -> Tiers:
    """The sums of tests, each its id, whether it is slow, and its seconds."""
    count: Counter[tuple[str, str]] = Counter()
    seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    for nodeid, slow, took_s in took:
        place = nodeid.split("/")[1], "slow" if slow else "quick"
        count[place] += 1
        seconds[place] += took_s
    found: Tiers = {}
    for folder, tier in sorted(count):
        found.setdefault(folder, {})[tier] = (count[folder, tier], round(seconds[folder, tier]))
    return found


class Record:
    """Writes both files anew from a run of all tests. `passed`: what an earlier part of the run has passed."""

    def __init__(self, passed: Mapping[str, Passed]) -> None:
        self._took = defaultdict(float, {nodeid: one.seconds for nodeid, one in passed.items()})
        self._slow = {nodeid for nodeid, one in passed.items() if one.slow}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[report.nodeid] += report.duration
        if "slow" in report.keywords:
            self._slow.add(report.nodeid)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return  # not all have run
        each: defaultdict[str, list[float]] = defaultdict(list)
        for nodeid, took_s in self._took.items():
            each[nodeid.partition("[")[0]].append(took_s)
        means = {test: sum(all_s) / len(all_s) for test, all_s in each.items()}
        long = {test: round(mean, 1) for test, mean in sorted(means.items()) if mean >= LEAST_S}
        FILE.write_text(json.dumps(long, indent=0) + "\n", encoding="utf-8")
        write_tiers(tiers_of((one, one in self._slow, took_s) for one, took_s in self._took.items()))


def write_tiers(found: Tiers) -> None:
    lines = [f"{json.dumps(folder)}: {json.dumps(tiers)}" for folder, tiers in found.items()]
    TIERS_FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
