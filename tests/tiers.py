"""Which tests run: the quick ones of `make test`, the slow ones beside them, or a share of those.

- `slow`: what `make test` leaves to `make test-all`. Most are costly variations of what a quick test shows too.
- `variations`: the first of a test's parameters is quick, the others are slow.
- `needs(tool)`: slow, and skipped with that reason if the tool is missing; the run says so before it begins.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from importlib.util import find_spec
from typing import Any

import pytest

from cutwater.adapters.fetch.native_rows import usable
from seconds import expected_s
from support.kubernetes.chart import has_tools

QUICK, SLOW, ALL = "quick", "slow", "all"
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")


def _engine_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    asked = ["docker", "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(asked, capture_output=True, timeout=30, check=False).returncode == 0


TOOLS = {
    "kcat": lambda: shutil.which("kcat") is not None,
    "promtool": lambda: shutil.which("promtool") is not None,
    "docker": lambda: shutil.which("dockerd") is not None or _engine_answers(),
    "native": usable,
    "mount": lambda: shutil.which("mount") is not None and os.geteuid() == 0,
    "browser": lambda: find_spec("playwright") is not None and any(map(shutil.which, CHROMIUMS)),
    "helm": lambda: has_tools("helm", "kubeconform", "schemas"),
    "apiserver": lambda: has_tools("helm", "etcd", "kube-apiserver"),
}
"""What a machine may lack, and how that is found out. `native` is what `make native` builds, with Rust; `mount`
is the right to mount a small file system, which is filled; `browser` is Chromium with Playwright; `helm` is what
`make helm-tools` builds, with Go, and `apiserver` is what it builds with APISERVER=1."""


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--tier", default=ALL, choices=(QUICK, SLOW, ALL), help="which tests: quick, slow, or all")
    parser.addoption("--part", default="", help="of the slow tests one part only: 2/16 is the second sixteenth")
    parser.addoption("--area", default="", help="only tests of files whose path holds this word")


class Tiers:
    """Chooses among the collected tests, and counts what it leaves out."""

    def __init__(self, config: pytest.Config) -> None:
        self._tier: str = config.getoption("--tier")
        self._part = part_of(config.getoption("--part"))
        self._area: str = config.getoption("--area")
        self._left_out: dict[str, int] = {}
        self._lacking: dict[str, int] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        _mark_slow(items)
        chosen = [one for one in items if self._wanted(one)]
        if self._part:
            number, parts = self._part
            slow = [one for one in chosen if is_slow(one)]
            mine = set(share(slow, number, parts))
            chosen = [one for one in chosen if one in mine or not is_slow(one)]
        kept = set(chosen)
        out = [one for one in items if one not in kept]
        items[:] = chosen
        if out:
            config.hook.pytest_deselected(items=out)
        self._left_out = Counter(SLOW if is_slow(one) else QUICK for one in out)
        self._lacking = dict(_skip_without_tool(chosen))

    def _wanted(self, item: pytest.Item) -> bool:
        if self._area and self._area not in item.nodeid.partition("::")[0]:
            return False
        return self._tier in (ALL, SLOW if is_slow(item) else QUICK)

    def pytest_report_collectionfinish(self) -> list[str]:
        return _lacking_lines(self._lacking)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["tiers"] = (dict(self._left_out), self._lacking)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        told = getattr(node, "workeroutput", {}).get("tiers")
        if told:
            self._left_out, self._lacking = told

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in _lacking_lines(self._lacking):
            terminalreporter.write_line(line)
        if sum(self._left_out.values()):
            told = ", ".join(f"{count:,} {name}" for name, count in self._left_out.items() if count)
            terminalreporter.write_line(f"not run, as asked: {told} ('make test-all' runs every test)")


def is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


def part_of(text: str) -> tuple[int, int] | None:
    """(2, 16) of "2/16"; None of nothing."""
    if not text:
        return None
    found = re.fullmatch(r"([1-9]\d?)/([1-9]\d?)", text)
    if not found or int(found[1]) > int(found[2]):
        raise pytest.UsageError("--part: write 2/16 for the second sixteenth")
    return int(found[1]), int(found[2])


def share(items: list[pytest.Item], number: int, parts: int) -> list[pytest.Item]:
    """One of several shares that take about as long as each other; together they are all.

    Each test in turn, the longest first, goes to the share that has the least.
    """
    shares: list[list[pytest.Item]] = [[] for _ in range(parts)]
    seconds = [0.0] * parts
    for item in sorted(items, key=lambda one: (-expected_s(one.nodeid), one.nodeid)):
        least = seconds.index(min(seconds))
        shares[least].append(item)
        seconds[least] += expected_s(item.nodeid)
    return shares[number - 1]


def _mark_slow(items: list[pytest.Item]) -> None:
    first: dict[str, pytest.Item] = {}
    for item in items:
        test = item.nodeid.partition("[")[0]
        varies = item.get_closest_marker("variations") and first.setdefault(test, item) is not item
        if varies or item.get_closest_marker("needs"):
            item.add_marker("slow")


def _skip_without_tool(items: list[pytest.Item]) -> Counter[str]:
    """Skips what needs a tool that is missing; says how many tests that costs, by tool."""
    missing = {name for name, there in TOOLS.items() if not there()}
    cost: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("needs")
        if mark and mark.args[0] in missing:
            cost[mark.args[0]] += 1
            item.add_marker(pytest.mark.skip(reason=f"needs {mark.args[0]}, which is not here"))
    return cost


def _lacking_lines(lacking: dict[str, int]) -> list[str]:
    return [f"not here: {tool}; {count} tests that need it are skipped" for tool, count in lacking.items()]
