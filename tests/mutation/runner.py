"""Runs mutants: pytest collects once, and each mutant is a fork of it with other code in one function.

A mutant that changes what runs at an import has a process of its own.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings

from mutation.lines import Map, Noting, path_of
from mutation.operators import Mutant
from mutation.swap import swap
from seconds import expected_s

MEMORY_BYTES = 8 << 30
LEAST_S, FACTOR = 8.0, 5.0
"""A mutant is given that long by the processor's clock, and so many times what its tests take without it."""
IDLE = 20.0
"""So many times as long by the wall's clock: the machine may be busy."""
BUDGET_S = 3.0
"""Of tests for one mutant."""
KILLED, SURVIVED, TIMEOUT, UNCOVERED = "killed", "survived", "timeout", "uncovered"

Say = Callable[[Mutant, str, float], None]


@dataclass
class _Child:
    mutant: Mutant
    pid: int
    began: float
    until: float


class Collected:
    """A plugin of pytest: chooses tests without broker and Spark, notes what they run, then runs mutants."""

    def __init__(
        self, mutants: list[Mutant], map_file: Path, say: Say, progress: Callable[[str], None], jobs: int
    ) -> None:
        self._mutants, self._file, self._say, self._progress = mutants, map_file, say, progress
        self._jobs = jobs
        self._items: dict[str, pytest.Item] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Quick and repeatable: no shrinking, no database, the same examples each time."""
        phases = (Phase.explicit, Phase.generate)
        common = settings.get_profile("cutwater")
        settings.register_profile("mutation", common, database=None, derandomize=True, phases=phases)
        settings.load_profile("mutation")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [one for one in items if _is_plain(one)]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._temp = session.config._tmp_path_factory  # type: ignore[attr-defined]
        self._items = {one.nodeid: one for one in session.items}
        known = self._noted()
        self._run(known)
        return True

    def _noted(self) -> Map:
        known = Map.read(self._file)
        missing = [one for name, one in self._items.items() if name not in known.tests]
        for at, item in enumerate(missing):
            if at % 200 == 0:
                self._progress(f"notes which functions each test runs: {at} of {len(missing)}")
            with Noting() as noting:
                reports = runtestprotocol(item, log=False, nextitem=_next(missing, at))
            if any(one.failed for one in reports):
                self._progress(f"left out, since it fails here without a mutant: {item.nodeid}")
            if not all(one.passed for one in reports):
                continue
            known.tests[item.nodeid] = noting.covered()
            if at % 500 == 499:
                known.write()
        known.tests = {name: one for name, one in known.tests.items() if name in self._items}
        known.write()
        return known

    def _run(self, known: Map) -> None:
        running: list[_Child] = []
        for mutant in self._mutants:
            while len(running) >= self._jobs:
                running = list(self._waited(running))
            began = time.monotonic()
            every = known.tests_of(mutant.module, mutant.function or None)
            tests = _within(known, every or known.tests_of(mutant.module, None))
            if not tests:
                self._say(mutant, UNCOVERED, 0.0)
                continue
            takes_s = sum(known.tests[one].took_s for one in tests)
            pid = os.fork()
            given_s = LEAST_S + FACTOR * takes_s
            if not pid:
                self._child(mutant, tests, given_s)
            running.append(_Child(mutant, pid, began, began + IDLE * given_s))
        while running:
            running = list(self._waited(running))

    def _waited(self, running: list[_Child]) -> Iterator[_Child]:
        """Those that still run."""
        time.sleep(0.02)
        for one in running:
            ended, status = os.waitpid(one.pid, os.WNOHANG)
            now = time.monotonic()
            if ended:
                code = os.waitstatus_to_exitcode(status)
                said = SURVIVED if code == 0 else TIMEOUT if code in (-signal.SIGXCPU, -signal.SIGKILL) else KILLED
                self._say(one.mutant, said, now - one.began)
            elif now > one.until:
                os.killpg(one.pid, signal.SIGKILL)
                os.waitpid(one.pid, 0)
                self._say(one.mutant, TIMEOUT, now - one.began)
            else:
                yield one

    def _child(self, mutant: Mutant, tests: list[str], given_s: float) -> None:
        code = 1
        try:
            os.setpgid(0, 0)
            nothing = os.open(os.devnull, os.O_RDWR)
            for one in (0, 1, 2):
                os.dup2(nothing, one)
            self._temp._basetemp = own = self._temp.getbasetemp() / str(os.getpid())
            own.mkdir()
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            resource.setrlimit(resource.RLIMIT_CPU, (int(given_s), int(given_s) + 1))
            code = self._tried(tests) if swap(mutant) else _alone(mutant, tests)
        finally:
            os._exit(code)

    def _tried(self, tests: list[str]) -> int:
        items = [self._items[one] for one in tests]
        for at, item in enumerate(items):
            if any(one.failed for one in runtestprotocol(item, log=False, nextitem=_next(items, at))):
                return 1
        return 0


def _next(items: list[pytest.Item], at: int) -> pytest.Item | None:
    return items[at + 1] if at + 1 < len(items) else None


def _within(known: Map, tests: list[str]) -> list[str]:
    left_s, chosen = BUDGET_S, []
    for one in tests:
        left_s -= known.tests[one].took_s
        if left_s < 0:
            break
        chosen.append(one)
    return chosen


def _alone(mutant: Mutant, tests: list[str]) -> int:
    """The mutant in a new process, whose import is changed."""
    files = sorted({path_of(one) for one in tests})
    wanted = set(tests)
    chosen = tests if len(tests) <= 300 else files
    words = [sys.executable, "-m", "mutation", "--alone", f"{mutant.module}:{mutant.name}"]
    assert wanted
    return subprocess.run([*words, *chosen], stdin=subprocess.DEVNULL, check=False).returncode


def _is_plain(item: pytest.Item) -> bool:
    """It starts no broker and no Spark, is not slow, and takes no time to speak of."""
    fixtures = set(getattr(item, "fixturenames", ()))
    if fixtures & {"broker", "kafka_jars", "spark"} or item.get_closest_marker("slow"):
        return False
    return expected_s(item.nodeid) < 4.0
