"""What the demonstration tells, step by step: lines for people, and the same as plain values."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cutwater.adapters.runtime.terminal import Terminal
from cutwater.core.errors import CutwaterError
from cutwater.core.util.text_tables import Styled, Table


class Telling:
    """Every step with the second at which it began, and what was found."""

    def __init__(self, console: Terminal, logs: str) -> None:
        """`logs`: where to look when a step fails."""
        self._console = console
        self._logs = logs
        self._begun = time.monotonic()
        self._steps: list[dict[str, Any]] = []
        self._checks: list[dict[str, Any]] = []
        self._facts: dict[str, Any] = {}
        self._not_shown: list[str] = []

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._begun

    @property
    def right(self) -> bool:
        """Was every check passed, and any made?"""
        return bool(self._checks) and all(one["passed"] for one in self._checks)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A step of the story. An error in it says which it was, and where the logs are."""
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

    def say(self, line: str) -> None:
        """A line about the step."""
        self._console.print(_second(self.seconds), f"    {line}", whole=True)

    def fact(self, name: str, value: Any, line: str = "") -> None:
        """Something found: for programs by its name, for people as the line."""
        self._facts[name] = value
        if line:
            self.say(line)

    def check(self, what: str, passed: bool, found: str) -> None:
        """Something that must hold; `right` says whether all did."""
        self._checks.append({"check": what, "passed": passed, "found": found})
        mark = Styled("passed", "green") if passed else Styled("FAILED", "red")
        self._console.print(_second(self.seconds), "    ", mark, f" {what}: {found}", whole=True)

    def show(self, picture: Table) -> None:
        """A table; for people only."""
        self._console.table(picture)

    def not_shown(self, what: str) -> None:
        """Something that the story has and this version does not show yet."""
        self._not_shown.append(what)
        self.say(f"not shown: {what}")

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
