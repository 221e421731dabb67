"""The demonstration's report, step by step: lines for users, and the same as plain values."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cutwater.adapters.runtime.terminal import Terminal
from cutwater.core.errors import CutwaterError
from cutwater.core.util.text_tables import Styled, Table


class DemoReport:
    def __init__(self, console: Terminal, logs: str) -> None:
        """`logs`: where to look if a step fails."""
        self._console = console
        self._logs = logs
        self._begun = time.monotonic()
        self._steps: list[dict[str, Any]] = []
        self._checks: list[dict[str, Any]] = []
        self._facts: dict[str, Any] = {}
        self._not_shown: list[str] = []

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    @property
    def right(self) -> bool:
        """True if at least one check was made and all passed."""
        return bool(self._checks) and all(one["passed"] for one in self._checks)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Report a step. An error in it gets the step's name and the path of the logs."""
        number, begun = len(self._steps) + 1, self.seconds
        entry = {"step": name, "at_s": round(begun, 1)}
        self._steps.append(entry)
        self._console.print(_second(begun), " ", Styled(f"{number}. {name}", "bold"), whole=True)
        try:
            yield
        except CutwaterError as error:
            error.args = (f"step {number} ({name}) failed: {error}\nlogs and state are in {self._logs}",)
            raise
        entry["seconds"] = round(self.seconds - begun, 1)

    def print_line(self, line: str) -> None:
        self._console.print(_second(self.seconds), f"    {line}", whole=True)

    def fact(self, name: str, value: Any, line: str = "") -> None:
        """Record a fact: by name for programs, as a line for users."""
        self._facts[name] = value
        if line:
            self.print_line(line)

    def check(self, what: str, passed: bool, found: str) -> None:
        """Record a check; `right` is True only if all checks passed."""
        self._checks.append({"check": what, "passed": passed, "found": found})
        mark = Styled("passed", "green") if passed else Styled("FAILED", "red")
        self._console.print(_second(self.seconds), "    ", mark, f" {what}: {found}", whole=True)

    def show(self, picture: Table) -> None:
        """Print a table, which is not part of the plain values."""
        self._console.table(picture)

    def not_shown(self, what: str) -> None:
        """Record a part of the scenario that this version does not show."""
        self._not_shown.append(what)
        self.print_line(f"not shown: {what}")

    def as_json(self) -> dict[str, Any]:
        return {
            "right": self.right,
            "seconds": round(self.seconds, 1),
            "checks": self._checks,
            "facts": self._facts,
            "not_shown": self._not_shown,
            "steps": self._steps,
            "logs": self._logs,
        }


def _second(at_s: float) -> Styled:
    return Styled(f"{at_s:6.1f} s", "dim")
