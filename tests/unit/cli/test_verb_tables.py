"""What every verb shows to people: legible in 80 columns, whole with --wide and in a pipe, and harmless."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from cutwater.cli.main import app
from cutwater.cli.state import get
from cutwater.core.util.printable_text import width
from support.cli.ptys import Pty
from support.cli.verb_records import HOSTILE, JOB_FILE, ROWS, SHOWN, STACK
from support.cli.verb_samples import SAMPLES, Sample, answering, keep_audit, put
from support.pages import ROOT

Shown = Callable[..., str]
TEXTS = [one for one in SAMPLES if one.words[:2] != ["schemas", "show"]]
"""All but what prints nothing else than JSON."""
COPIED = (
    "kafka-acls.sh",
    "kafka-transactions.sh",
    "written:",
    "created topic",
    "alert:",
    "held up:",
    "warning:",
    "export ",
)
"""Lines that are not broken, so that they can be copied or searched for, begin so; the draft of a job file too."""


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shown:
    def run(sample: Sample, *options: str, columns: int | None = 80) -> str:
        """Standard output, as a terminal of so many columns gets it, or a pipe without a width."""
        for name in [name for name in os.environ if name.startswith("CUTWATER_")]:
            monkeypatch.delenv(name)
        for name, value in {"CUTWATER_DATA_DIR": str(tmp_path / "data"), "NO_COLOR": "1"}.items():
            monkeypatch.setenv(name, value)
        for name in ("CI", "COLUMNS"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.chdir(ROOT)
        sample.patch(monkeypatch, tmp_path)
        keep_audit(monkeypatch)
        words = [word.replace("{}", str(tmp_path)) for word in sample.words]
        seen = Pty(columns) if columns else None
        file: Any = seen.file if seen else io.StringIO()
        with monkeypatch.context() as context:
            context.setattr(sys, "stdout", file)
            context.setattr(sys, "stderr", io.StringIO())
            with pytest.raises(SystemExit) as ended:
                typer.main.get_command(app).main([*words, *options])
        assert (ended.value.code or 0) == sample.code
        return seen.text if seen else file.getvalue()

    return run


@pytest.mark.parametrize("sample", TEXTS, ids=lambda one: " ".join(one.words[:2]))
def test_eighty_columns_are_enough(sample: Sample, shown: Shown) -> None:
    """No line is longer but for a single long word or a line to be copied; no control character reaches it."""
    text = shown(sample)
    assert {one for one in text if unicodedata.category(one) == "Cc"} <= {"\n"}
    long = [line for line in text.splitlines() if width(line) > 80 and not line.strip().startswith(COPIED)]
    assert [line for line in long if len(line.split()) > 2] == [] or sample.words[0] == "init"
    assert "\u202e" not in text


def named(verb: str) -> Sample:
    return next(one for one in SAMPLES if " ".join(one.words).startswith(verb))


_TAKEN = re.compile(r"in [\d.,]+ s \([\d,]+/s\)")
"""How long a verb took: no two runs are the same."""


def takes_wide() -> list[Sample]:
    """Verbs with the option --wide, as they are run here."""
    found = []
    for one in TEXTS:
        verb, words = typer.main.get_command(app), list(one.words)
        while hasattr(verb, "commands"):
            verb = verb.commands[words.pop(0)]
        if any("--wide" in option.opts for option in verb.params):
            found.append(one)
    return found


@pytest.mark.parametrize("sample", takes_wide(), ids=lambda one: " ".join(one.words[:2]))
def test_a_pipe_gets_what_wide_gets(sample: Sample, shown: Shown) -> None:
    """All columns, nothing under a row, no line broken: the same text, whatever the terminal's width."""
    wide, piped = (_TAKEN.sub("", one) for one in (shown(sample, "--wide"), shown(sample, columns=None)))
    assert "left out:" not in wide
    assert piped == wide


