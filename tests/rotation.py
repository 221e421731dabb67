"""Costly variations of what other tests show too: a run may take a part of them, and says so."""

from __future__ import annotations

import re

import pytest

MARK = "rotating"


class Rotation:
    """Of the marked tests only those of one part are run: `--part 2/6` is the second sixth."""

    def __init__(self, config: pytest.Config) -> None:
        found = re.fullmatch(r"([1-9]\d?)/([1-9]\d?)", config.getoption("--part"))
        if not found or int(found[1]) > int(found[2]):
            raise pytest.UsageError("--part: write 2/6 for the second sixth")
        self._part, self._parts = int(found[1]) - 1, int(found[2])
        self._left_out = self._rotating = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        rotating = [item for item in items if item.get_closest_marker(MARK)]
        # In turn: neighbours are the variations of one test, and cost the same.
        out = [item for at, item in enumerate(rotating) if at % self._parts != self._part]
        items[:] = [item for item in items if item not in set(out)]
        config.hook.pytest_deselected(items=out)
        self._rotating, self._left_out = len(rotating), len(out)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["rotation"] = (self._rotating, self._left_out)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        told = getattr(node, "workeroutput", {}).get("rotation")
        if told:
            self._rotating, self._left_out = told

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(
            f"{self._left_out} of {self._rotating} tests marked {MARK!r} were left out by "
            f"--part {self._part + 1}/{self._parts}"
        )
