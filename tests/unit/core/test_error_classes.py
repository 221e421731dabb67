"""The exit codes that an error has, against the table that people look them up in."""

from __future__ import annotations

import re
from pathlib import Path

from cutwater.core import errors
from cutwater.core.errors import CutwaterError

README = Path(__file__).parents[3] / "README.md"
INTERRUPTED = 130
"""Of a signal, not of an error."""


def test_every_exit_code_of_an_error_is_told_and_no_other() -> None:
    """README, "Exit codes": a code that moves would break the scripts of those who read it there."""
    table = README.read_text(encoding="utf-8").partition("## Exit codes")[2].partition("\n## ")[0]
    told = {int(one) for one in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    raised = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, CutwaterError)]
    assert {one.exit_code for one in raised} == told - {0, INTERRUPTED}
