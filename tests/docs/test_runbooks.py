"""Each alert has a runbook, which begins with a command that there is."""

from __future__ import annotations

import re
import shlex
from itertools import takewhile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cutwater.cli.main import app
from cutwater.core.monitoring import alerts

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/RUNBOOKS.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\S+)\n\nFirst: `([^`]+)`$", PAGE, re.MULTILINE))
KINDS = (*alerts.KINDS, alerts.REPEATED_FAILURE)


def test_each_kind_has_its_section_and_its_first_step() -> None:
    assert SECTIONS == alerts.FIRST_STEPS
    assert set(SECTIONS) == set(KINDS)
    assert PAGE.count("\n## ") == len(SECTIONS)


def test_each_kind_is_in_the_table_of_alerts() -> None:
    table = (ROOT / "docs/OPERATING.md").read_text(encoding="utf-8")
    assert [one for one in KINDS if f"| `{one}` (" not in table] == []


@pytest.mark.parametrize("step", sorted(set(SECTIONS.values())))
def test_a_first_step_is_a_command(step: str) -> None:
    """Its verb has the options that are written."""
    words = shlex.split(step)
    assert words[0] == "cutwater"
    verb = list(takewhile(lambda one: not one.startswith("-"), words[1:]))
    told = CliRunner().invoke(app, [*verb, "--help"])
    assert told.exit_code == 0, told.output
    assert all(one in told.output for one in words if one.startswith("--"))
