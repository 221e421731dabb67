"""Progress of a task: rate and time left, on a terminal and where only lines can be printed."""

from __future__ import annotations

import io
from typing import Any

from cutwater.adapters.runtime.task_progress import TaskProgress, amount_text
from cutwater.adapters.runtime.terminal import Terminal
from cutwater.core.util.progress_rate import Rate
from support.cli.ptys import Pty


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_line_says_amount_rate_and_time_left() -> None:
    assert amount_text(Rate(1_200, 400.0, 4.5), 3_000, "rows") == "1,200 of 3,000 rows, 400/s, about 4 s left"
    assert amount_text(Rate(1_200, 400.0, None), None, "rows") == "1,200 rows, 400/s"


def test_lines_come_every_few_seconds() -> None:
    """The first after five seconds: a task that takes less prints nothing. A second task begins again."""
    said, clock = list[str](), Clock()
    progress = TaskProgress("restoring", "records", 2_000, said.append, now_s=clock)
    for second in range(1, 11):
        clock.now_s = 100.0 + second
        progress(second * 100)
    assert said == [
        "restoring: 500 of 2,000 records, 100/s, about 15 s left",
        "restoring: 1,000 of 2,000 records, 100/s, about 10 s left",
    ]
    progress(0, "reading view", 300)
    clock.now_s += 6
    progress(150, "reading view")
    assert said[2:] == ["reading view: 150 of 300 records, 25/s, about 6 s left"]


def test_a_pipe_gets_lines_and_no_escape_sequence() -> None:
    """In CI and with NO_COLOR, too: what takes minutes must not look dead."""
    file = io.StringIO()
    with Terminal(file, {}).task("exporting", "rows") as progress:
        _age(progress, 6)
        progress(600)
    assert file.getvalue() == "exporting: 600 rows, 100/s\n"


def test_nothing_is_said_if_only_values_are_wanted() -> None:
    file = io.StringIO()
    with Terminal(file, {}).task("exporting", "rows", quiet=True) as progress:
        _age(progress, 6)
        progress(600)
    assert file.getvalue() == ""


def test_a_terminal_gets_a_bar_with_the_same_facts() -> None:
    seen = Pty()
    with Terminal(seen.file, {"TERM": "xterm"}).task("reading [/x]", "rows", 1_200, transient=False) as progress:
        _age(progress, 6)
        progress(600)
    assert "reading [/x]" in seen.text
    assert "600 of 1,200 rows" in seen.text
    assert "s left" in seen.text


def _age(progress: Any, seconds: float) -> None:
    """Let the progress believe that it began earlier."""
    progress._rated._said_s = progress._now_s() - seconds