def test_every_table_can_be_widened() -> None:
    """No verb leaves columns out without the option that it names."""
    prints = re.compile(r"out\.table\(|^ +print_(report|records)\(", re.MULTILINE)
    files = (ROOT / "services/cutwater/cli").rglob("*.py")
    printing = {path.stem for path in files if prints.search(path.read_text())}
    reports = {"canary_report", "difference_report", "replay_report"}
    others = {"change", "report", "entries", "resync", "verify_regions"}
    others |= {"generation_rows", "stack_table", "status_rows"}
    assert printing - others - reports == {
        *("audit", "blame", "cadence", "chaos", "config", "distinct", "doctor", "export", "forks"),
        *("get", "history", "hot_keys", "incident", "lineage", "milestones", "mirror", "plan"),
        *("policy", "prune", "regions", "restore", "size", "skew", "snapshots", "spread", "tail", "verify"),
    }
    assert len(takes_wide()) >= 25


def test_what_is_left_out_is_named(shown: Shown) -> None:
    """Never the measures' names alone: how to see them, too."""
    text = shown(named("get"))
    assert text.splitlines()[0] == r"[/foo] \x1b[2J\x9b2J\u202eJFK at g1-local-00000000:2"
    assert text.splitlines()[1].split()[:3] == ["window_start", "measure_0", "measure_1"]
    said = " ".join(text.split("left out: ")[1].split())
    assert said.startswith("measure_3, measure_4, ")
    assert said.endswith("window_end, key; --wide shows all columns, --json all values")


def test_get_and_tail_write_a_number_alike(shown: Shown) -> None:
    """Exactly: no digit is lost, in neither of them."""
    assert "  1,263,109.430000007" in shown(named("get"))
    assert "  1,263,109.430000007" in shown(named("tail"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "The key NOPE has no windows at milestone g1-local-00000000:2.\n"),
        (
            ["--from", "2026-01-01", "--to", "2026-01-02"],
            "The key NOPE has no windows from 2026-01-01 before 2026-01-02 at milestone g1-local-00000000:2.\n",
        ),
    ],
)
def test_a_key_without_windows_is_told(options: list[str], said: str, shown: Shown) -> None:
    """In a sentence, and with exit code 1."""
    answer = {"key": "NOPE", "milestone": SHOWN, "rows": [], "next_from": None}
    patch = put(get, running_file=answering(require=STACK), ask=answer)
    assert shown(Sample(["get", "NOPE"], patch, code=1), *options, columns=None) == said


def test_long_facts_stand_under_their_start(shown: Shown) -> None:
    """A row of `history` is legible, and broken between facts."""
    lines = shown(named("history")).splitlines()
    assert lines[2].split()[:2] == ["2026-01-01T00:00:00Z", "driver"]
    assert lines[3].startswith("  found: planned -1; topic ")
    assert lines[5].startswith("  decided: goes on behind ")
    assert lines[7].startswith("  steps: 0 ms waiting for step 0; 997 ms waiting for step 1;")


@pytest.mark.parametrize(
    "verb", ["dead-letters list", "late list", "get", "history", "cadence", "verify", "regions", "status"]
)
def test_text_from_outside_is_seen_and_not_obeyed(verb: str, shown: Shown) -> None:
    """A key is shown with its escapes, and brackets are no markup."""
    assert r"[/foo] \x1b[2J\x9b2J\u202eJFK" in shown(named(verb), "--wide")
    assert HOSTILE in ROWS[0].values()


def test_an_error_is_one_message_and_not_obeyed() -> None:
    """What it quotes is escaped, and brackets in it are no markup."""
    done = CliRunner().invoke(app, ["forks", "decide", str(JOB_FILE), "--keep", HOSTILE, "--reason", "r"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert r"[/foo] \x1b[2J\x9b2J\u202eJFK" in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.replace("\n", "").isprintable()


def test_a_pipe_that_is_closed_ends_a_verb_quietly() -> None:
    """`cutwater config show | head -1` has what it wanted."""
    command = [sys.executable, "-m", "cutwater.cli.main", "config", "show"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1
