"""The stages of the demonstration, with the seconds of each."""

from __future__ import annotations

from collections.abc import Callable


class Stages:
    """Each stage ends where the next one starts. `clock`: monotonic seconds."""

    def __init__(self, report: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._report, self._clock = report, clock
        self._first = self._began = clock()
        self._later: list[str] = []

    def report_done(self, what: str, later: bool = False) -> None:
        """Report a stage that has ended; `later`: together with the next one, below the live table."""
        now = self._clock()
        self._later.append(f"{what}: {now - self._began:.1f} s")
        self._began = now
        if not later:
            for line in self._later:
                self._report(line)
            self._later.clear()

    def end(self) -> None:
        self._report(f"took {self._clock() - self._first:.0f} s in all")
