"""docs/LISTS.md and the help of the lists' verbs: every line is one that the command line accepts."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from cutwater.cli.main import app
from cutwater.core.rejection import REASONS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/LISTS.md").read_text(encoding="utf-8")
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
GROUPS = ("dead-letters", "late")


def lines() -> list[str]:
    shown = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
    for group in GROUPS:
        for verb in COMMANDS[group].commands.values():
            examples = " ".join((verb.help or "").split()).partition("Examples:")[2]
            assert examples, f"{group} {verb.name} has no examples"
            shown += [one.strip() for one in examples.split("·")]
    return shown


@pytest.mark.parametrize("line", lines())
def test_every_line_parses(line: str) -> None:
    """Group, verb and options exist, and their values are allowed."""
    words = shlex.split(line)
    assert words[0] == "cutwater"
    verb = COMMANDS[words[1]].commands[words[2]]
    context = verb.make_context(words[2], words[3:])
    assert set(context.params.get("reason") or ()) <= set(REASONS)


def test_the_page_of_the_format_lists_every_reason() -> None:
    """With the very words that stand on the topic."""
    page = (ROOT / "docs/FORMAT.md").read_text(encoding="utf-8")
    assert [one for one in REASONS if f"| `{one}` |" not in page] == []
