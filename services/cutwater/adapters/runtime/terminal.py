"""Standard output and standard error, as a terminal, a pipe or a file.

Untrusted text reaches either only through `Terminal`, which escapes control characters. In a pipe, with NO_COLOR
or in a CI run the output is plain: no colours, no animation, no line cut or wrapped.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from cutwater.adapters.runtime.task_progress import TaskProgress
from cutwater.core.util.printable_text import printable, printable_lines
from cutwater.core.util.progress_rate import EVERY_S
from cutwater.core.util.text_tables import Line, Styled, Table, wrapped

if TYPE_CHECKING:
    from rich.console import Console

_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33}
_OFF = ("", "0", "false")
_TICK_S = 1.0
FIRST_AFTER_S = 2.0
"""How long a wait lasts before plain output has a line about it."""


class WaitStatus:
    """The current step of a wait: a spinner, or in plain output a line every few seconds."""

    def __init__(
        self,
        text: str,
        say: Callable[[str], None],
        status: Any = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`text`: the first step. `say`: prints a line. `status`: a `rich.status.Status` that is shown instead;
        None in plain output."""
        self._text, self._say, self._status, self._now_s = text, say, status, now_s
        self._began_s = self._said_s = now_s()
        self._stopped = False
        self._next_s = self._began_s + FIRST_AFTER_S

    def update(self, text: str) -> None:
        """Show another step."""
        self._text, self._said_s = text, self._now_s()
        if self._status is not None:
            self._status.update(_unmarked(text))
        else:
            self._print(text)

    def remind(self) -> None:
        """Show the step with the seconds since the wait began, if the caller has said nothing lately."""
        now_s = self._now_s()
        if self._stopped or now_s - self._said_s < FIRST_AFTER_S:
            return
        text = f"{self._text}: {now_s - self._began_s:.0f} s"
        if self._status is not None:
            self._status.update(_unmarked(text))
        else:
            self._print(text)

    def _print(self, text: str) -> None:
        if (now_s := self._now_s()) >= self._next_s:
            self._next_s = now_s + EVERY_S
            self._say(text)

    def stop(self) -> None:
        """Show nothing more by itself: what follows is no wait."""
        self._stopped = True
        if self._status is not None:
            self._status.stop()


@contextmanager
def _remind(status: WaitStatus, every_s: float) -> Iterator[None]:
    """Show how long a step takes that says nothing itself, from a thread."""
    ended = threading.Event()

    def run() -> None:
        pause_s = FIRST_AFTER_S
        while not ended.wait(pause_s):
            status.remind()
            pause_s = every_s

    threading.Thread(target=run, name="status", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


class Terminal:
    def __init__(self, stream: str | TextIO, environment: Mapping[str, str] = os.environ) -> None:
        """`stream`: a file, or `stdout` or `stderr`, which are looked up in `sys` at each use."""
        self._stream = stream
        self._environment = environment
        self.wide = False
        """True if --wide is given: tables have all columns, and no line is broken."""

    @property
    def file(self) -> TextIO:
        return getattr(sys, self._stream) if isinstance(self._stream, str) else self._stream

    @property
    def plain(self) -> bool:
        """True if only text is wanted: no colours and no animation."""
        said = self._environment.get
        if said("NO_COLOR") or said("TERM") == "dumb" or self._in_ci:
            return True
        # If standard output is a pipe, standard error is not animated either: the reader of the pipe may draw on
        # it.
        seen = (self.file, sys.stdout) if isinstance(self._stream, str) else (self.file,)
        return not all(map(_is_terminal, seen))

    @property
    def columns(self) -> int | None:
        """The width that tables and sentences are fitted into; None if the output has no visible width."""
        if self.wide or self._in_ci or not _is_terminal(self.file):
            return None
        with suppress(ValueError):
            if (said := int(self._environment.get("COLUMNS", ""))) > 0:
                return said
        with suppress(OSError, ValueError, AttributeError):
            if (found := os.get_terminal_size(self.file.fileno()).columns) > 0:
                return found
        return shutil.get_terminal_size().columns

    @property
    def _in_ci(self) -> bool:
        return self._environment.get("CI", "").lower() not in _OFF

    def print(self, *parts: str | Styled, whole: bool = False) -> None:
        """Print a text of one or several parts. `whole`: break no line, as for a command to be copied."""
        texts = [one if isinstance(one, Styled) else Styled(one) for one in parts]
        if not whole and self.columns is not None and not any(one.style for one in texts):
            text = printable_lines("".join(one.text for one in texts))
            indents = ((line, len(line) - len(line.lstrip())) for line in text.split("\n"))
            broken = [one for line, indent in indents for one in wrapped(line, self.columns, indent)]
            self._write("\n".join(broken))
        else:
            self._write("".join(self._coloured(printable_lines(one.text), one.style) for one in texts))

    def table(self, made: Table) -> None:
        for line in made.lines(self.columns):
            self._write(self._line(line))

    @contextmanager
    def status(self, text: str) -> Iterator[WaitStatus]:
        """Show a spinner with `text` during the block; in plain output, a line every few seconds of a long one."""
        if self.plain:
            status = WaitStatus(text, self.print)
            with _remind(status, EVERY_S):
                yield status
            return
        with self._console().status(_unmarked(text), spinner="dots") as shown:
            status = WaitStatus(text, self.print, shown)
            with _remind(status, _TICK_S):
                yield status

    @contextmanager
    def task(
        self, doing: str, unit: str, total: int | None = None, *, quiet: bool = False, transient: bool = True
    ) -> Iterator[TaskProgress]:
        """Yield what takes the amount done so far: a bar with rate and time left, or lines in plain output."""
        if quiet or self.plain:
            yield TaskProgress(doing, unit, total, (lambda _line: None) if quiet else self.print)
            return
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[said]}", markup=False),
        )
        with Progress(*columns, console=self._console(), transient=transient) as bar:
            yield TaskProgress(doing, unit, total, self.print, bar)

    @contextmanager
    def live(self) -> Iterator[Callable[[Table], None]]:
        """Yield a function that shows a table in place of the previous one; in plain output only the last one."""
        shown: list[Table] = []
        if self.plain:
            try:
                yield lambda made: shown.__setitem__(slice(None), [made])
            finally:
                for made in shown:
                    self.table(made)
            return
        from rich.live import Live
        from rich.text import Text

        with Live(console=self._console(), auto_refresh=False) as live:
            yield lambda made: live.update(
                Text.from_ansi("\n".join(map(self._line, made.lines(self.columns)))), refresh=True
            )

    def _console(self) -> Console:
        from rich.console import Console

        return Console(file=self.file, highlight=False, markup=False, width=self.columns)

    def _line(self, line: Line) -> str:
        return "".join(self._coloured(one.text, one.style) for one in line).rstrip(" ")

    def _coloured(self, text: str, style: str) -> str:
        return text if not style or self.plain else f"\x1b[{_CODES[style]}m{text}\x1b[0m"

    def _write(self, text: str) -> None:
        file = self.file
        encoding = getattr(file, "encoding", None) or "utf-8"
        file.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        file.flush()


def _unmarked(text: str) -> Any:
    from rich.text import Text

    return Text(printable(text))


def _is_terminal(file: Any) -> bool:
    try:
        return bool(file.isatty())
    except (AttributeError, ValueError):  # closed, or no stream at all
        return False
