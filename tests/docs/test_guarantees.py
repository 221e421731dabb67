"""docs/GUARANTEES.md says what the simulation holds."""

from __future__ import annotations

import re
from pathlib import Path

from simulation import checker
from simulation.__main__ import guards_table
from simulation.guards import GUARDS
from support.views import reader_guards

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs/GUARANTEES.md").read_text(encoding="utf-8")


def test_the_table_of_guards_is_that_of_the_tests() -> None:
    """Every guard with its invariant, history and anomalies; to renew it: python -m simulation --guards."""
    assert guards_table() in PAGE


def test_the_table_of_guards_by_reader_is_that_of_the_tests() -> None:
    """Every guard in every way of reading. To renew it: PYTHONPATH=tests python
    tests/support/views/reader_guards.py"""
    assert reader_guards.table() in PAGE


def test_every_word_of_the_checker_is_explained() -> None:
    """The page names each anomaly."""
    words = [one for name, one in vars(checker).items() if re.fullmatch("[A-Z_]+", name) and isinstance(one, str)]
    assert not [one for one in words if one not in PAGE]


def test_every_test_that_the_page_names_exists() -> None:
    """A name in backquotes that looks like a test is one, and a guard in quotes is in the table."""
    code = "".join(file.read_text(encoding="utf-8") for file in TESTS.rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", PAGE)
    assert named
    assert not [one for one in named if f"def {one}(" not in code]
    known = {one.name for one in GUARDS}
    quoted = [one for line in PAGE.splitlines() if "guard" in line for one in re.findall(r'"([^"]+)"', line)]
    assert set(quoted) <= known
