"""What a terminal gets, and what a pipe, NO_COLOR and a CI run get: the same facts as plain text."""

from __future__ import annotations

import io
import time
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutwater.adapters.runtime import terminal as terminals
from cutwater.adapters.runtime.terminal import Terminal, WaitStatus
from cutwater.core.util.text_tables import Column, Styled, table
from support.cli.ptys import Pty
from support.views.changelogs import until

WIDE = table("title", ("name", Column("more", 1), Column("why", below=True)), [("n" * 50, "m" * 40, "w" * 20)])
SENTENCE = "a sentence that is a little longer than the eighty columns of the terminal in which somebody reads it"


def everything(terminal: Terminal) -> None:
    """All that a verb can do with a terminal."""
    with terminal.status("[/foo]\x1b[2J") as status:
        status.update("still [/foo]\x1b[2J")
        time.sleep(0.2)
    with terminal.task("reading [/foo]", "rows", 2, transient=False) as progress:
        progress(1)
    with terminal.live() as show:
        show(WIDE)
    terminal.print(Styled("error:", "red"), " [/foo]\x1b[2J")
    terminal.print(SENTENCE)
    terminal.table(WIDE)


def in_a_terminal(**environment: str) -> str:
    seen = Pty()
    everything(Terminal(seen.file, {"TERM": "xterm", **environment}))
    return seen.text


PLAIN_WIDE = f"{'name':50}  {'more':40}  why"


def test_a_terminal_has_colours_and_a_width() -> None:
    """And something that moves; what does not fit is left out, and named."""
    seen = in_a_terminal()
    assert "\x1b[31merror:\x1b[0m" in seen
    assert "reading" in seen
    assert "left out: more; --wide shows all columns, --json all values" in seen
    assert SENTENCE.replace("in which", "in\nwhich") in seen
    assert PLAIN_WIDE not in seen


def test_no_color_is_plain_and_as_wide_as_the_terminal() -> None:
    """No escape sequence, nothing that moves: what is live is shown once, at its end."""
    seen = in_a_terminal(NO_COLOR="1")
    assert "\x1b" not in seen
    assert "reading" not in seen
    assert seen.count("left out: more") == 2


@pytest.mark.parametrize("environment", [{"CI": "true"}, {"CI": "1", "COLUMNS": "40"}])
def test_a_ci_run_is_plain_and_has_no_width(environment: dict[str, str]) -> None:
    """Whoever reads its log scrolls."""
    seen = in_a_terminal(**environment)
    assert "\x1b" not in seen
    assert seen.count(PLAIN_WIDE) == 2
    assert f"\n{SENTENCE}\n" in seen


def test_a_pipe_is_plain_and_has_no_width() -> None:
    """No line is broken or cut, and what markup would be is text."""
    file = io.StringIO()
    everything(Terminal(file, {"TERM": "xterm", "COLUMNS": "40", "FORCE_COLOR": "1"}))
    assert file.getvalue() == (
        f"title\n{PLAIN_WIDE}\n{'n' * 50}  {'m' * 40}  {'w' * 20}\n"
        rf"error: [/foo]\x1b[2J"
        f"\n{SENTENCE}\n"
        f"title\n{PLAIN_WIDE}\n{'n' * 50}  {'m' * 40}  {'w' * 20}\n"
    )


def test_nothing_moves_beside_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads standard output may draw on the terminal that standard error is."""
    seen = Pty()
    monkeypatch.setattr("sys.stderr", seen.file)
    monkeypatch.setattr("sys.stdout", io.StringIO())
    everything(Terminal("stderr", {"TERM": "xterm"}))
    assert "\x1b" not in seen.text


def test_wide_is_all_columns() -> None:
    """In a narrow terminal too."""
    seen = Pty()
    terminal = Terminal(seen.file, {"NO_COLOR": "1"})
    terminal.wide = True
    terminal.table(WIDE)
    assert PLAIN_WIDE in seen.text


def test_columns_may_be_said() -> None:
    """By COLUMNS, as for other programs; what is no number is not heeded."""
    seen = Pty(90)
    assert [Terminal(seen.file, {"COLUMNS": said}).columns for said in ("33", "many", "0", "")] == [33, 90, 90, 90]
    assert seen.text == ""


def test_a_narrow_encoding_loses_nothing() -> None:
    """What it has no letter for is escaped."""
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Terminal(file, {}).print("東京 \ud83d")
    file.seek(0)
    assert file.read() == "\\u6771\\u4eac \\ud83d\n"


def quiet(terminal: Terminal, text: str) -> None:
    with terminal.status(text) as status:
        status.update(text)


SHOWN: list[Callable[[Terminal, str], None]] = [
    lambda terminal, text: terminal.print(text),
    lambda terminal, text: terminal.print(text, whole=True),
    lambda terminal, text: terminal.print("about ", Styled(text, "red")),
    lambda terminal, text: terminal.table(table(text, [text], [[text]])),
    quiet,
]


@pytest.mark.parametrize("show", SHOWN)
@given(text=st.text(st.characters()))
def test_no_text_raises_or_is_obeyed(show: Callable[[Terminal, str], None], text: str) -> None:
    """Of control characters only the ends of lines reach a file."""
    file = io.StringIO()
    show(Terminal(file, {}), text)
    assert {one for one in file.getvalue() if unicodedata.category(one) == "Cc"} <= {"\n"}
    file.getvalue().encode()


def test_a_long_wait_has_lines_in_plain_output() -> None:
    """None in the first two seconds, then one every five: what is waited for at that moment."""
    said: list[str] = []
    now_s = [10.0]
    status = WaitStatus("waiting", said.append, now_s=lambda: now_s[0])
    for at in range(10, 20):
        now_s[0] = float(at)
        status.update(f"waiting at {at}")
    assert said == ["waiting at 12", "waiting at 17"]
    for at in (20, 22, 29):
        now_s[0] = float(at)
        status.remind()
    assert said[2:] == ["waiting at 19: 12 s", "waiting at 19: 19 s"], "a step that says nothing more"
    now_s[0] = 39.0
    status.update("waiting at 39")
    now_s[0] = 40.0
    status.remind()
    assert said[4:] == ["waiting at 39"]
    status.stop()
    now_s[0] = 60.0
    status.remind()
    assert len(said) == 5, "what a verb does then is no wait"


def test_a_step_that_says_nothing_has_lines_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe or a CI run nobody sees a spinner."""
    monkeypatch.setattr(terminals, "FIRST_AFTER_S", 0.05)
    file = io.StringIO()
    with Terminal(file, {}).status("reading the stream"):
        until(file.getvalue, "a line about the wait")
    assert file.getvalue() == "reading the stream: 0 s\n"
